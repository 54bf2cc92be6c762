#!/usr/bin/env bash
# Real pages, recorded in Chromium and then loaded by Chromium and by Longhaul's client over the same link, in turns: how far
# apart are the two? Prints the ratio of their median load times for each page and version of HTTP.
#
#   HAUL=target/release/haul scripts/pages.sh [FOLDER]
#
# FOLDER (target/pages) keeps the pages, the recordings and the runs. RTT=85ms,300ms, RUNS=7, RECORDINGS=6 and
# PAGES="agency dashboard www" may be set. The pages are npm packages; nginx serves them under the names of 13 hosts in a
# namespace. Best on a machine with nothing else to do: a page of frames needs its processors over a short path.
set -euo pipefail
cd "$(dirname "$0")/.."
haul=$(realpath "${HAUL:-target/release/haul}")
folder=${1:-target/pages}
for program in node npm nginx openssl chromium; do
  if ! command -v "$program" >/dev/null; then
    echo "skipped: $program is not installed; real pages are not loaded"
    exit 0
  fi
done
if ! unshare --map-root-user --mount --net true 2>/dev/null; then
  echo "skipped: this system allows no user namespaces; real pages are not loaded"
  exit 0
fi

mkdir -p "$folder"
folder=$(realpath "$folder")
cp scripts/pages/package.json scripts/pages/package-lock.json "$folder"
if ! (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then
  echo "skipped: npm cannot install the packages in scripts/pages/package.json; real pages are not loaded"
  exit 0
fi

export PAGES=${PAGES:-agency dashboard www}
for page in $PAGES; do
  rm -rf "${folder:?}/$page.toml" "${folder:?}/$page"
  unshare --map-root-user --mount --net scripts/pages/sites.sh "$folder" \
    "$haul" page record --insecure --runs "${RECORDINGS:-6}" "https://$page.example/" "$folder/$page.toml"
  run=$folder/runs/$page
  rm -rf "$run"
  "$haul" page replay "$folder/$page.toml" --browser --over h1x6+tls,h2+tls,h3 --rtt "${RTT:-85ms,300ms}" --samples "${RUNS:-7}" \
    --results "$run" >/dev/null
done

node - "$folder/runs" <<'END'
const { readdirSync } = require("node:fs");
const [folder] = process.argv.slice(2);
const pairs = [["chromium-h1", "h1x6+tls"], ["chromium-h2", "h2+tls"], ["chromium-h3", "h3"]];
console.log("page       RTT    pair                     Chromium    ours   Chromium ÷ ours (its quickest and slowest load)");
for (const page of process.env.PAGES.split(" ")) {
  const [run] = readdirSync(`${folder}/${page}`);
  const { cells, networks } = require(`${folder}/${page}/${run}/run.json`);
  for (const { name: network } of networks) {
    for (const names of pairs) {
      const [a, b] = names.map((name) => cells.find((cell) => cell.contender === name && cell.network === network));
      const row = page.padEnd(11) + network.padEnd(7) + names.join(" ÷ ").padEnd(24);
      if (a.status !== "ok" || b.status !== "ok") {
        console.log(row + (a.reason ?? b.reason));
        continue;
      }
      const marks = [a, b].map((cell) => (cell.disturbed ? ` ⚠ ${cell.contender} was disturbed by the machine` : "")).join("");
      const ratio = (time) => (time / b.median_s).toFixed(2);
      const range = `${ratio(Math.min(...a.samples_s))}–${ratio(Math.max(...a.samples_s))}`;
      const times = [a, b].map((cell) => `${cell.median_s.toFixed(3)} s`.padStart(9)).join(" ");
      console.log(row + `${times}   ${ratio(a.median_s)} (${range})${marks}`);
    }
  }
}
END

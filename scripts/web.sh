#!/usr/bin/env bash
# The HTML report's template. Needs node; without it, check, test and bench print what they skip.
#
#   scripts/web.sh build    builds web/ and copies the template to where `crates/report` embeds it
#   scripts/web.sh check    checks types, and that the template in the repository is up to date
#   scripts/web.sh test     opens reports in Chromium (after `cargo build --package haul`)
#   scripts/web.sh bench    measures their first paint in Chromium
#   scripts/web.sh pictures renews the pictures of the book
set -euo pipefail
cd "$(dirname "$0")/.."

template=crates/report/src/template.html
what=${1:-}
case $what in
  build | check | test | bench | pictures) ;;
  *) echo "usage: scripts/web.sh build|check|test|bench|pictures" >&2; exit 2 ;;
esac

without() {
  if [[ $what == build || $what == pictures ]]; then echo "$1" >&2; exit 1; fi
  echo "skipped: $2: $1"
  exit 0
}
losing="the HTML report is not checked"
if [[ $what == test || $what == bench ]]; then losing="reports are not opened in a browser"; fi
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  without "node is not installed (https://nodejs.org, 20.19 or later)" "$losing"
fi
if ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'; then
  without "node is $(node --version), but 20.19 or later is needed" "$losing"
fi

cd web
# The installed packages match the lock file if npm's record of them is newer.
if [[ ! node_modules/.package-lock.json -nt package-lock.json ]]; then
  log=$(mktemp)
  if ! npm ci --no-audit --no-fund --loglevel=error >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    rm -f "$log"
    without "npm cannot install the packages in web/package.json" "$losing"
  fi
  rm -f "$log"
fi

case $what in
  build)
    npm run --silent build -- --logLevel warn
    cp dist/index.html "../$template"
    ;;
  check)
    npm run --silent build -- --logLevel warn
    cmp dist/index.html "../$template" || { echo "$template is out of date; run \`make web\` and commit the result" >&2; exit 1; }
    ;;
  test) npm run --silent test ;;
  bench)
    node tests/bench.mjs
    node tests/bench-capture.mjs
    ;;
  pictures) node tests/pictures.mjs ../docs/src/report ;;
esac

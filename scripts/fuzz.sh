#!/usr/bin/env bash
# Runs fuzz targets, one after another, each for a number of seconds.
#
#   scripts/fuzz.sh SECONDS [TARGET…]    without TARGET, all of them
#
# It needs no nightly compiler: RUSTC_BOOTSTRAP lets the stable one use the sanitizer. What a target has learnt is kept in
# fuzz/corpus, an input that broke something in fuzz/artifacts, and the output in target/fuzz.
set -euo pipefail
cd -P "$(dirname "$0")/.."
export PATH=$PWD/target/tools/bin:$PATH:$HOME/.cargo/bin RUSTC_BOOTSTRAP=1

usage() {
  echo "usage: scripts/fuzz.sh SECONDS [TARGET…]" >&2
  exit 2
}

[[ ${1:-} =~ ^[0-9]+$ ]] || usage
duration=$1
shift

cargo fuzz --version >/dev/null 2>&1 || scripts/tool.sh cargo-fuzz 0.13.2 ||
  { echo "fuzz: cargo-fuzz could not be installed (cargo install cargo-fuzz --locked)" >&2; exit 1; }
(($#)) || mapfile -t targets < <(cargo fuzz list)
(($# == 0)) || targets=("$@")

echo "building (the first time: 20 minutes)"
for target in "${targets[@]}"; do cargo fuzz build "$target" 2>&1 | grep -E '^(error|warning: unused)' -A 8 >&2 || true; done

mkdir -p target/fuzz
failed=0
for target in "${targets[@]}"; do
  log=target/fuzz/$target.log
  printf '%-20s ' "$target"
  if cargo fuzz run "$target" -- -max_total_time="$duration" -timeout=30 >"$log" 2>&1; then
    sed -n 's/^Done \([0-9]*\) runs in \([0-9]*\) second(s)$/\1 inputs in \2 s, none failed/p' "$log"
  else
    failed=1
    echo "FAILED"
    grep -E 'panicked at|ERROR:|Test unit written to|^error' -A 2 "$log" | head -20 | sed 's/^/    /' || true
    echo "    the whole output: $log"
  fi
done
exit $failed

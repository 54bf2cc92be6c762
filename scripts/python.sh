#!/usr/bin/env bash
# The Python package. Needs Python 3.10 or later and, the first time, a package index; without them, it prints what it skips.
#
#   scripts/python.sh check   checks format, lints and types
#   scripts/python.sh test    runs the tests (after `cargo build --package haul`); further arguments go to pytest
#   scripts/python.sh book    renews the page of the book that describes the tables
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-}
case $what in
  check | test | book) shift ;;
  *) echo "usage: scripts/python.sh check|test|book [PYTEST-ARGUMENT…]" >&2; exit 2 ;;
esac

skip() {
  if [[ $what == book ]]; then echo "$1" >&2; exit 1; fi
  echo "skipped: the Python package is not ${what}ed: $1"
  exit 0
}
python=
for candidate in "${PYTHON:-python3}" python3.{14,13,12,11,10}; do
  if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [[ -z $python ]]; then skip "it needs Python 3.10 or later with venv (sudo apt-get install python3-venv)"; fi

target=${CARGO_TARGET_DIR:-target}
venv=$(realpath -m "$target/python/venv")
mkdir -p "$target/python"
exec 9>"$target/python/lock"
flock 9
# The installed packages match pyproject.toml if a copy of it is as new as the environment.
if ! cmp -s python/pyproject.toml "$venv/pyproject.toml"; then
  rm -rf "$venv"
  log=$(mktemp)
  if ! { "$python" -m venv "$venv" && "$venv/bin/pip" install --quiet --upgrade 'pip>=25.1' &&
    "$venv/bin/pip" install --quiet --group python/pyproject.toml:dev; } >"$log" 2>&1 9>&-; then
    tail -n 5 "$log" | cut -c 1-300 >&2
    rm -f "$log"
    skip "pip cannot install the packages in python/pyproject.toml"
  fi
  rm -f "$log"
  cp python/pyproject.toml "$venv"
fi
exec 9>&-

if [[ $what == test && -z ${LONGHAUL_HAUL:-} ]]; then
  # Of two builds, the newer one.
  newest=$({ find "$target/debug/haul" "$target/release/haul" -printf '%T@ %p\n' 2>/dev/null || true; } | sort -n | sed -n '$s/^[^ ]* //p')
  if [[ -n $newest ]]; then
    LONGHAUL_HAUL=$(realpath "$newest")
    export LONGHAUL_HAUL
  fi
fi
cache=$(realpath -m "$target/python")
export RUFF_CACHE_DIR=$cache/ruff MYPY_CACHE_DIR=$cache/mypy PYTHONPYCACHEPREFIX=$cache/pycache
cd python
case $what in
  check)
    "$venv/bin/ruff" format --check --quiet --config pyproject.toml . ../docs/src/notebooks
    "$venv/bin/ruff" check --quiet --config pyproject.toml . ../docs/src/notebooks
    "$venv/bin/mypy" --no-error-summary
    ;;
  # What is skipped is said in the words of the other tests.
  test)
    # In /tmp, because a longer path is too long for Ray's sockets.
    files=$(mktemp -d /tmp/longhaul.XXXXXX)
    trap 'rm -rf "$files"' EXIT
    # Ray writes to /tmp/ray and to a token in HOME otherwise.
    export RAY_TMPDIR=$files RAY_AUTH_MODE=disabled
    "$venv/bin/pytest" -p no:cacheprovider --basetemp "$files/tests" "$@" | sed -u 's/^SKIPPED \[[0-9]*\] /skipped: /'
    ;;
  book) PYTHONPATH=src "$venv/bin/python" tests/book.py ;;
esac

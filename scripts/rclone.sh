#!/usr/bin/env bash
# Builds rclone as target/tools/bin/rclone-new, unless it is there: a rival at its best, beside the distribution's own.
#
#   scripts/rclone.sh
#
# The distribution's rclone may be years old. Debian 12's waits 10 ms between any two WebDAV requests, which options can
# change only since version 1.63. rclone-new is built from source, through Go's module proxy and checksum database, and replaces
# nothing. Needs Go; takes minutes, and a gigabyte of Go's caches.
set -euo pipefail
cd -P "$(dirname "$0")/.."

# The one place that names the version.
version=v1.76.0

say() { echo "setup: $*"; }
tools=$PWD/target/tools/bin
if "$tools/rclone-new" version 2>/dev/null | grep -qx "rclone $version"; then exit 0; fi

skipped="the contenders rclone-new, rclone-tuned and rclone-mount-tuned are skipped"
if ! command -v go >/dev/null; then
  say "rclone $version is not built, because Go is missing: $skipped"
  say "to get it: install Go (https://go.dev/dl), then run scripts/rclone.sh"
  exit 1
fi
say "building rclone $version for the race; this takes some minutes"
mkdir -p "$tools"
work=$(mktemp -d -p target/tools)
trap 'rm -rf "$work"' EXIT
if CGO_ENABLED=0 GOBIN=$PWD/$work nice -n 10 go install -trimpath \
    -ldflags "-s -w -X github.com/rclone/rclone/fs.Version=$version" "github.com/rclone/rclone@$version" \
    >"$work/log" 2>&1 </dev/null; then
  mv "$work/rclone" "$tools/rclone-new"
else
  say "rclone $version cannot be built: $skipped"
  tail -n 5 "$work/log" | sed 's/^/    /'
  exit 1
fi

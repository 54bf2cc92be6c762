#!/usr/bin/env bash
# Builds rclone as target/tools/bin/rclone-new, unless it is there: a rival at its best, beside the distribution's own.
#
#   scripts/rclone.sh
#
# The distribution's rclone may be years old. Debian 12's waits 10 ms between any two WebDAV requests, which options can
# change only since version 1.63. rclone-new is built from source, through Go's module proxy and checksum database, and replaces
# nothing. Needs Go, a minute or two, and half a gigabyte of Go's caches.
#
# It is built with the backends and commands that the race uses, and says so with its version: with all 70 backends the
# build takes several times as long. Everything else is the release's: its sources, and the versions of its dependencies in its
# go.mod and go.sum. Its requests name themselves as the release does.
set -euo pipefail
cd -P "$(dirname "$0")/.."

# The one place that names the version.
version=v1.76.0
says="rclone $version (built with the webdav and local backends only)"

say() { echo "setup: $*"; }
tools=$PWD/target/tools/bin
if "$tools/rclone-new" version 2>/dev/null | grep -qxF "$says"; then exit 0; fi

skipped="the contenders rclone-new, rclone-tuned and rclone-mount-tuned are skipped"
if ! command -v go >/dev/null; then
  say "rclone $version is not built, because Go is missing: $skipped"
  say "to get it: install Go (https://go.dev/dl), then run scripts/rclone.sh"
  exit 1
fi

# rclone's main package with fewer imports.
main_package() {
  cat <<END
package main

import (
	"fmt"
	"os"

	_ "github.com/rclone/rclone/backend/local"
	_ "github.com/rclone/rclone/backend/webdav"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/copy"
	_ "github.com/rclone/rclone/cmd/copyto"
	_ "github.com/rclone/rclone/cmd/lsl"
	_ "github.com/rclone/rclone/cmd/mount"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		fmt.Println("$says")
		return
	}
	cmd.Main()
}
END
}

build() {
  local module
  module=$(go mod download -json "github.com/rclone/rclone@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') &&
    [[ -n $module ]] &&
    cp -r --no-preserve=mode "$module" "$work/rclone" &&
    main_package >"$work/rclone/rclone.go" &&
    CGO_ENABLED=0 nice -n 10 go build -C "$work/rclone" -mod=readonly -trimpath -buildvcs=false \
      -ldflags "-s -w -X github.com/rclone/rclone/fs.Version=$version" -o "$work/rclone-new" .
}

say "building rclone $version for the race; this takes a minute or two"
mkdir -p "$tools"
work=$(mktemp -d -p "$PWD/target/tools")
trap 'rm -rf "$work"' EXIT
if build >"$work/log" 2>&1 </dev/null; then
  mv "$work/rclone-new" "$tools/rclone-new"
else
  say "rclone $version cannot be built: $skipped"
  tail -n 5 "$work/log" | sed 's/^/    /'
  exit 1
fi

#!/usr/bin/env bash
# Installs one version of a program of cargo's into target/tools, unless it is there.
#
#   scripts/tool.sh cargo-NAME VERSION
#
# Such programs run for seconds, so that compiling them quickly matters more than their speed.
set -euo pipefail
cd -P "$(dirname "$0")/.."
export PATH=$PWD/target/tools/bin:$PATH:$HOME/.cargo/bin

name=$1 version=$2
if "$name" "${name#cargo-}" --version 2>/dev/null | grep -qwF "$version"; then exit 0; fi
CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
  CARGO_PROFILE_RELEASE_DEBUG=false cargo install "$name@$version" --locked --quiet --force --root target/tools \
  --target-dir target/tools/build
rm -rf target/tools/build

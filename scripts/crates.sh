#!/usr/bin/env bash
# Checks that the library crates are fit for crates.io: packages, documentation, and compatibility.
#
#   scripts/crates.sh check    checks all
#   scripts/crates.sh renew    accepts today's public API, and the version, as what later changes are compared with
#
# Compatibility is checked without a registry, which no release has reached yet: crates/NAME/public-api.txt lists every public
# item with its types, as cargo public-api prints them, and above them the version. An item that has gone or changed needs a
# new minor version (a new major one from 1.0 on); a new item needs only the list renewed, so that a review sees it.
set -euo pipefail
cd -P "$(dirname "$0")/.."
export PATH=$PWD/target/tools/bin:$PATH:$HOME/.cargo/bin

crates=(units capture link transport http explain dav) # in the order of publication
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
packages=()
for crate in "${crates[@]}"; do packages+=(--package "longhaul-$crate"); done

# Builds each crate from the files that would be published, with the other crates as the registry would have them. Files not
# committed yet are packaged too.
check_packages() {
  local log=$target/crates.log
  if ! cargo package --allow-dirty --locked "${packages[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    echo "crates: cargo package failed (above)" >&2
    return 1
  fi
  rm "$log"
}

check_documentation() {
  RUSTDOCFLAGS='--deny warnings --allow rustdoc::private_intra_doc_links' cargo doc --quiet --no-deps --locked "${packages[@]}"
}

# The public items of a crate. rustdoc's JSON is unstable: a stable rustdoc writes it if told that it is a compiler of its own.
public_api() {
  local crate=$1 library
  library=$(sed -n '/^\[lib\]/,/^\[/s/^name = "\(.*\)"/\1/p' "crates/$crate/Cargo.toml")
  printf '#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc "$@"\n' >"$target/rustdoc-json"
  chmod +x "$target/rustdoc-json"
  RUSTDOC=$target/rustdoc-json RUSTDOCFLAGS='-Z unstable-options --output-format json --cap-lints allow' \
    cargo doc --quiet --lib --no-deps --locked --package "longhaul-$crate"
  cargo public-api -ss --color never --rustdoc-json "$target/doc/$library.json"
}

# Whether a version may break what a previous one had: 0.2 after 0.1, 2 after 1.
may_break() {
  local old=$1 new=$2
  case $old in 0.*) [[ ${new%.*} != "${old%.*}" ]] ;; *) [[ ${new%%.*} != "${old%%.*}" ]] ;; esac
}

check_api() {
  local crate=$1 baseline=crates/$1/public-api.txt before gone
  public_api "$crate" >"$target/public-api.txt"
  before=$(sed -n '1s/^# //p' "$baseline")
  gone=$(comm -23 <(sed 1d "$baseline" | LC_ALL=C sort) <(LC_ALL=C sort "$target/public-api.txt"))
  if [[ -n $gone ]] && ! may_break "$before" "$version"; then
    echo "crates: longhaul-$crate $version lacks what $before has; restore it, or change the version in Cargo.toml:" >&2
    echo "    ${gone//$'\n'/$'\n'    }" >&2
    return 1
  fi
  if ! diff <(sed 1d "$baseline") "$target/public-api.txt" >&2; then
    echo "crates: the public API of longhaul-$crate has changed (above); accept it with: scripts/crates.sh renew" >&2
    return 1
  fi
}

need_public_api() {
  scripts/tool.sh cargo-public-api 0.52.0 ||
    { echo "crates: cargo-public-api could not be installed (cargo install cargo-public-api@0.52.0 --locked)" >&2; exit 1; }
}

mkdir -p "$target"
case ${1:-} in
  check)
    check_packages
    check_documentation
    need_public_api
    for crate in "${crates[@]}"; do check_api "$crate"; done
    ;;
  renew)
    need_public_api
    for crate in "${crates[@]}"; do
      { echo "# $version"; public_api "$crate"; } >"$target/public-api.txt"
      cp "$target/public-api.txt" "crates/$crate/public-api.txt"
    done
    ;;
  *) echo "usage: scripts/crates.sh check|renew" >&2; exit 2 ;;
esac

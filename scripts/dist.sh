#!/usr/bin/env bash
# Makes the packages in target/packages, and uses each of them in a clean Debian root.
#
#   scripts/dist.sh                 everything
#   scripts/dist.sh make PART...    only these: deb tarball wheel sbom sums crates
#   scripts/dist.sh test KIND...    only these, as made before: deb tarball wheel; servers
#
# `servers` are the tests that start servers: run by an ordinary user, in such a root, where none was ever started.
#
# The version is the workspace's, from Cargo.toml. Files are dated with the last commit, so that an unchanged source and
# compiler make the same packages. Each line printed begins with the seconds that the step took.
set -euo pipefail
cd -P "$(dirname "$0")/.."
export PATH=$PWD/target/tools/bin:$PATH:$HOME/.cargo/bin

target=${CARGO_TARGET_DIR:-target}
packages=target/packages # where Dockerfile and dist-test.sh look
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
glibc=$(rustc -vV | sed -n 's/^host: //p')
machine=${glibc%%-*}
musl=$machine-unknown-linux-musl
tarball=longhaul-$version-$machine-linux-musl
# Not exported, because the C compilers of build scripts would start anew after each commit.
commit_time=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)

skip() { echo "skipped: $*"; }

build() {
  local log=$target/dist-build.log
  cargo build --profile dist --locked --package haul "$@" 2>"$log" || { cat "$log" >&2; return 1; }
  rm "$log"
}

# What the packages have besides the program: manual pages and completions, written by the program itself.
assets() {
  local haul=$target/dist/haul into=$target/dist/assets
  rm -rf "$into"
  mkdir -p "$into/man" "$into/completions"
  "$haul" man "$into/man" >/dev/null
  gzip -9n "$into/man"/*
  "$haul" completions bash >"$into/completions/haul"
  "$haul" completions zsh >"$into/completions/_haul"
  "$haul" completions fish >"$into/completions/haul.fish"
  notices >"$into/THIRD-PARTY-LICENSES"
}

# The licences of the crates that are linked into the program: each text once, below the crates that have it.
notices() {
  local crate number file
  cargo tree --locked --package haul --edges normal --target "$glibc" --prefix none --format '{p}' | awk '{ print $1, $2 }' | sort -u |
    while read -r crate number; do
      for file in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$crate-${number#v}"/{LICEN[CS]E,COPYING,COPYRIGHT,NOTICE}*; do
        if [[ -f $file ]]; then echo "$(sha256sum <"$file" | cut -c1-64)|$crate ${number#v}|$file"; fi
      done
    done | sort -u -t '|' -k1,1 -k2,2 | awk -F'|' '
      { crates[$1] = crates[$1] (crates[$1] ? ", " : "") $2; if (!($1 in text)) order[++n] = $1; text[$1] = $3 }
      END { for (i = 1; i <= n; i++) {
        print "==== " crates[order[i]] "\n"
        while ((getline line <text[order[i]]) > 0) print line
        print ""
      } }'
}

make_deb() {
  scripts/tool.sh cargo-deb 3.8.0
  build
  assets
  rm -f "$packages"/longhaul_*.deb
  SOURCE_DATE_EPOCH=$commit_time cargo deb --quiet --no-build --profile dist --package haul --output "$packages/"
}

make_tarball() {
  local folder=$packages/$tarball
  if ! rustc --print target-libdir --target "$musl" | xargs test -d && ! rustup target add "$musl" >/dev/null 2>&1; then
    skip "the tarball: Rust's target $musl is missing (rustup target add $musl)"
    return
  fi
  if ! command -v musl-gcc >/dev/null; then
    skip "the tarball: musl-gcc is missing (sudo apt-get install musl-tools)"
    return
  fi
  [[ -d $target/dist/assets ]] || make_deb
  build --target "$musl"
  rm -rf "$folder" "$folder.tar.gz"
  mkdir -p "$folder"
  strip -o "$folder/haul" "$target/$musl/dist/haul"
  cp -r "$target/dist/assets/man" "$target/dist/assets/completions" contrib/systemd "$folder"
  cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$target/dist/assets/THIRD-PARTY-LICENSES" "$folder"
  chmod -R u=rwX,go=rX "$folder"
  tar -C "$packages" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$commit_time" -c "$tarball" |
    gzip -9n >"$folder.tar.gz"
  rm -rf "$folder"
}

# The wheel is built by maturin, from python/pyproject.toml. Its version comes from the crate.
make_wheel() {
  local tools=target/tools/maturin
  if [[ ! -e python/pyproject.toml ]]; then skip "the wheel: there is no python/pyproject.toml"; return; fi
  if [[ ! -x $tools/bin/maturin ]]; then
    if ! python3 -m venv "$tools"; then skip "the wheel: python3 has no venv (sudo apt-get install python3-venv)"; return; fi
    "$tools/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
  fi
  rm -f "$packages"/longhaul-*.whl
  (cd python && "../$tools/bin/maturin" build --quiet --profile dist --locked --out "../$packages")
}

# The dependencies of `haul` on this system, in CycloneDX. cargo-cyclonedx writes one file beside each Cargo.toml, and the
# workspace's path into it; neither belongs there.
make_sbom() {
  local name=longhaul-sbom
  scripts/tool.sh cargo-cyclonedx 0.5.9
  SOURCE_DATE_EPOCH=$commit_time cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$glibc" --no-build-deps \
    --override-filename "$name"
  sed "s,file://$PWD,file:///longhaul,g" "crates/haul/$name.json" >"$packages/longhaul-$version.cdx.json"
}
trap 'rm -f crates/*/longhaul-sbom.json tests/*/longhaul-sbom.json' EXIT

# Nothing is made for crates.io but the certainty that it could be.
make_crates() { scripts/crates.sh check; }

make_sums() {
  (cd "$packages" && sha256sum -- longhaul[-_]* >SHA256SUMS)
}

# Whether a package of this kind exists; one that could not be made has been reported already.
exists() {
  case $1 in
    deb) compgen -G "$packages/longhaul_*.deb" ;;
    tarball) [[ -e $packages/$tarball.tar.gz ]] ;;
    wheel) compgen -G "$packages/longhaul-*.whl" ;;
  esac >/dev/null
}

test_package() {
  local status=0
  exists "$1" || { skip "the test of the $1: it was not made"; return; }
  scripts/clean-root.sh /context/scripts/dist-test.sh "$1" "$version" || status=$?
  if ((status == 77)); then skip "the test of the $1 (above)"; return; fi
  return "$status"
}

test_servers() { scripts/test.sh --clean 'race|contenders|^(haul|serve|gateway|mount) test'; }

# Runs a step and prints its time. Not as `"$@" || …`, which would let it continue after an error.
timed() {
  local began=$SECONDS
  what=$1
  "${@:2}"
  printf '%4d s  %s\n' $((SECONDS - began)) "$what"
}
what=
trap 'echo "FAILED: $what" >&2' ERR

command=${1:-all}
if (($# > 0)); then shift; fi
case $command in
  all) parts=(deb tarball wheel sbom sums crates) kinds=(deb tarball wheel servers) ;;
  make) parts=("$@") kinds=() ;;
  test) parts=() kinds=("$@") ;;
  *) echo "usage: scripts/dist.sh [make PART... | test KIND...]" >&2; exit 2 ;;
esac

mkdir -p "$packages"
for part in "${parts[@]}"; do
  case $part in
    deb | tarball | wheel | sbom | sums | crates) timed "make $part" "make_$part" ;;
    *) echo "dist: there is no part $part; parts are deb, tarball, wheel, sbom, sums and crates" >&2; exit 2 ;;
  esac
done
for kind in "${kinds[@]}"; do
  case $kind in
    deb | tarball | wheel) timed "test $kind" test_package "$kind" ;;
    servers) timed "test $kind" test_servers ;;
    *) echo "dist: there is no kind $kind; kinds are deb, tarball, wheel and servers" >&2; exit 2 ;;
  esac
done
if ((${#parts[@]} > 0)); then (cd "$packages" && du --apparent-size --block-size=KiB -- * | sed 's/^/        /'); fi

#!/usr/bin/env bash
# Follows the README as somebody does who has just cloned the repository: `make race` and `make test`, in a clean Debian root.
#
#   scripts/fresh.sh user|root...
#
# The root has only what the README asks for: make, a C compiler, and Rust (the machine's, read-only). As root, the two
# commands install the rest. An ordinary user is told what is missing, and an administrator installs that. No server was ever
# started there. Afterwards, no process of the user and no temporary file may be left. The home, with what was built, is on
# disk, in target/fresh, and goes with the root; the whole output stays, in target/fresh/user.log and root.log.
set -euo pipefail
cd -P "$(dirname "$0")/.."

say() { printf '\n==== fresh: %s\n' "$*"; }

# Prints how long a command took, and fails as it does.
timed() {
  local began=$SECONDS status=0
  say "$2, as $1"
  "as_$1" bash -c "cd && cd longhaul && $2" || status=$?
  say "$2, as $1: status $status, $((SECONDS - began)) s; $(du -sh --apparent-size "$home/longhaul/target" 2>/dev/null | cut -f1) in target"
  return "$status"
}
# As after a login.
# shellcheck disable=SC2317 # called as as_$who
as_root() { env -i HOME=/root USER=root LANG=C.UTF-8 TERM=dumb PATH="$rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"; }
as_user() {
  setpriv --reuid=newcomer --regid=newcomer --init-groups --inh-caps=-all env -i HOME="$home" USER=newcomer LANG=C.UTF-8 \
    TERM=dumb PATH="$rust/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games" "$@"
}

# What the README asks for.
prepare() {
  apt-get -qq update
  apt-get -qq install --yes --no-install-recommends make gcc libc6-dev ca-certificates >/dev/null
  if [[ $1 == user ]]; then
    useradd --no-create-home --home-dir "$home" --shell /bin/bash newcomer
    chown -R newcomer: "$home"
  else
    chown -R root: "$home"
  fi
}

# Does what the user is told: an administrator's `apt-get install`.
install_as_told() {
  local told
  told=$(as_user bash -c 'cd && cd longhaul && scripts/setup.sh test') || true
  echo "$told"
  told=$(sed -n 's/^setup: to install them, as root: apt-get install //p' <<<"$told")
  if [[ -n $told ]]; then
    say "apt-get install $told"
    # shellcheck disable=SC2086 # several words
    apt-get -qq install --yes $told >/dev/null
  fi
}

# What is left behind, a line for each.
left() {
  local pid
  find /tmp /var/tmp /dev/shm -mindepth 1 -maxdepth 1
  if [[ $1 == user ]]; then
    find /proc -maxdepth 1 -name '[0-9]*' -user newcomer | while read -r pid; do tr '\0' ' ' <"$pid/cmdline" && echo; done
  fi
  grep -E 'haul|davfs|rclone' /proc/self/mounts || true
}

# In the clean root.
inside() {
  local who=$1 status=0 remains
  prepare "$who"
  if [[ $who == user ]]; then install_as_told; fi
  timed "$who" 'make race' || status=1
  timed "$who" 'make test' || status=1
  sleep 2
  remains=$(left "$who")
  if [[ -n $remains ]]; then
    say "left behind:"
    echo "$remains"
    status=1
  fi
  return "$status"
}

# The files of the repository, as they are here, without what Git ignores.
copy_source() {
  mkdir -p "$1/longhaul"
  git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do if [[ -e $file ]]; then printf '%s\0' "$file"; fi; done |
    tar --create --null --files-from - | tar --extract --directory "$1/longhaul"
}

run() {
  local who=$1 began=$SECONDS status=0 home=/home/newcomer place=$fresh/$1
  if [[ $who == root ]]; then home=/root; fi
  rm -rf --one-file-system "$place"
  copy_source "$place"
  setpriv --pdeathsig TERM scripts/clean-root.sh --bind "$place:$home" --show "$(rustc --print sysroot):/usr/local/rust" \
    /context/scripts/fresh.sh --inside "$who" >"$fresh/$who.log" 2>&1 || status=$?
  rm -rf --one-file-system "$place"
  grep -A20 '^==== fresh: .*status\|^==== fresh: left' "$fresh/$who.log" | grep -E '^==== fresh: (.*status|left)' || true
  if ((status == 77)); then
    tail -n 1 "$fresh/$who.log"
  elif ((status > 0)); then
    echo "FAILED: the README's commands as $who, after $(((SECONDS - began) / 60)) min; the end of $fresh/$who.log:"
    tail -n 40 "$fresh/$who.log"
  else
    echo "passed: the README's commands as $who, in $(((SECONDS - began) / 60)) min; the whole output: $fresh/$who.log"
  fi
  return "$status"
}

rust=/usr/local/rust
if [[ ${1:-} == --inside ]]; then
  home=/root
  if [[ $2 == user ]]; then home=/home/newcomer; fi
  inside "$2"
  exit
fi
(($# > 0)) || { echo "usage: scripts/fresh.sh user|root..." >&2; exit 2; }
for who; do
  case $who in user | root) ;; *) echo "usage: scripts/fresh.sh user|root..." >&2; exit 2 ;; esac
done
fresh=${CARGO_TARGET_DIR:-target}/fresh
mkdir -p "$fresh"
fresh=$(cd -P "$fresh" && pwd)
failed=0
for who; do run "$who" || failed=$?; done
exit "$failed"

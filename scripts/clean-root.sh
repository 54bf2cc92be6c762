#!/usr/bin/env bash
# Runs a command as root in a clean Debian root, which vanishes with the command.
#
#   scripts/clean-root.sh [--bind FOLDER[:TARGET]]... [--show FOLDER[:TARGET]]... COMMAND...
#
# The root has the packages of `debootstrap --variant=minbase` and nothing else. It is made once, with mmdebstrap from the
# machine's own Debian mirror, and kept as target/roots/SUITE.tar; each run unpacks it into memory. The workspace is mounted
# at /context, read-only; --bind mounts another folder, and --show mounts one read-only. Everything happens in mount and
# process namespaces of its own: however this script ends, the kernel removes the mounts and ends the processes. Not chroot,
# because the kernel refuses user namespaces to processes in one. $CLEAN_ROOT is the id by which the machine knows the first
# process of the root, for nsenter(1).
#
# Exit status: the command's, or 77 if this machine cannot make such a root; then one line says why.
set -euo pipefail
cd -P "$(dirname "$0")/.."

suite=bookworm
roots=${CARGO_TARGET_DIR:-target}/roots
mkdir -p "$roots"
roots=$(cd -P "$roots" && pwd)

skip() { echo "skipped: no clean Debian root: $1" >&2; exit 77; }

# The machine's sources of this suite, as lines of sources.list.
sources() {
  # shellcheck disable=SC2016 # the placeholders are apt's
  apt-get indextargets --format '$(LABEL)|$(SITE)|$(RELEASE)' 'Created-By: Packages' 'Component: main' |
    awk -F'|' -v suite="$suite" 'index($1, "Debian") == 1 && index($3, suite) == 1 { print "deb", $2, $3, "main" }' | sort -u
}

make_root() {
  local log sources
  sources=$(sources)
  [[ -n $sources ]] || skip "apt knows no Debian $suite here; add it to the machine's sources, then: sudo apt-get update"
  log=$(mktemp)
  if ! mmdebstrap --quiet --variant=minbase "$suite" "$roots/$suite.new.tar" - <<<"$sources" >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    rm -f "$log" "$roots/$suite.new.tar"
    skip "mmdebstrap failed (above)"
  fi
  rm -f "$log"
  mv "$roots/$suite.new.tar" "$roots/$suite.tar"
}

# Mounts the folders that are named by options.
show_folders() {
  local root=$1 option from to
  while read -r option from; do
    to=$root${from#*:}
    from=${from%%:*}
    if [[ -d $from ]]; then mkdir -p "$to"; else mkdir -p "${to%/*}" && touch "$to"; fi
    mount --bind "$from" "$to"
    if [[ $option == --show ]]; then mount -o remount,bind,ro "$to"; fi
  done <<<"$2"
}

# Prepares the root and becomes its first process; runs in the new namespaces.
enter() {
  local root=$roots/root device folders=$1 id
  shift
  read -r id _ </proc/self/stat # still the machine's /proc
  mkdir -p "$root" "$roots/archives"
  mount -t tmpfs -o mode=0755,size=80% root "$root"
  tar -C "$root" --numeric-owner -xf "$roots/$suite.tar"
  cp --dereference --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
  # Certificates that this machine trusts, such as those of its network's proxy, are trusted there once ca-certificates is
  # installed.
  if [[ -r /etc/ssl/certs/ca-certificates.crt ]]; then
    install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/usr/local/share/ca-certificates/machine.crt"
  fi
  # As installers and container engines do.
  ln -sf ../proc/self/mounts "$root/etc/mtab"
  printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 %s\n' "$(uname -n)" >"$root/etc/hosts"
  # As in a container: no service starts.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod 0755 "$root/usr/sbin/policy-rc.d"

  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sys "$root/sys"
  mount -t tmpfs -o mode=0755 dev "$root/dev"
  mkdir "$root"/dev/{net,pts,shm}
  for device in null zero full random urandom tty net/tun fuse; do
    [[ -c /dev/$device ]] || continue
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 pts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  for device in 0/stdin 1/stdout 2/stderr; do ln -s "/proc/self/fd/${device%/*}" "$root/dev/${device#*/}"; done
  mount -t tmpfs -o mode=1777 shm "$root/dev/shm"

  # Packages that were downloaded once are kept for the next run.
  mount --bind "$roots/archives" "$root/var/cache/apt/archives"
  mkdir "$root/context" "$root/.machine"
  mount --bind -o ro . "$root/context"
  if [[ -n $folders ]]; then show_folders "$root" "$folders"; fi

  cd "$root"
  pivot_root . .machine
  cd /
  umount --lazy /.machine
  rmdir /.machine
  trap 'exit 130' INT
  trap 'exit 143' TERM
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
    DEBIAN_FRONTEND=noninteractive CLEAN_ROOT="$id" "$@"
}

if [[ ${1:-} == --enter ]]; then
  enter "${@:2}"
  exit
fi
folders=
while [[ ${1:-} == --bind || ${1:-} == --show ]] && (($# > 2)); do
  folders+=${folders:+$'\n'}"$1 $2"
  shift 2
done
(($# > 0)) || { echo "usage: scripts/clean-root.sh [--bind FOLDER[:TARGET]]... [--show FOLDER[:TARGET]]... COMMAND..." >&2; exit 2; }

((EUID == 0)) || skip "only root may make one; run this again with sudo"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed (sudo apt-get install mmdebstrap)"
unshare --mount --pid --fork true 2>/dev/null || skip "this container may not create mount namespaces"

# One at a time: the package cache and the mount point are shared.
exec 9>"$roots/lock"
flock 9
[[ -e $roots/$suite.tar ]] || make_root

# `unshare` ignores signals while it waits. So it is killed with this script, and --kill-child then takes every process of the
# namespaces with it.
setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child=KILL "$0" --enter "$folders" "$@" </dev/null &
child=$!
trap 'kill -KILL "$child" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
status=0
wait "$child" || status=$?
exit "$status"

#!/usr/bin/env bash
# Installs Debian packages, as root, and leaves no service of theirs started or enabled.
#
#   scripts/apt-install.sh PACKAGE...
#
# A Debian package starts its daemon at once and enables it for every boot. Longhaul starts its
# servers itself, on hosts of its own, so neither may happen here. While dpkg runs, policy-rc.d
# (which invoke-rc.d and deb-systemd-invoke ask) forbids every start; when it is done, whatever was
# newly enabled is disabled again. What has to be undone is written down first, in $journal: a run
# that was killed outright is put right by the next one.
set -euo pipefail

journal=/var/lib/longhaul-setup
policy=/usr/sbin/policy-rc.d
mark='Longhaul is installing packages'

# NEEDRESTART_SUSPEND: the hook of that name would restart other people's services.
apt=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -qq
  -o APT::Get::Assume-Yes=true -o APT::Get::Remove=false -o APT::Install-Recommends=false
  -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30)

# Every link that makes something start at boot, for systemd and for SysV init.
enabled() { find /etc/systemd/system /etc/systemd/user /etc/rc[2-5S].d -type l 2>/dev/null | LC_ALL=C sort; }

forbid_starts() {
  mkdir -p "$journal"
  if [[ -e $policy || -L $policy ]]; then cp -a "$policy" "$journal/policy-rc.d"; fi
  enabled >"$journal/enabled.new"
  mv "$journal/enabled.new" "$journal/enabled"
  printf '#!/bin/sh\n# %s: nothing may start meanwhile.\nexit 101\n' "$mark" >"$policy.new"
  chmod 0755 "$policy.new"
  mv -f "$policy.new" "$policy"
}

put_right() {
  [[ -d $journal ]] || return 0
  local link name
  if [[ -e $journal/enabled ]]; then
    enabled | LC_ALL=C comm -13 "$journal/enabled" - | while read -r link; do
      name=${link##*/}
      case $link in
        /etc/rc?.d/S*) update-rc.d "${name#S[0-9][0-9]}" disable >/dev/null ;;
        /etc/systemd/*) rm -f "$link" ;;
      esac
    done
    if [[ -d /run/systemd/system ]]; then systemctl daemon-reload; fi
  fi
  if grep -qs "$mark" "$policy"; then
    if [[ -e $journal/policy-rc.d || -L $journal/policy-rc.d ]]; then
      mv -f "$journal/policy-rc.d" "$policy"
    else
      rm -f "$policy"
    fi
  fi
  rm -rf "$journal"
}

# One installation at a time. Children keep the lock: a killed run's dpkg is waited for as well.
exec 9</var/lib/dpkg
flock --wait 600 9 || { echo "apt-install: another installation has gone on for ten minutes; try again when it is over" >&2; exit 1; }

trap put_right EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

if [[ -d $journal ]]; then
  echo "apt-install: putting right an installation that was cut off"
  DEBIAN_FRONTEND=noninteractive dpkg --configure -a
  put_right
fi

# Packages that this machine's sources do not have must not keep the others out.
packages=()
choose() {
  packages=()
  local package
  for package; do
    if "${apt[@]}" --simulate install "$package" >/dev/null 2>&1; then packages+=("$package"); fi
  done
}
choose "$@"
if ((${#packages[@]} < $#)); then
  "${apt[@]}" update || true
  choose "$@"
fi
((${#packages[@]} > 0)) || { echo "apt-install: no source of this machine has any of: $*" >&2; exit 1; }

# Downloading may be broken off at any moment; an index too old to download from is renewed once.
fetch() { "${apt[@]}" --download-only install "${packages[@]}"; }
fetch 2>/dev/null || { "${apt[@]}" update || true; fetch; }

# Unpacking takes seconds and must not stop half-way: in a session of its own Ctrl-C does not reach it.
forbid_starts
setsid --wait "${apt[@]}" --no-download install "${packages[@]}" </dev/null

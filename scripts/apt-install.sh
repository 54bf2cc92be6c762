#!/usr/bin/env bash
# Installs Debian packages, as root, and leaves no service of theirs started or enabled.
#
#   scripts/apt-install.sh PACKAGE...
#
# A Debian package starts its daemon at once and enables it for every boot. Longhaul starts its servers itself, on hosts of
# its own, so neither may happen here. While dpkg runs, policy-rc.d (which invoke-rc.d and deb-systemd-invoke query) forbids
# every start. Afterwards, newly enabled services are disabled again. $journal records first what has to be undone, so that
# the next run can repair a killed one.
set -euo pipefail

journal=/var/lib/longhaul-setup
policy=/usr/sbin/policy-rc.d
mark='Longhaul is installing packages'

# NEEDRESTART_SUSPEND: otherwise needrestart would restart unrelated services.
apt=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -qq
  -o APT::Get::Assume-Yes=true -o APT::Get::Remove=false -o APT::Install-Recommends=false
  -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30)

# Every link that starts a service at boot, for systemd and for SysV init.
enabled() { find /etc/systemd/system /etc/systemd/user /etc/rc[2-5S].d -type l 2>/dev/null | LC_ALL=C sort; }

forbid_starts() {
  mkdir -p "$journal"
  if [[ -e $policy || -L $policy ]]; then cp -a "$policy" "$journal/policy-rc.d"; fi
  enabled >"$journal/enabled.new"
  mv "$journal/enabled.new" "$journal/enabled"
  printf '#!/bin/sh\n# %s: no service may start meanwhile.\nexit 101\n' "$mark" >"$policy.new"
  chmod 0755 "$policy.new"
  mv -f "$policy.new" "$policy"
}

undo() {
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

# One installation at a time. Children keep the lock, so this also waits for the dpkg of a killed run.
exec 9</var/lib/dpkg
flock --wait 600 9 || { echo "apt-install: another installation has been running for ten minutes; try again later" >&2; exit 1; }

trap undo EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

if [[ -d $journal ]]; then
  echo "apt-install: repairing an interrupted installation"
  DEBIAN_FRONTEND=noninteractive dpkg --configure -a
  undo
fi

# Packages that this machine's sources do not have must not prevent the others. Asking for each takes long, so it comes last.
packages=("$@")
exists() { "${apt[@]}" --simulate install "$@" >/dev/null 2>&1; }
if ! exists "$@"; then
  "${apt[@]}" update || true
  if ! exists "$@"; then
    packages=()
    for package; do if exists "$package"; then packages+=("$package"); fi; done
  fi
fi
((${#packages[@]} > 0)) || { echo "apt-install: none of these packages is available: $*" >&2; exit 1; }

# Downloads may be interrupted at any time. If they fail because the index is too old, it is updated once.
fetch() { "${apt[@]}" --download-only install "${packages[@]}"; }
fetch 2>/dev/null || { "${apt[@]}" update || true; fetch; }

# Unpacking takes seconds and must not be interrupted: in its own session, Ctrl-C does not reach it.
forbid_starts
setsid --wait "${apt[@]}" --no-download install "${packages[@]}" </dev/null

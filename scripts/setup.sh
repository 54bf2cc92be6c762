#!/usr/bin/env bash
# Installs the packages that a purpose needs, if it may. Otherwise prints what is missing and what is skipped without it.
#
#   scripts/setup.sh race|test|bench|lint|dist
#
# Prints nothing if nothing is missing. Fails only if the build itself cannot work; race and tests skip whatever else
# is missing.
set -euo pipefail

purpose=${1:-}
case $purpose in
  race | test | bench | lint | dist) ;;
  *) echo "usage: scripts/setup.sh race|test|bench|lint|dist" >&2; exit 2 ;;
esac
here=$(dirname "$0")
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# package                 purposes        user  detected by         without it
needs='
gcc                       build           any   cc                  nothing can be built
libc6-dev                 build           any   /usr/include/stdio.h  nothing can be built
ca-certificates           build           any   /etc/ssl/certs/ca-certificates.crt  cargo cannot reach crates.io
curl                      race,test,bench  any   curl                the contenders with curl are skipped
rclone                    race,test,bench  any   rclone              the contender rclone is skipped
apache2-bin               race,test,bench  any   apache2             the race uses the embedded server instead of Apache
nginx                     race,test,bench  any   nginx               the race cannot use nginx as its server
wrk                       bench           any   wrk                 replay server and gateway are not compared with nginx
libnginx-mod-http-dav-ext race,test       any   /usr/lib/nginx/modules/ngx_http_dav_ext_module.so  the race cannot use nginx as its server
davfs2                    race,test       root  mount.davfs         the contenders with davfs2 are skipped
samba                     race,test       root  smbd                the contenders with Samba are skipped
smbclient                 race,test       root  smbclient           the contenders with Samba are skipped
python3-impacket          race,test       root  /usr/lib/python3/dist-packages/impacket  SMB is driven by smbclient only
krb5-user                 test            root  kvno                Kerberos is not tested
krb5-kdc                  test            root  krb5kdc             Kerberos is not tested
krb5-kdc-ldap             test            root  kdb5_ldap_util      Kerberos is not tested
krb5-admin-server         test            root  kadmin.local        Kerberos is not tested
slapd                     test            root  slapd               Kerberos is not tested
ldap-utils                test            root  ldapmodify          Kerberos is not tested
libapache2-mod-auth-gssapi test           root  /usr/lib/apache2/modules/mod_auth_gssapi.so  Kerberos is not tested
samba-ad-provision        test            root  /usr/share/samba/setup  Kerberos is not tested with Active Directory
samba-dsdb-modules        test            root  /usr/share/doc/samba-dsdb-modules  Kerberos is not tested with Active Directory
samba-vfs-modules         test            root  /usr/share/doc/samba-vfs-modules  Kerberos is not tested with Active Directory
gvfs-backends             race,test       any   /usr/libexec/gvfsd-dav  the contenders with gvfs are skipped
libglib2.0-bin            race,test       any   gio                 the contenders with gvfs are skipped
dbus-daemon               race,test       any   dbus-daemon         the contenders with gvfs are skipped
chromium                  test,bench      any   chromium            pages are not recorded, nor loaded in a browser, nor reports opened
libnss3-tools             test            any   certutil            pages of private servers are not recorded with --ca
ngtcp2-client             test            any   gtlsclient          HTTP/3 is not tested with another client
ngtcp2-server             test            any   gtlsserver          HTTP/3 is not tested with another server
knot-dnsutils             race,test       any   kdig                the contenders with kdig are skipped
unbound                   race,test       any   unbound             the DNS workloads are skipped
litmus                    test            any   litmus              the WebDAV conformance suites are skipped
procps                    test            any   sysctl              the advice of haul explain is not tried
wget                      test            any   wget                the race is not tested with wget
git                       test            any   git                 haul mount is not tested with git
iproute2                  test,bench      any   ip                  the comparisons with ip and veth are skipped
iputils-ping              test,bench      any   ping                the checks with ping are skipped
passt                     test            any   pasta               the tests of --outside are skipped
tcpdump                   test            any   tcpdump             captures are not compared with tcpdump
tshark                    test,bench      any   tshark              captures are not compared with tshark
tcptrace                  bench           any   tcptrace            haul explain is not compared with tcptrace
iperf3                    test,bench      any   iperf3              the checks with iperf3 are skipped
fuse3                     test            any   fusermount3         haul mount is not tested as an ordinary user
python3-venv              test,lint       any   /usr/share/doc/python3-venv  the Python package is not tested
shellcheck                lint            any   shellcheck          shell scripts are not checked
dpkg-dev                  dist            any   dpkg-shlibdeps      the Debian package cannot be made
musl-tools                dist            any   musl-gcc            the static tarball is not made
mmdebstrap                dist            root  mmdebstrap          the packages are not tested in a clean Debian root
'

say() { echo "setup: $*"; }
have() { case $1 in /*) [[ -e $1 ]] ;; *) command -v "$1" >/dev/null ;; esac; }

if ! have cargo; then
  say "Rust is missing; install it from https://rustup.rs, then run this again:"
  echo "    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
  if [[ -n ${SUDO_USER:-} ]]; then say "or build without sudo (make build), then run: sudo target/release/haul race"; fi
  exit 1
fi

# The missing packages of this purpose, and what is skipped without each.
missing=()
declare -A without=()
vital=
look() {
  missing=() without=() vital=
  local package purposes user shown_by loss
  while read -r package purposes user shown_by loss; do
    case ,$purposes, in *,"$purpose",* | ,build,) ;; *) continue ;; esac
    if have "$shown_by" || [[ $user == root && $EUID != 0 ]]; then continue; fi
    missing+=("$package")
    without[$package]=$loss
    if [[ $purposes == build ]]; then vital=$package; fi
  done < <(grep . <<<"$needs")
}

# Runs a command as root, without asking for a password.
can_be_root() { [[ $EUID == 0 ]] || sudo -n true 2>/dev/null; }
as_root() { if [[ $EUID == 0 ]]; then "$@"; else sudo -n "$@"; fi; }

install_missing() {
  say "installing ${missing[*]} (no service is started or enabled)"
  local log status=0
  log=$(mktemp)
  as_root "$here/apt-install.sh" "${missing[@]}" >"$log" 2>&1 </dev/null || status=$?
  if ((status >= 128)); then rm -f "$log"; exit "$status"; fi
  if ((status > 0)); then
    say "the installation failed:"
    tail -n 5 "$log" | sed 's/^/    /'
  fi
  rm -f "$log"
  look
}

look
if ((${#missing[@]} > 0)); then
  if ! have apt-get; then
    why="this machine has no apt-get"
  elif ! have sudo && ((EUID != 0)); then
    why="you are not root, and there is no sudo"
  elif ! can_be_root; then
    why="you are not root, and sudo asks for a password"
  else
    install_missing
    why="see above"
  fi
fi
if ((${#missing[@]} > 0)); then
  say "not installed ($why):"
  for package in "${missing[@]}"; do printf '    %-26s%s\n' "$package" "${without[$package]}"; done
  if have apt-get; then
    install="apt-get install --no-install-recommends ${missing[*]}"
    if ((EUID != 0)) && have sudo; then say "to install them: sudo $install"; else say "to install them, as root: $install"; fi
  else
    say "to install them: use the packages of your distribution; their names may differ"
  fi
fi
if [[ -n $vital ]]; then exit 1; fi

if [[ $purpose == lint ]]; then exit 0; fi

# The newest rclone, which distributions do not have. Without it, contenders are skipped. Not for the race: building it
# takes minutes, and a first table must not wait for that.
case $purpose in
  test | bench)
    status=0
    "$here/rclone.sh" || status=$?
    if ((status >= 128)); then exit "$status"; fi ;;
esac

# Cables are TUN devices, and mounts speak through /dev/fuse. udev gives both mode 0666, because creating an interface or a
# mount needs a capability anyway. Without udev they keep the kernel's 0600.
no_link="every race, and every test over a link, will be skipped"
no_mount="the tests of haul mount will be skipped"
open_to_all() {
  local device=$1 module=$2 effect=$3
  if [[ ! -c $device ]]; then
    say "$device is missing: $effect"
    say "to create it, as root: modprobe $module (for a container: --device $device)"
    return
  fi
  if [[ $(stat -c %a "$device") != 666 && ! -e /run/udev/control ]] && can_be_root; then
    if as_root chmod 0666 "$device" 2>/dev/null; then say "$device now has mode 0666, as udev would set it"; fi
  fi
  if [[ ! -r $device || ! -w $device ]]; then
    say "you may not open $device: $effect"
    say "to change that: sudo chmod 0666 $device"
  fi
}
open_to_all /dev/net/tun tun "$no_link"
if [[ $purpose == test || $purpose == dist ]]; then open_to_all /dev/fuse fuse "$no_mount"; fi

# Ordinary users create hosts inside a user namespace.
if [[ $EUID != 0 ]] && have unshare && ! unshare --user --map-current-user --keep-caps --net true 2>/dev/null; then
  say "ordinary users cannot create user namespaces here: $no_link"
  while read -r knob off on; do
    file=/proc/sys/${knob//.//}
    if [[ -r $file && $(<"$file") == "$off" ]]; then say "to change that: sudo sysctl $knob=$on"; fi
  done <<<'kernel.unprivileged_userns_clone 0 1
kernel.apparmor_restrict_unprivileged_userns 1 0
user.max_user_namespaces 0 10000'
fi

#!/usr/bin/env bash
# Installs a package in this clean Debian root as a newcomer would, and uses it as an ordinary user.
#
#   scripts/clean-root.sh /context/scripts/dist-test.sh deb|tarball|wheel VERSION
#
# The packages are in /context/target/packages. The user gets the first table (`haul race --quick`), explains the capture
# of the documentation, and uses names, certificates, copies and a mount, which depend on what the package brings or finds.
set -euo pipefail

kind=$1 version=$2
packages=/context/target/packages
user=haul home=/home/haul
# Where the package has its programs, if the user has to add it to PATH.
programs=

fail() { echo "dist-test: $kind: $*" >&2; exit 1; }
quietly() {
  local log
  log=$(mktemp)
  "$@" >"$log" 2>&1 || { cat "$log" >&2; fail "this failed (above): $*"; }
  rm "$log"
}
add_user() { useradd --create-home "$user"; }
as_user() {
  (cd "$home" && setpriv --reuid="$user" --regid="$user" --init-groups --inh-caps=-all env -i HOME="$home" LANG=C.UTF-8 \
    USER="$user" PATH="${programs:+$programs:}/usr/local/bin:/usr/bin:/bin" "$@")
}

# Follows the Dockerfile.
follow() {
  local instruction rest number=0
  while read -r instruction rest; do
    number=$((number + 1))
    case $instruction in
      '' | '#'*) ;;
      FROM) grep -q "VERSION_CODENAME=${rest#debian:}" /etc/os-release || fail "Dockerfile:$number: this root is not $rest" ;;
      COPY) (cd /context && bash -c "cp $rest") ;;
      RUN) quietly bash -c "$rest" ;;
      USER) user=$rest ;;
      WORKDIR) home=$rest ;;
      ENTRYPOINT) [[ $rest == '["haul"]' ]] || fail "Dockerfile:$number: the entry point $rest is not tested" ;;
      *) fail "Dockerfile:$number: $instruction is not tested; add it to scripts/dist-test.sh" ;;
    esac
  done </context/Dockerfile
}

install_deb() {
  local file installed
  follow
  installed=$(dpkg-query --show --showformat '${Version}' longhaul)
  [[ ${installed%-*} == "$version" ]] || fail "the package's version is $installed, not $version"
  # A container's dpkg may leave out manual pages, but its list of files has them.
  dpkg --listfiles longhaul >/tmp/files
  for file in man/man1/haul.1.gz man/man1/haul-race.1.gz bash-completion/completions/haul zsh/vendor-completions/_haul \
    fish/vendor_completions.d/haul.fish doc/longhaul/copyright; do
    grep -qx "/usr/share/$file" /tmp/files || fail "the package lacks /usr/share/$file"
  done
  for file in system/haul-gateway.service system/haul-gateway.socket system/haul-gateway-smb.service user/haul-mount@.service; do
    [[ -s /usr/lib/systemd/$file ]] || fail "the package lacks /usr/lib/systemd/$file"
  done
  bash -c 'source /usr/share/bash-completion/completions/haul && complete -p haul' >/dev/null || fail "bash cannot load the completions"
  [[ $(readlink -f /sbin/mount.haul) == /usr/bin/haul ]] || fail "mount(8) finds no helper for the type haul: /sbin/mount.haul"
}

remove_deb() {
  local left file
  quietly apt-get purge --yes longhaul
  left=$(while read -r file; do if [[ ! -d $file && (-e $file || -L $file) ]]; then echo "$file"; fi; done </tmp/files)
  [[ -z $left ]] || fail "purging the package left $left"
}

install_tarball() {
  quietly apt-get update
  quietly apt-get install --yes --no-install-recommends ca-certificates fuse3
  add_user
  programs=$home/.local/bin
  as_user mkdir -p "$programs"
  as_user tar -xzf "$packages/longhaul-$version-x86_64-linux-musl.tar.gz"
  as_user cp "longhaul-$version-x86_64-linux-musl/haul" "$programs/"
}

install_wheel() {
  quietly apt-get update
  quietly apt-get install --yes --no-install-recommends ca-certificates fuse3 python3-venv
  add_user
  programs=$home/longhaul/bin
  as_user python3 -m venv longhaul
  quietly as_user longhaul/bin/pip install --disable-pip-version-check "$packages"/longhaul-"$version"-*.whl
}

check_version() {
  local printed
  printed=$(as_user haul --version)
  [[ $printed == "haul $version" ]] || fail "haul --version prints '$printed', not 'haul $version'"
}

check_explain() {
  install -m 0644 /context/docs/src/traces/browser-upload.snoop.txt "$home/upload.txt"
  as_user haul explain --format snoop upload.txt --bytes 18MB >/tmp/explained
  grep -q 'lost to delayed ACKs' /tmp/explained || { cat /tmp/explained; fail "haul explain does not find the delayed ACKs"; }
}

certify() {
  quietly as_user openssl req -config openssl.cnf -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -keyout "$1.key" -out "$1.pem" -subj "$2" -addext "$3" "${@:4}"
}

# An authority that only the system's store knows, and a name that only the system's resolver knows.
check_https() {
  local server
  echo '127.0.0.1 dav.test' >>/etc/hosts
  as_user mkdir -p served
  printf '[req]\ndistinguished_name = name\n[name]\n' >"$home/openssl.cnf"
  certify ca /CN=authority basicConstraints=critical,CA:TRUE
  certify cert /CN=dav.test subjectAltName=DNS:dav.test -CA ca.pem -CAkey ca.key
  cp "$home/ca.pem" /usr/local/share/ca-certificates/dav-test.crt
  quietly update-ca-certificates
  touch /tmp/served
  # shellcheck disable=SC2016 # the user's shell expands it
  as_user bash -c 'echo $$ >server; exec haul serve served --listen 127.0.0.1:8443 --tls cert.pem,cert.key' >/tmp/served 2>&1 &
  server=$!
  for _ in {1..100}; do grep -q 'https://' /tmp/served && break; sleep 0.1; done
  quietly as_user haul cp upload.txt https://dav.test:8443/copied.txt
  cmp "$home/upload.txt" "$home/served/copied.txt" || fail "haul cp changed a file"
  [[ $(as_user haul ls https://dav.test:8443/) == *copied.txt* ]] || fail "haul ls does not list the copied file"
  if [[ -c /dev/fuse ]]; then check_mount; else echo "skipped: haul mount: /dev/fuse is missing (sudo modprobe fuse)"; fi
  kill -INT "$(<"$home/server")"
  wait "$server" || { cat /tmp/served; fail "haul serve failed"; }
}

check_mount() {
  as_user mkdir share
  quietly as_user haul mount https://dav.test:8443/ share
  as_user cp share/copied.txt share/again.txt
  quietly as_user haul unmount share
  cmp "$home/upload.txt" "$home/served/again.txt" || fail "a file written to the mount differs on the server"
}

# Prints the first table of the race. The package recommends two other contenders.
check_race() {
  local contender contenders=(haul)
  if [[ $kind == deb ]]; then contenders+=(curl rclone); fi
  as_user haul race --quick >/tmp/raced 2>/tmp/racing || { cat /tmp/racing /tmp/raced; fail "haul race --quick failed"; }
  for contender in "${contenders[@]}"; do
    grep -Eq "^  $contender +[0-9]" /tmp/raced || { cat /tmp/raced; fail "the table has no row for $contender"; }
  done
  compgen -G "$home/runs/*/report.html" >/dev/null || fail "haul race wrote no report"
  first_table </tmp/raced
}

first_table() {
  awk '/^upload-small/ { inside = 1 } inside && rows && NF == 0 { exit } inside { print "        " $0 } /[▏▎▍▌▋▊▉█]$/ { rows++ }'
}

"install_$kind"
check_version
check_explain
check_https
as_user haul gateway --help >/dev/null
if [[ -c /dev/net/tun ]]; then check_race; else echo "skipped: haul race: /dev/net/tun is missing (sudo modprobe tun)"; fi
if [[ $kind == deb ]]; then remove_deb; fi

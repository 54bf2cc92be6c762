#!/usr/bin/env bash
# Runs the workspace's test binaries once more, as an ordinary user; for root, after `cargo test`.
#
# Nothing is built again: cargo names the binaries, and each runs in its package's folder as cargo
# would run it, with a home and a TMPDIR that end with the script. The user id is one that nobody
# has, so whatever still runs under it afterwards was left running by a test, which is a failure;
# so is whatever lies in TMPDIR.
set -euo pipefail
cd -P "$(dirname "$0")/.."

limit=900 # seconds for one binary

as_user() { setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all "$@"; }
processes() { find /proc -maxdepth 1 -name '[0-9]*' -uid "$uid" 2>/dev/null | sed 's,.*/,,'; }

# The workspace's own folder or the one above it that keeps the user out, if any.
closed_folder() {
  local folder=
  local IFS=/
  for part in ${PWD#/}; do
    folder+=/$part
    as_user test -r "$folder" -a -x "$folder" || { echo "$folder"; return; }
  done
}

# Paths are compiled into tests, so a workspace the user cannot walk to is shown at its own path,
# in a mount namespace of our own, with open folders leading there.
show_workspace() {
  local entry from=$scratch/workspace
  mkdir "$from"
  mount --bind "$PWD" "$from"
  mount -t tmpfs -o mode=0755 none "$closed"
  mkdir -p "$PWD"
  cd "$PWD"
  for entry in "$from"/*; do
    if [[ -d $entry ]]; then
      mkdir "${entry##*/}"
      mount --bind "$entry" "${entry##*/}"
    else
      cp "$entry" .
    fi
  done
}

run_all() {
  local folder kind name binary status passed=0 failed=()
  # The environment of a test is cargo's, and otherwise that of a user who has just logged in.
  local environment=(HOME="$scratch/home" TMPDIR="$scratch/tmp" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
    LANG=C.UTF-8 TERM="${TERM:-dumb}" RUST_BACKTRACE=1 INSTA_WORKSPACE_ROOT="$PWD" INSTA_UPDATE=no)
  while IFS=$'\t' read -r name binary; do environment+=("CARGO_BIN_EXE_$name=$binary"); done <"$scratch/programs"

  while IFS=$'\t' read -r folder kind name binary <&3; do
    name="${folder##*/} $kind $name"
    echo "as uid $uid: $name"
    status=0
    (cd "$folder" && as_user env -i "${environment[@]}" CARGO_MANIFEST_DIR="$folder" \
      timeout --foreground --kill-after=10 "$limit" "$binary") || status=$?
    if ((status == 124)); then echo "$name did not end within $limit s"; fi

    for _ in {1..30}; do [[ -n $(processes) ]] || break; sleep 0.1; done
    for pid in $(processes); do
      echo "$name left running: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
      kill -KILL "$pid" 2>/dev/null || true
      status=1
    done
    while read -r left; do
      echo "$name left in TMPDIR: ${left##*/}"
      rm -rf --one-file-system "$left"
      status=1
    done < <(find "$scratch/tmp" -mindepth 1 -maxdepth 1)

    if ((status == 0)); then passed=$((passed + 1)); else failed+=("$name"); fi
  done 3<"$scratch/tests"

  echo
  echo "as an ordinary user (uid $uid): $passed test binaries passed, ${#failed[@]} failed"
  if ((${#failed[@]} > 0)); then
    printf '    %s\n' "${failed[@]}"
    return 1
  fi
  ((passed > 0)) || { echo "there was no test binary to run" >&2; return 1; }
}

if [[ ${1:-} == --shown ]]; then
  scratch=$2 uid=$3 closed=$4
  show_workspace
  run_all
  exit
fi

[[ $EUID == 0 ]] || { echo "scripts/test-as-user.sh: only root can become another user; run \`cargo test\` instead" >&2; exit 2; }

uid=$((50000 + $$ % 9000))
while getent passwd "$uid" >/dev/null || [[ -n $(processes) ]]; do uid=$((uid + 1)); done
scratch=$(mktemp -d /tmp/longhaul-user.XXXXXX)
cleanup() {
  local left
  left=$(processes)
  # shellcheck disable=SC2086 # one word for each process
  if [[ -n $left ]]; then kill -KILL $left 2>/dev/null || true; fi
  rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 0711 "$scratch"
install -d -m 0700 -o "$uid" -g "$uid" "$scratch/home" "$scratch/tmp"

cargo test --workspace --locked --no-run --message-format=json >"$scratch/built"
sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"kind":\["\([^"]*\)"\].*"name":"\([^"]*\)".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1\t\2\t\3\t\4|p' \
  "$scratch/built" >"$scratch/tests"
sed -n 's|.*"kind":\["bin"\].*"name":"\([^"]*\)".*"profile":{[^}]*"test":false}.*"executable":"\([^"]*\)".*|\1\t\2|p' \
  "$scratch/built" >"$scratch/programs"

closed=$(closed_folder)
if [[ -z $closed ]]; then
  run_all
elif unshare --mount true 2>/dev/null; then
  unshare --mount --propagation private "$0" --shown "$scratch" "$uid" "$closed"
else
  echo "skipped: the tests as an ordinary user, who may not enter $closed; to run them: chmod o+rx $closed" >&2
fi

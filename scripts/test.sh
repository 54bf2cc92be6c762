#!/usr/bin/env bash
# Builds all tests and runs them; for root twice, the second time as an ordinary user. If that user may mount, the slowest
# programs leave to them what needs no root, and say so.
#
#   scripts/test.sh [--clean] [PROGRAM [TEST]]
#
# PROGRAM limits it to the programs of tests whose names match it (`haul test race`; an extended regular expression), and
# TEST to the tests whose names contain it. --clean, for root, runs the ordinary user's tests in a clean Debian root, in which
# packages have just been unpacked and no server was ever started; without one, it says so and runs them here.
#
# Most tests wait for links and servers. Their programs therefore run in parallel, in as many lanes as there are
# processors, each in its package's folder as cargo would run it, with its own TMPDIR. Programs that compare times run
# alone, after the others. The output of all goes to target/test.log; what failed is shown at once, and at the end one screen
# names it again. If only a few tests fail, each runs once more, alone, because a busy machine can be the reason, and is named
# at the end all the same. If a program timed out, nothing is repeated.
#
# The ordinary user of a lane has a temporary home, an unused id, and the environment of somebody who has logged in to Debian.
# A process that still runs under this id after a program was left behind by a test, which is a failure. So is a file left in
# TMPDIR, or by this id in another temporary folder.
set -euo pipefail
cd -P "$(dirname "$0")/.."

limit=900 # seconds for one binary
few=4     # at most this many run again
user_path=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games # Debian's, which has no sbin
# shellcheck source=scripts/test-report.sh
source scripts/test-report.sh
alone='haul test race|explain test (truth|replica)|http test fast_open|examples'
# Binaries that need no privileges (only computing, loopback, files and hosts of their own) run once, because the user does
# not matter: as the ordinary user, if possible, for whom left processes are found.
once='capture (lib|test (formats|fragments|pcapng|printed|summary))|explain lib'
once+='|explain test (hostile|page_data|printed_trace|replica|scripted|truth)|link test cables|dav (lib|test (cables|faults))|http (lib|test model)|haul test (documented_commands|servers)'
# Binaries that write many small files and do not test a file system keep them in memory, if there is room. Shortly after
# many files were deleted, ext4 searches long for an inode that was not in use: half of the processor time of such a test.
in_memory='lab lib lab|dav test faults|haul test servers'
shared=/dev/shm

processes_of() { find /proc -maxdepth 1 -name '[0-9]*' -uid "$1" 2>/dev/null | sed 's,.*/,,'; }
as_uid() { setpriv --reuid="$1" --regid="$1" --clear-groups --inh-caps=-all "${@:2}"; }

# The first folder on the way to the workspace that the user may not enter, if any.
closed_folder() {
  local folder='' part IFS=/
  for part in ${PWD#/}; do
    folder+=/$part
    as_uid "$1" test -r "$folder" -a -x "$folder" || { echo "$folder"; return; }
  done
}

# Paths are compiled into tests. A workspace that the user cannot reach is therefore mounted at its own path, in a separate
# mount namespace, below readable folders.
show_workspace() {
  local entry from=$1 closed=$2
  mkdir -p "$from"
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

if [[ ${1:-} == --shown ]]; then
  show_workspace "$2" "$3"
  cd "$4"
  exec "${@:5}"
fi

# Starts a clean Debian root with all that tests need, which lives as long as this script, and sets $root to the id of its
# first process. The lanes' users have names there. Folders have the same paths as here, because some are compiled into tests.
clean_root=
root=
start_clean_root() {
  local toolchain built=()
  toolchain=$(rustc --print sysroot)
  if [[ $(realpath "$target") != "$PWD"/* ]]; then built=(--show "$(realpath "$target")"); fi
  # shellcheck disable=SC2016 # expanded in the root
  scripts/clean-root.sh --show "$PWD" "${built[@]}" --bind "$scratch" --bind "$memory" --show "$toolchain:/usr/local/rust" bash -c '
    folder=${1%/*}
    while [[ -n $folder ]]; do chmod o+rx "$folder"; folder=${folder%/*}; done
    cd "$1" && PATH=$PATH:/usr/local/rust/bin scripts/setup.sh test &&
      for ((number = 0; number < $4; number++)); do echo "lane$number:x:$(($3 + number)):$(($3 + number))::/nonexistent:/bin/sh"; done >>/etc/passwd &&
      echo "$CLEAN_ROOT" >"$2/root" && exec sleep infinity' bash "$PWD" "$scratch" "$first_uid" "$lanes" >"$scratch/clean-root" 2>&1 &
  clean_root=$!
}
wait_for_clean_root() {
  while [[ ! -s $scratch/root ]] && kill -0 "$clean_root" 2>/dev/null; do sleep 0.5; done
  cat "$scratch/clean-root" >>"$log"
  if [[ -s $scratch/root ]]; then root=$(<"$scratch/root"); fi
  if [[ -n $root ]] && there setpriv --reuid="$first_uid" --regid="$first_uid" --clear-groups test -r "$PWD/Cargo.toml"; then
    user="an ordinary user in a clean Debian root"
  else
    root=
    tail -n 3 "$scratch/clean-root"
    echo "skipped: the clean Debian root: the tests as an ordinary user run on this machine" | tee -a "$scratch/skips"
  fi
}
# Runs a command where the ordinary user's tests run.
there() {
  if [[ -n $root ]]; then nsenter --target "$root" --mount --pid "$@"; else "$@"; fi
}

# The environment that cargo sets for a test.
environment() {
  local name binary
  printf '%s\0' "CARGO_MANIFEST_DIR=$1" "INSTA_WORKSPACE_ROOT=$PWD" INSTA_UPDATE=no RUST_BACKTRACE=1 "TMPDIR=$2"
  if [[ -n $user_mounts ]]; then printf 'LONGHAUL_TESTS_ALSO_AS_USER=1\0'; fi
  while IFS=$'\t' read -r name binary; do printf '%s\0' "CARGO_BIN_EXE_$name=$binary"; done <"$scratch/programs"
}

# Runs a binary as the current user, or as the lane's ordinary user; $place is the lane's folder, $tmp the TMPDIR.
run_binary() {
  local who=$1 folder=$2 binary=$3 test=$4 facts bounded
  mapfile -d '' facts < <(environment "$folder" "$tmp")
  bounded=(timeout --foreground --kill-after=10 "$limit" "$binary" --show-output)
  if [[ -n $test ]]; then bounded+=(--exact "$test"); elif [[ -n $filter ]]; then bounded+=("$filter"); fi
  if [[ $who == "$me" ]]; then
    (cd "$folder" && exec env "${facts[@]}" "${bounded[@]}")
    return
  fi
  # Besides cargo's variables, the environment is that of a user who has just logged in.
  local as=(setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all
    env -i --chdir="$folder" "${facts[@]}" HOME="$place/home" PATH="$user_path" LANG=C.UTF-8 TERM="${TERM:-dumb}")
  if [[ -n $closed && -z $root ]]; then
    unshare --mount --propagation private scripts/test.sh --shown "$place/workspace" "$closed" "$folder" "${as[@]}" "${bounded[@]}"
  else
    there "${as[@]}" "${bounded[@]}"
  fi
}

# Names what a program of tests has left behind, and removes it.
clear_up() {
  local who=$1 pid left status=0
  if [[ $who != "$me" ]]; then
    for _ in {1..30}; do [[ -n $(processes_of "$uid") ]] || break; sleep 0.1; done
    for pid in $(processes_of "$uid"); do
      echo "left running: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
      kill -KILL "$pid" 2>/dev/null || true
      status=1
    done
    while read -r left; do
      echo "left in ${left%/*}: ${left##*/}"
      there rm -rf --one-file-system "$left"
      status=1
    done < <(there find /tmp /var/tmp /dev/shm -mindepth 1 -maxdepth 1 -uid "$uid" 2>/dev/null)
  fi
  while read -r left; do
    echo "left in TMPDIR: ${left##*/}"
    rm -rf --one-file-system "$left"
    status=1
  done < <(find "$tmp" -mindepth 1 -maxdepth 1)
  return "$status"
}

run() {
  local who=$1 folder=$2 name=$3 binary=$4 test=$5 tmp=$place/tmp status=0 bounded=(timeout --kill-after=10 "$limit")
  if [[ $name =~ ^($in_memory)$ ]]; then tmp=$memory/tmp${place##*/}; fi
  if [[ $who == "$me" ]]; then
    install -d -m 1777 -o "$EUID" "$tmp"
  else
    install -d -m 0700 -o "$uid" -g "$uid" "$place/home" "$tmp"
  fi
  case $name in
    web) TMPDIR=$tmp "${bounded[@]}" scripts/web.sh test || status=$? ;;
    python) TMPDIR=$tmp "${bounded[@]}" scripts/python.sh test || status=$? ;;
    examples) TMPDIR=$tmp "${bounded[@]}" cargo test --workspace --locked --doc || status=$? ;;
    *) run_binary "$who" "$folder" "$binary" "$test" || status=$? ;;
  esac
  clear_up "$who" || status=$((status == 0 ? 1 : status))
  if ((status == 124)); then echo "did not end within $limit s"; fi
  return "$status"
}

# Works through the queue until the end of its file. Lanes take turns at reading and printing. A test inherits neither the
# queue nor the lock, because it could hold them for ever.
lane() {
  local uid=$((first_uid + $1)) place=$scratch/$1 who folder name binary test began status
  mkdir -p "$place"
  exec 9>"$scratch/turn"
  while flock 9 && IFS=$'\t' read -r who folder name binary test <&3; do
    flock --unlock 9
    began=$SECONDS status=0
    run "$who" "$folder" "$name" "$binary" "$test" >"$place/said" 2>&1 </dev/null 3<&- 9>&- || status=$?
    flock 9
    if ((status == 124)); then touch "$scratch/hung"; fi
    report "$who" "$folder" "$name" "$binary" $((SECONDS - began)) "$status" "$place/said"
    flock --unlock 9
  done
}

clean=
if [[ ${1:-} == --clean ]]; then clean=1; shift; fi
if (($# > 2)) || [[ ${1:-} == -* ]]; then echo "usage: scripts/test.sh [--clean] [PROGRAM [TEST]]" >&2; exit 2; fi
only=${1:-} filter=${2:-}
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
log=$target/test.log
: >"$log"
# What incremental builds store is half of the disk that the tests take. Who builds here again and again has it already.
if [[ ! -d $target/debug/incremental ]]; then export CARGO_INCREMENTAL=0; fi

me=$(id -un 2>/dev/null) || me="user $EUID" # a container's user may have no name
user="an ordinary user"
lanes=$(nproc)
first_uid=$((50000 + $$ % 9000))
free() {
  local number
  for ((number = 0; number < lanes; number++)); do
    if getent passwd $((first_uid + number)) >/dev/null || [[ -n $(processes_of $((first_uid + number))) ]]; then return 1; fi
  done
}
until free; do first_uid=$((first_uid + lanes)); done

scratch=$(mktemp -d /tmp/longhaul.XXXXXX) # tests take a mount point named `haul-…` for one of theirs
memory=$scratch
room=$(df --output=avail "$shared" 2>/dev/null | tail -n 1) || true
if [[ -w $shared ]] && ((${room:-0} > 1 << 20)); then memory=$(mktemp -d "$shared/longhaul.XXXXXX"); fi
chmod 0711 "$scratch" "$memory"
touch "$scratch"/{all,counts,failures,skips}
workers=()
cleanup() {
  local number pid
  trap '' INT TERM
  for pid in "${workers[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
  if [[ -n $clean_root ]]; then kill -TERM "$clean_root" 2>/dev/null || true; fi
  for _ in {1..50}; do [[ -n $(jobs -rp) ]] || break; sleep 0.1; done
  for pid in "${workers[@]}"; do kill -KILL -- "-$pid" 2>/dev/null || true; done
  for ((number = 0; number < lanes; number++)); do
    for pid in $(processes_of $((first_uid + number))); do kill -KILL "$pid" 2>/dev/null || true; done
  done
  rm -rf --one-file-system "$scratch" "$memory"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [[ -n $clean ]] && ((EUID == 0)); then start_clean_root; fi
noise=()
if [[ ! -t 2 ]]; then noise=(--quiet); fi
cargo test --workspace --locked --no-run "${noise[@]}" --message-format=json-render-diagnostics >"$scratch/built"
sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"kind":\["\([^"]*\)"\].*"name":"\([^"]*\)".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\2\t\1\t\3\t\4|p' \
  "$scratch/built" >"$scratch/tests"
sed -n 's|.*"kind":\["bin"\].*"name":"\([^"]*\)".*"profile":{[^}]*"test":false}.*"executable":"\([^"]*\)".*|\1\t\2|p' \
  "$scratch/built" >"$scratch/programs"
[[ -s $scratch/tests ]] || { echo "there are no test binaries" >&2; exit 1; }

passes=("$me")
closed=
user_mounts=
if ((EUID == 0)); then
  if [[ -n $clean_root ]]; then wait_for_clean_root; fi
  closed=$(closed_folder "$first_uid")
  if [[ -z $closed || -n $root ]] || unshare --mount true 2>/dev/null; then
    passes+=("$user")
    if there setpriv --reuid="$first_uid" --regid="$first_uid" --clear-groups test -w /dev/fuse &&
      as_uid "$first_uid" unshare --map-root-user --mount true 2>/dev/null; then
      user_mounts=1
    fi
  else
    echo "skipped: the tests as an ordinary user, who may not enter $closed; to run them: chmod o+rx $closed" | tee -a "$scratch/skips"
  fi
fi

# Each crate's integration tests take longest, and run before its unit tests.
for who in "${passes[@]}"; do
  sort -rs -k1,1 "$scratch/tests" | while IFS=$'\t' read -r kind folder name binary; do
    if [[ $who != "${passes[-1]}" && "${folder##*/} $kind $name" =~ ^($once)( .*)?$ ]]; then continue; fi
    printf '%s\t%s\t%s\t%s\n' "$who" "$folder" "${folder##*/} $kind $name" "$binary"
  done
  if [[ $who == "$me" ]]; then printf '%s\t.\t%s\t-\n' "$me" web "$me" examples "$me" python; fi
done | only=$only awk -F'\t' '$3 ~ ENVIRON["only"]' >"$scratch/all"
[[ -s $scratch/all ]] || { echo "no program of tests is named like $only" >&2; exit 2; }

set -m # makes each lane a process group, which can be killed as a whole
# Runs the binaries on standard input in this many lanes.
work_off() {
  local number
  workers=()
  cat >"$scratch/queue"
  exec 3<"$scratch/queue"
  for ((number = 0; number < $1; number++)); do
    lane "$number" &
    workers+=("$!")
  done
  wait "${workers[@]}"
}
# Of the race, an ordinary user who may mount runs all comparisons of times, and root none.
alone="[^\t]*\t[^\t]*\t($alone)\t"
if [[ -n $user_mounts ]]; then alone="(?!$me\t[^\t]*\thaul test race\t)$alone"; fi
work_off "$lanes" < <(grep -vP "^$alone" "$scratch/all")
work_off 1 < <(grep -P "^$alone" "$scratch/all")

failed=$(wc -l <"$scratch/failures")
unsteady=()
if ((failed > 0 && failed <= few)) && [[ ! -e $scratch/hung ]]; then
  clear_line
  echo "$failed failed; each runs once more, alone:"
  # Where a program failed as a whole, all of it; these three always.
  sed -E 's/\t\([^\t]*$/\t/; s/\t(web|examples|python)\t-\t.*/\t\1\t-\t/' "$scratch/failures" | sort -u >"$scratch/again"
  mv "$scratch/failures" "$scratch/first"
  mv "$scratch/counts" "$scratch/before"
  touch "$scratch/failures"
  work_off 1 < <(cat "$scratch/again")
  mv "$scratch/before" "$scratch/counts"
  while IFS=$'\t' read -r who _ name _ test; do
    if ! grep -qF "$who"$'\t' <(grep -F $'\t'"$name"$'\t' "$scratch/failures"); then unsteady+=("$name › $test, as $who"); fi
  done <"$scratch/first"
fi

summarize "${passes[0]}${passes[1]:+ and as ${passes[1]}}"

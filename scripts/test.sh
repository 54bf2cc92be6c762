#!/usr/bin/env bash
# Builds all tests and runs them; for root twice, the second time as an ordinary user. If that user may mount, the slowest
# binaries leave to them what needs no root, and say so.
#
# Most tests wait for links and servers. Their binaries therefore run in parallel, in as many lanes as there are
# processors, each in its package's folder as cargo would run it, with its own TMPDIR. Binaries that compare times run
# alone, after the others. A passed binary is reported in one line, with the tests it skipped; a failed one with its whole
# output. If only a few fail, each runs once more, alone, because a busy machine can be the reason, and is named at the end
# all the same. If a binary timed out, nothing is repeated.
#
# The ordinary user of a lane has a temporary home and an unused id. A process that still runs under this id after a binary
# was left behind by a test, which is a failure. So is a file left in TMPDIR.
set -euo pipefail
cd -P "$(dirname "$0")/.."

limit=900 # seconds for one binary
few=4     # at most this many run again
alone='haul test race|explain test (truth|replica)|http test fast_open|examples'
# Binaries that need no privileges (only computing, loopback, files and hosts of their own) run once, because the user does
# not matter: as the ordinary user, if possible, for whom left processes are found.
once='capture (lib|test (formats|fragments|pcapng|printed|summary))|explain lib'
once+='|explain test (hostile|page_data|printed_trace|replica|scripted|truth)|link test cables|dav (lib|test (cables|faults))|http (lib|test model)|haul test servers'
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

# The environment that cargo sets for a test.
environment() {
  local name binary
  printf '%s\0' "CARGO_MANIFEST_DIR=$1" "INSTA_WORKSPACE_ROOT=$PWD" INSTA_UPDATE=no RUST_BACKTRACE=1 "TMPDIR=$2"
  if [[ -n $user_mounts ]]; then printf 'LONGHAUL_TESTS_ALSO_AS_USER=1\0'; fi
  while IFS=$'\t' read -r name binary; do printf '%s\0' "CARGO_BIN_EXE_$name=$binary"; done <"$scratch/programs"
}

# Runs a binary as the current user, or as the lane's ordinary user; $place is the lane's folder, $tmp the TMPDIR.
run_binary() {
  local who=$1 folder=$2 binary=$3 facts bounded
  mapfile -d '' facts < <(environment "$folder" "$tmp")
  bounded=(timeout --foreground --kill-after=10 "$limit" "$binary" --show-output)
  if [[ $who == "$me" ]]; then
    (cd "$folder" && exec env "${facts[@]}" "${bounded[@]}")
    return
  fi
  # Besides cargo's variables, the environment is that of a user who has just logged in.
  local as=(setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all
    env -i "${facts[@]}" HOME="$place/home" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 TERM="${TERM:-dumb}")
  if [[ -n $closed ]]; then
    unshare --mount --propagation private scripts/test.sh --shown "$place/workspace" "$closed" "$folder" "${as[@]}" "${bounded[@]}"
  else
    (cd "$folder" && exec "${as[@]}" "${bounded[@]}")
  fi
}

# Reports what a test has left behind, and removes it.
clear_up() {
  local who=$1 pid left status=0
  if [[ $who != "$me" ]]; then
    for _ in {1..30}; do [[ -n $(processes_of "$uid") ]] || break; sleep 0.1; done
    for pid in $(processes_of "$uid"); do
      echo "left running: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
      kill -KILL "$pid" 2>/dev/null || true
      status=1
    done
  fi
  while read -r left; do
    echo "left in TMPDIR: ${left##*/}"
    rm -rf --one-file-system "$left"
    status=1
  done < <(find "$tmp" -mindepth 1 -maxdepth 1)
  return "$status"
}

run() {
  local who=$1 folder=$2 name=$3 binary=$4 tmp=$place/tmp status=0
  if [[ $name =~ ^($in_memory)$ ]]; then tmp=$memory/tmp${place##*/}; fi
  case $name in
    web) timeout --kill-after=10 "$limit" scripts/web.sh test || status=$? ;;
    python) timeout --kill-after=10 "$limit" scripts/python.sh test || status=$? ;;
    examples) timeout --kill-after=10 "$limit" cargo test --workspace --locked --doc || status=$? ;;
    *)
      if [[ $who == "$me" ]]; then
        install -d -m 1777 -o "$EUID" "$tmp"
      else
        install -d -m 0700 -o "$uid" -g "$uid" "$place/home" "$tmp"
      fi
      run_binary "$who" "$folder" "$binary" || status=$?
      clear_up "$who" || status=1
      ;;
  esac
  if ((status == 124)); then echo "did not end within $limit s"; fi
  return "$status"
}

# One line for a passed binary, and one for each thing it skipped; the whole output of a failed one.
report() {
  local what=$1 seconds=$2 status=$3 said=$4 counts
  if ((status > 0)); then
    echo "FAILED: $what, after $seconds s, with status $status:"
    sed -n '/^failures:/,$p' "$said"
    echo "Its output:"
    cat "$said"
    echo "END of $what"
    echo "$what" >>"$scratch/failed"
    return
  fi
  counts=$(sed -n 's/^test result: ok\. \([0-9]* passed\); 0 failed; \([0-9]* ignored\).*/\1, \2/p' "$said" | sed 's/, 0 ignored//')
  printf '%4d s  %s: %s\n' "$seconds" "$what" "${counts:-passed}"
  sed -nE 's/^ *((skipped|not run as root): .*)/        \1/Ip' "$said" | sort -u
  echo "$what" >>"$scratch/passed"
}

# Works through the queue until the end of its file. Lanes take turns at reading and printing. A test inherits neither the
# queue nor the lock, because it could hold them for ever.
lane() {
  local uid=$((first_uid + $1)) place=$scratch/$1 who folder name binary began status
  mkdir -p "$place"
  exec 9>"$scratch/turn"
  while flock 9 && IFS=$'\t' read -r who folder name binary <&3; do
    flock --unlock 9
    began=$SECONDS status=0
    run "$who" "$folder" "$name" "$binary" >"$place/said" 2>&1 </dev/null 3<&- 9>&- || status=$?
    flock 9
    report "$name, as $who" $((SECONDS - began)) "$status" "$place/said"
    if ((status == 124)); then touch "$scratch/hung"; fi
    if ((status > 0)); then printf '%s\t%s\t%s\t%s\n' "$who" "$folder" "$name" "$binary" >>"$scratch/again"; fi
    flock --unlock 9
  done
}

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
workers=()
cleanup() {
  local number pid
  trap '' INT TERM
  for pid in "${workers[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
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

cargo test --workspace --locked --no-run --message-format=json-render-diagnostics >"$scratch/built"
sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"kind":\["\([^"]*\)"\].*"name":"\([^"]*\)".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\2\t\1\t\3\t\4|p' \
  "$scratch/built" >"$scratch/tests"
sed -n 's|.*"kind":\["bin"\].*"name":"\([^"]*\)".*"profile":{[^}]*"test":false}.*"executable":"\([^"]*\)".*|\1\t\2|p' \
  "$scratch/built" >"$scratch/programs"
[[ -s $scratch/tests ]] || { echo "there are no test binaries" >&2; exit 1; }

passes=("$me")
closed=
user_mounts=
if ((EUID == 0)); then
  closed=$(closed_folder "$first_uid")
  if [[ -z $closed ]] || unshare --mount true 2>/dev/null; then
    passes+=("$user")
    if as_uid "$first_uid" test -w /dev/fuse && as_uid "$first_uid" unshare --map-root-user --mount true 2>/dev/null; then
      user_mounts=1
    fi
  else
    echo "skipped: the tests as an ordinary user, who may not enter $closed; to run them: chmod o+rx $closed" >&2
  fi
fi

# Each crate's integration tests take longest, and run before its unit tests.
for who in "${passes[@]}"; do
  sort -rs -k1,1 "$scratch/tests" | while IFS=$'\t' read -r kind folder name binary; do
    if [[ $who != "${passes[-1]}" && "${folder##*/} $kind $name" =~ ^($once)( .*)?$ ]]; then continue; fi
    printf '%s\t%s\t%s\t%s\n' "$who" "$folder" "${folder##*/} $kind $name" "$binary"
  done
  if [[ $who == "$me" ]]; then printf '%s\t.\t%s\t-\n' "$me" web "$me" examples "$me" python; fi
done >"$scratch/all"

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

touch "$scratch/passed" "$scratch/failed" "$scratch/again"
failed=$(wc -l <"$scratch/again")
unsteady=()
if ((failed > 0 && failed <= few)) && [[ ! -e $scratch/hung ]]; then
  echo "$failed failed; each runs once more, alone:"
  mapfile -t unsteady <"$scratch/failed"
  : >"$scratch/failed"
  work_off 1 < <(cat "$scratch/again")
fi

all=$(wc -l <"$scratch/all") passed=$(wc -l <"$scratch/passed") failed=$(wc -l <"$scratch/failed")
echo
for name in "${unsteady[@]}"; do
  if ! grep -qxF "$name" "$scratch/failed"; then echo "UNSTEADY: $name: failed (see above), then passed when it ran again, alone"; fi
done
echo "of $all test programs, $passed passed and $failed failed"
sed 's/^/    /' "$scratch/failed"
((passed == all))

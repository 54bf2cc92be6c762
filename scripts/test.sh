#!/usr/bin/env bash
# Builds all tests and runs them; for root twice, the second time as an ordinary user.
#
# Most tests wait, for links and servers, and leave the processors idle. So their binaries run side by side, in as many
# lanes as there are processors, each in its package's folder as cargo would run it and with a TMPDIR of its own. What
# compares times runs alone, after them. Of what passes a line is shown, and what it skipped; of what fails, all it said.
# A few that fail run once more, alone, since a crowded machine can be the reason; they are named at the end all the same.
# Not where one did not end: that has taken long enough.
#
# The ordinary user of a lane has a home that ends with the script and an id that nobody has, so whatever still runs
# under it after a binary was left running by a test, which is a failure; so is whatever lies in TMPDIR.
set -euo pipefail
cd -P "$(dirname "$0")/.."

limit=900 # seconds for one binary
few=4     # that may run again
alone='haul test race|explain test (truth|replica)|http test fast_open|examples'
# What only computes (no socket, process, file or right) comes out the same for everybody, and runs once.
computes='capture (lib|test (formats|fragments|pcapng|printed|summary))|explain (lib|test (conservation|hostile|scripted|seed|view))'

processes_of() { find /proc -maxdepth 1 -name '[0-9]*' -uid "$1" 2>/dev/null | sed 's,.*/,,'; }
as_uid() { setpriv --reuid="$1" --regid="$1" --clear-groups --inh-caps=-all "${@:2}"; }

# The workspace's own folder or the one above it that keeps the user out, if any.
closed_folder() {
  local folder='' part IFS=/
  for part in ${PWD#/}; do
    folder+=/$part
    as_uid "$1" test -r "$folder" -a -x "$folder" || { echo "$folder"; return; }
  done
}

# Paths are compiled into tests, so a workspace the user cannot walk to is shown at its own path,
# in a mount namespace of our own, with open folders leading there.
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

# What cargo tells a test.
environment() {
  local name binary
  printf '%s\0' "CARGO_MANIFEST_DIR=$1" "INSTA_WORKSPACE_ROOT=$PWD" INSTA_UPDATE=no RUST_BACKTRACE=1 "TMPDIR=$2"
  while IFS=$'\t' read -r name binary; do printf '%s\0' "CARGO_BIN_EXE_$name=$binary"; done <"$scratch/programs"
}

# Runs a binary as whoever runs this, or as the lane's ordinary user; $place is the lane's folder.
run_binary() {
  local who=$1 folder=$2 binary=$3 facts bounded
  mapfile -d '' facts < <(environment "$folder" "$place/tmp")
  bounded=(timeout --foreground --kill-after=10 "$limit" "$binary" --show-output)
  if [[ $who == "$me" ]]; then
    (cd "$folder" && exec env "${facts[@]}" "${bounded[@]}")
    return
  fi
  # Beside cargo's, the environment is that of a user who has just logged in.
  local as=(setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all
    env -i "${facts[@]}" HOME="$place/home" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 TERM="${TERM:-dumb}")
  if [[ -n $closed ]]; then
    unshare --mount --propagation private scripts/test.sh --shown "$place/workspace" "$closed" "$folder" "${as[@]}" "${bounded[@]}"
  else
    (cd "$folder" && exec "${as[@]}" "${bounded[@]}")
  fi
}

# Says what a test has left behind, and takes it away.
clear_up() {
  local who=$1 pid left status=0
  if [[ $who != "$me" ]]; then
    for _ in {1..30}; do [[ -n $(processes_of "$uid") ]] || break; sleep 0.1; done
    for pid in $(processes_of "$uid"); do
      echo "it left running: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
      kill -KILL "$pid" 2>/dev/null || true
      status=1
    done
  fi
  while read -r left; do
    echo "it left in TMPDIR: ${left##*/}"
    rm -rf --one-file-system "$left"
    status=1
  done < <(find "$place/tmp" -mindepth 1 -maxdepth 1)
  return "$status"
}

run() {
  local who=$1 folder=$2 name=$3 binary=$4 status=0
  case $name in
    web) timeout --kill-after=10 "$limit" scripts/web.sh test || status=$? ;;
    examples) timeout --kill-after=10 "$limit" cargo test --workspace --locked --doc || status=$? ;;
    *)
      if [[ $who == "$me" ]]; then
        install -d -m 1777 -o "$EUID" "$place/tmp"
      else
        install -d -m 0700 -o "$uid" -g "$uid" "$place/home" "$place/tmp"
      fi
      run_binary "$who" "$folder" "$binary" || status=$?
      clear_up "$who" || status=1
      ;;
  esac
  if ((status == 124)); then echo "it did not end within $limit s"; fi
  return "$status"
}

# One line for what passed, and one for each thing it skipped; everything of what failed.
tell() {
  local what=$1 seconds=$2 status=$3 said=$4 counts
  if ((status > 0)); then
    echo "FAILED: $what, after $seconds s, with status $status:"
    sed -n '/^failures:/,$p' "$said"
    echo "All it said:"
    cat "$said"
    echo "END of $what"
    echo "$what" >>"$scratch/failed"
    return
  fi
  counts=$(sed -n 's/^test result: ok\. \([0-9]* passed\); 0 failed; \([0-9]* ignored\).*/\1, \2/p' "$said" | sed 's/, 0 ignored//')
  printf '%4d s  %s: %s\n' "$seconds" "$what" "${counts:-passed}"
  sed -n 's/^ *\(skipped: .*\)/        \1/Ip' "$said" | sort -u
  echo "$what" >>"$scratch/passed"
}

# Works off the queue, whose end is the file's. What is read and what is shown is one lane's at a time; a test gets
# neither the queue nor the turn, as it could hold it for ever.
lane() {
  local uid=$((first_uid + $1)) place=$scratch/$1 who folder name binary began status
  mkdir -p "$place"
  exec 9>"$scratch/turn"
  while flock 9 && IFS=$'\t' read -r who folder name binary <&3; do
    flock --unlock 9
    began=$SECONDS status=0
    run "$who" "$folder" "$name" "$binary" >"$place/said" 2>&1 </dev/null 3<&- 9>&- || status=$?
    flock 9
    tell "$name, as $who" $((SECONDS - began)) "$status" "$place/said"
    if ((status == 124)); then touch "$scratch/hung"; fi
    if ((status > 0)); then printf '%s\t%s\t%s\t%s\n' "$who" "$folder" "$name" "$binary" >>"$scratch/again"; fi
    flock --unlock 9
  done
}

me=$(id -un) user="an ordinary user"
lanes=$(nproc)
first_uid=$((50000 + $$ % 9000))
free() {
  local number
  for ((number = 0; number < lanes; number++)); do
    if getent passwd $((first_uid + number)) >/dev/null || [[ -n $(processes_of $((first_uid + number))) ]]; then return 1; fi
  done
}
until free; do first_uid=$((first_uid + lanes)); done

scratch=$(mktemp -d /tmp/longhaul-test.XXXXXX)
chmod 0711 "$scratch"
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
  rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cargo test --workspace --locked --no-run --message-format=json-render-diagnostics >"$scratch/built"
sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"kind":\["\([^"]*\)"\].*"name":"\([^"]*\)".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\2\t\1\t\3\t\4|p' \
  "$scratch/built" >"$scratch/tests"
sed -n 's|.*"kind":\["bin"\].*"name":"\([^"]*\)".*"profile":{[^}]*"test":false}.*"executable":"\([^"]*\)".*|\1\t\2|p' \
  "$scratch/built" >"$scratch/programs"
[[ -s $scratch/tests ]] || { echo "there is no test binary to run" >&2; exit 1; }

passes=("$me")
closed=
if ((EUID == 0)); then
  closed=$(closed_folder "$first_uid")
  if [[ -z $closed ]] || unshare --mount true 2>/dev/null; then
    passes+=("$user")
  else
    echo "skipped: the tests as an ordinary user, who may not enter $closed; to run them: chmod o+rx $closed" >&2
  fi
fi

# Each crate's tests over links and servers, which take longest, stand before those beside the code.
for who in "${passes[@]}"; do
  sort -rs -k1,1 "$scratch/tests" | while IFS=$'\t' read -r kind folder name binary; do
    if [[ $who == "$user" && "${folder##*/} $kind $name" =~ ^($computes)( .*)?$ ]]; then continue; fi
    printf '%s\t%s\t%s\t%s\n' "$who" "$folder" "${folder##*/} $kind $name" "$binary"
  done
  if [[ $who == "$me" ]]; then printf '%s\t.\t%s\t-\n' "$me" web "$me" examples; fi
done >"$scratch/all"

set -m # so that a lane is a process group, which can be ended whole
# Has so many lanes work off what is read.
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
work_off "$lanes" < <(grep -vE $'\t'"($alone)"$'\t' "$scratch/all")
work_off 1 < <(grep -E $'\t'"($alone)"$'\t' "$scratch/all")

touch "$scratch/passed" "$scratch/failed" "$scratch/again"
failed=$(wc -l <"$scratch/again")
unsteady=()
if ((failed > 0 && failed <= few)) && [[ ! -e $scratch/hung ]]; then
  echo "$failed failed, and each runs once more, alone:"
  mapfile -t unsteady <"$scratch/failed"
  : >"$scratch/failed"
  work_off 1 < <(cat "$scratch/again")
fi

all=$(wc -l <"$scratch/all") passed=$(wc -l <"$scratch/passed") failed=$(wc -l <"$scratch/failed")
echo
for name in "${unsteady[@]}"; do
  if ! grep -qxF "$name" "$scratch/failed"; then echo "UNSTEADY: $name: failed, as shown above, and passed when it ran again, alone"; fi
done
echo "of $all test programs, $passed passed and $failed failed"
sed 's/^/    /' "$scratch/failed"
((passed == all))

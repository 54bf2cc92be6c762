#!/usr/bin/env bash
# Whether memory and open files stay flat: two mounts (--write through and back), `haul serve` and `haul gateway` under steady work.
#
#   scripts/churn.sh [SECONDS]        an hour by default
#   HAUL=target/debug/haul scripts/churn.sh 600
#
# Every ten seconds it notes the memory and the open files of each program. The first third of the time fills the caches; after it,
# nothing may grow. Ends with a table, and fails if something has grown, or if an operation has failed.
# Needs /dev/fuse, fuse3 and curl.
set -euo pipefail
cd -P "$(dirname "$0")/.."

seconds=${1:-3600}
haul=$(realpath "${HAUL:-target/release/haul}")
# What is noise: this part of it, or this much.
noise_percent=5 noise_kib=4096 noise_files=8

for program in "$haul" curl fusermount3; do
  command -v "$program" >/dev/null || { echo "churn: $program is missing" >&2; exit 2; }
done
room=$(mktemp -d -t longhaul-churn-XXXXXX)
declare -A pids=()
workers=()

clean() {
  [ ${#workers[@]} = 0 ] || kill "${workers[@]}" 2>/dev/null || true
  for mode in through back; do fusermount3 -uz "$room/$mode" 2>/dev/null || true; done
  [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$room"
}
trap clean EXIT
trap 'exit 130' INT TERM

# Starts a program that listens, and sets `at` to its URL.
listen() {
  local name=$1
  shift
  "$haul" "$@" --listen 127.0.0.1:0 2>"$room/$name.log" &
  pids[$name]=$!
  for _ in $(seq 600); do
    at=$(sed -n 's/^Serving .* at //p' "$room/$name.log")
    [ -z "$at" ] || return 0
    sleep 0.1
  done
  cat "$room/$name.log" >&2
  exit 1
}

mkdir "$room"/{root,root/files,through,back}
# At bcrypt's least cost.
# shellcheck disable=SC2016
echo 'ann:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW' >"$room/users"
printf secret >"$room/password"
listen serve serve "$room/root" --auth "$room/users"
server=$at
listen gateway gateway --upstream "${server}files/" --write back --state "$room/state" --cache-dir "$room" --cache-size 16MiB
gateway=$at
export HAUL_USER=ann HAUL_PASSWORD_FILE=$room/password
for mode in through back; do
  mkdir "$room/root/$mode"
  "$haul" mount "${server/:\/\//:\/\/ann@}$mode/" "$room/$mode" --foreground --write "$mode" --fresh 1s --cache-dir "$room/cache-$mode" \
    --cache-size 16MiB 2>"$room/mount-$mode.log" &
  pids[mount-$mode]=$!
  for _ in $(seq 600); do
    if mountpoint -q "$room/$mode"; then continue 2; fi
    sleep 0.1
  done
  cat "$room/mount-$mode.log" >&2
  exit 1
done

# Counts operations in a file of its own, which is always whole.
count() { echo "$1" >"$room/counting-$name" && mv "$room/counting-$name" "$room/count-$name"; }

# What programs do in a mount: new files, edits, appends, renames, folders, listings, deletions.
work_in_mount() {
  local name=mount-$1 folder=$room/$1 done=0 round text number
  printf -v text '%8000s' text
  for ((round = 0; ; round++)); do
    mkdir "$folder/$round"
    for ((number = 0; number < 20; number++)); do
      printf '%s%s' "$round" "$text" >"$folder/$round/$number"
      printf 'more' >>"$folder/$round/$number"
      read -r -n 100 _ <"$folder/$round/$number" || true
    done
    printf 'again' >"$folder/shared"
    ls -l "$folder/$round" >/dev/null
    mv "$folder/$round/0" "$folder/$round/moved"
    rm -r "${folder:?}/$round"
    done=$((done + 85))
    count "$done"
  done
}

# What clients do over HTTP, on connections that are used again: to the server, and through the gateway.
work_over_http() {
  local name=$1 base=$2 done=0 round number file=$room/file-$1 config=$room/config-$1
  head -c 300000 /dev/zero >"$file"
  for ((round = 0; ; round++)); do
    for ((number = 0; number < 10; number++)); do
      local url="${base}files/$name-$number"
      printf 'url = "%s"\nupload-file = "%s"\nnext\n' "$url" "$file"
      printf 'url = "%s"\nnext\n' "$url"
      printf 'url = "%sfiles/"\nrequest = PROPFIND\nheader = "Depth: 1"\nnext\n' "$base"
      printf 'url = "%s"\nrequest = DELETE\nnext\n' "$url"
    done | sed '$d' | sed 's/^url/user = "ann:secret"\nsilent\nfail\noutput = "\/dev\/null"\nurl/' >"$config"
    # A client that leaves in the middle of a download.
    curl --silent --user ann:secret --max-time 0.2 --limit-rate 10K "${base}files/large" >/dev/null || true
    curl --config "$config"
    done=$((done + 41))
    count "$done"
  done
}

truncate -s 64M "$room/root/files/large"
for mode in through back; do work_in_mount "$mode" & workers+=($!); done 2>"$room/errors-mounts"
work_over_http serve "$server" 2>"$room/errors-serve" & workers+=($!)
work_over_http gateway "$gateway" 2>"$room/errors-gateway" & workers+=($!)

begun=$SECONDS
while ((SECONDS - begun < seconds)); do
  sleep 10
  for worker in "${workers[@]}"; do
    kill -0 "$worker" 2>/dev/null || { echo "churn: an operation has failed:" >&2; cat "$room"/errors-* "$room"/*.log >&2; exit 1; }
  done
  for name in "${!pids[@]}"; do
    memory=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/${pids[$name]}/status") || { echo "churn: $name has ended" >&2; exit 1; }
    files=("/proc/${pids[$name]}/fd"/*)
    echo "$name $((SECONDS - begun)) $memory ${#files[@]}" >>"$room/samples"
  done
done
operations=$(cat "$room"/count-* | awk '{ all += $1 } END { printf "%d", all }')
sort -k1,1 -k2,2n "$room/samples" | awk -v seconds="$seconds" -v operations="$operations" \
  -v percent=$noise_percent -v kib=$noise_kib -v files=$noise_files '
  function median(list, count,    i, j, kept) {
    for (i = 2; i <= count; i++) {
      kept = list[i]
      for (j = i - 1; j >= 1 && list[j] > kept; j--) list[j + 1] = list[j]
      list[j + 1] = kept
    }
    return list[int((count + 1) / 2)]
  }
  function judge(    memory, open, more, memory_before, open_before, verdict) {
    memory_before = median(memory_middle, middle); open_before = median(open_middle, middle)
    memory = median(memory_last, last); open = median(open_last, last)
    more = memory - memory_before
    verdict = "flat"
    if (more > kib && more * 100 > memory_before * percent || open - open_before > files) { verdict = "GROWS"; grows = 1 }
    printf "%-14s %7.1f MiB %7.1f MiB %6d %6d   %s\n", name, memory_before / 1024, memory / 1024, open_before, open, verdict
    middle = last = 0
  }
  BEGIN { printf "%d operations in %d s\n%-14s %11s %11s %6s %6s\n", operations, seconds, "", "memory", "then", "files", "then" }
  $1 != name { if (name) judge(); name = $1 }
  $2 > seconds / 3 && $2 <= seconds * 2 / 3 { memory_middle[++middle] = $3; open_middle[middle] = $4 }
  $2 > seconds * 2 / 3 { memory_last[++last] = $3; open_last[last] = $4 }
  END { judge(); exit grows }'

# What the output of test programs says: which tests passed, failed and were skipped. Sourced by scripts/test.sh, whose
# folder $scratch it fills:
#
#   counts      passed, skipped; one line for each program
#   failures    who, folder, program, binary, test; one line for each failed test, with a reason instead of the test if the
#               program has failed as a whole
#   skips       the reason of each skipped test
# shellcheck shell=bash disable=SC2154

# The numbers of tests that passed and were skipped. A program without tests counts as one.
counts() {
  case $1 in
    web) awk '/^ℹ pass / { p += $3 } /^ℹ (skipped|todo) / { s += $3 } END { print p + 0, s + 0 }' "$2" ;;
    python)
      sed -n 's/^=* \(.* in [0-9.]*s.*\)/\1/p' "$2" | tail -n 1 | tr ',' '\n' |
        awk '$2 == "passed" { p = $1 } $2 == "skipped" { s = $1 } END { print p + 0, s + 0 }'
      ;;
    *) awk '/^test result: / { p += $4; s += $8 } END { print p + 0, s + 0 }' "$2" ;;
  esac
}

# The names of the tests that failed.
failed_tests() {
  case $1 in
    web) sed -n 's/^ *✖ \(.*\) ([0-9.]*ms)$/\1/p' "$2" | sort -u ;;
    python) sed -n 's/^FAILED \([^ ]*\).*/\1/p' "$2" ;;
    # The list behind the outputs.
    *) awk '/^failures:$/ { n = 0 }
      /^    [^ ]/ { name[n++] = substr($0, 5) }
      /^test result: / { if ($3 ~ /^FAILED/) for (i = 0; i < n; i++) if (!seen[name[i]]++) print name[i]; n = 0 }' "$2" ;;
  esac
}

# Why a program failed, no test of which did.
reason() {
  if (($1 == 124)); then
    echo "it did not end within $limit s"
  elif grep -q '^left ' "$2"; then
    grep '^left ' "$2" | head -n 1
  else
    echo "it ended with status $1"
  fi
}

# What the failed tests of a program said; the log has the rest.
show_failures() {
  local shown=60 text
  text=$(awk '/^failures:$/ { if (on) exit; on = 1; next } on' "$1")
  [[ -n $text ]] || text=$(tail -n "$shown" "$1")
  head -n "$shown" <<<"$text" | sed 's/^/    /'
}

# Takes down what a program of tests did, and shows what failed.
report() {
  local who=$1 folder=$2 name=$3 binary=$4 seconds=$5 status=$6 said=$7 tests number
  {
    printf '\n==== %s, as %s: %s s, status %s\n' "$name" "$who" "$seconds" "$status"
    cat "$said"
  } >>"$log"
  counts "$name" "$said" >>"$scratch/counts"
  sed -nE 's/^ *(skipped|not run as root): (.*)/\1: \2/Ip' "$said" | sort -u >>"$scratch/skips"
  if ((status > 0)); then
    tests=$(failed_tests "$name" "$said")
    [[ -n $tests ]] || tests="($(reason "$status" "$said"))"
    while read -r test; do printf '%s\t%s\t%s\t%s\t%s\n' "$who" "$folder" "$name" "$binary" "$test"; done <<<"$tests" >>"$scratch/failures"
    clear_line
    while read -r test; do echo "FAILED: $name › $test, as $who"; done <<<"$tests"
    show_failures "$said"
  fi
  number=$(wc -l <"$scratch/counts")
  progress "$number" "$(wc -l <"$scratch/all")"
}

clear_line() { if [[ -t 1 ]]; then printf '\r\e[K'; fi; }

# On a terminal one line that changes, otherwise a line for each tenth.
progress() {
  local text
  text="tests: $1 of $2 programs, $(wc -l <"$scratch/failures") failed, ${SECONDS} s"
  if [[ -t 1 ]]; then
    printf '\r\e[K%s' "$text"
  elif (($1 * 10 / $2 > ($1 - 1) * 10 / $2)); then
    echo "$text"
  fi
}

# The reasons of this kind, each once, with a limit.
reasons() {
  local shown=12 all
  all=$(grep -Ei "$1" "$scratch/skips" | sed -E 's/^skipped: //I' | sort | uniq) || true
  [[ -n $all ]] || return 0
  echo "$2"
  head -n "$shown" <<<"$all" | cut -c 1-160 | sed 's/^/    /'
  if (($(wc -l <<<"$all") > shown)); then echo "    … and $(($(wc -l <<<"$all") - shown)) more in the log"; fi
}

# One screen: what failed and how to repeat it, what is missing, and the numbers. Fails if a test has failed.
summarize() {
  local failed passed skipped who name test package='not installed|apt(-get)? install|^skipped: node|npm cannot|pip cannot'
  failed=$(wc -l <"$scratch/failures")
  passed=$(awk -v again="${#unsteady[@]}" '{ p += $1 } END { print p + again }' "$scratch/counts")
  skipped=$(awk '{ s += $2 } END { print s + 0 }' "$scratch/counts")
  clear_line
  echo
  for test in "${unsteady[@]}"; do echo "UNSTEADY: $test: failed (see above), then passed when it ran again, alone"; done
  reasons "$package" "Skipped, because a program is missing (scripts/setup.sh test names the packages):"
  grep -viE "$package|^not run as root" "$scratch/skips" | sort -u >"$scratch/others" || true
  if [[ -s $scratch/others ]]; then echo "Skipped for other reasons of this machine: $(wc -l <"$scratch/others"), in the log behind \"skipped: \""; fi
  if ((failed > 0)); then
    echo "Failed:"
    while IFS=$'\t' read -r who _ name _ test; do
      printf '    %s › %s, as %s\n        again: scripts/test.sh' "$name" "$test" "$who"
      if [[ $test == '('* || $name == web || $name == python || $name == examples ]]; then printf " '%s'\n" "$name"; else printf " '%s' '%s'\n" "$name" "$test"; fi
    done <"$scratch/failures"
  fi
  printf 'In %d min %d s, as %s; log: %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$1" "$log"
  echo "$passed passed, $failed failed, $skipped skipped"
  ((failed == 0))
}

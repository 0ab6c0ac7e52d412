#!/usr/bin/env bash
# Lints and runs all tests in several sessions, three at a time: much of a test's time is spent waiting, and the others use it.
# With arguments, they go to one pytest: `scripts/test.sh -k gateway`.
set -uo pipefail
cd "$(dirname "$0")/.."

pytest=(.venv/bin/python -m pytest)
engine=(tests/engine tests/examples)
kills=(tests/exactly_once tests/faults tests/real_time)
cluster=(tests/cluster tests/chaos)
# Together, since they build in the same folders.
sdks=(tests/sdk_* tests/engine_java tests/go_source tests/languages tests/scaffold tests/vectors)
# Together, since each session starts brokers of its own.
connectors=(tests/connectors tests/brokers tests/broker_crashes tests/conformance tests/health)
commands=(tests/cli tests/bench tests/demo)
others=(tests)
for folder in "${engine[@]}" "${kills[@]}" "${cluster[@]}" "${sdks[@]}" "${connectors[@]}" "${commands[@]}"; do
  others+=("--ignore=$folder")
done

# With more on two cores, each waits so long for the others that deadlines pass, and all of them take more processor time.
at_once=3
# The same seed for all, so that one option gives the same kills again.
seed=$(printf '%08x' "$((RANDOM << 15 | RANDOM))")
arguments=("$@")
if [ $# -gt 0 ]; then
  names=(lint selected)
else
  # The long ones first. From the archive of its classes, which is made while others run, Spark starts in half the time.
  names=(lint sdks archive connectors engine kills commands cluster others)
fi

# session NAME: lints, or runs tests.
session() {
  local tests="$1[@]"
  case $1 in
    lint) exec make --no-print-directory lint ;;
    archive) exec .venv/bin/headrace prepare --if-missing ;;
    selected) exec "${pytest[@]}" "${arguments[@]}" ;;
    *) exec "${pytest[@]}" --kill-seed "$seed" "${!tests}" ;;
  esac
}

# lane: runs one session after the other that no other lane has taken, and shows what each has printed when it has ended.
lane() {
  local name child=
  trap 'kill -TERM $child 2>/dev/null; wait; exit 143' TERM
  for name in "${names[@]}"; do
    mkdir "$logs/$name.taken" 2>/dev/null || continue
    (session "$name") >"$logs/$name" 2>&1 &
    child=$!
    wait "$child" && rm "$logs/$name.failed"
    echo "=== $name"
    cat "$logs/$name"
  done
}

# progress: prints once a minute how far the test sessions are.
progress() {
  # A pause that ends with this function: one left over would hold standard output open.
  trap 'kill "$pause"; exit' TERM
  while sleep 60 & pause=$!; wait "$pause"; do
    line=$(date +%H:%M:%S)
    for name in "${names[@]}"; do
      done=$(grep -o '[0-9]*%' "$logs/$name" 2>/dev/null | tail -n 1)
      [ -z "$done" ] || [ "$done" = 100% ] || line="$line  $name $done"
    done
    echo "$line"
  done
}

# end EXIT-CODE: has everything end that runs, with what it has started.
end() {
  trap '' INT TERM
  kill -TERM "${lanes[@]}" ${ticker:+"$ticker"} 2>/dev/null
  wait
  for name in "${names[@]}"; do
    cat "$logs/$name" 2>/dev/null
  done
  rm -rf "$logs"
  exit "$1"
}

logs=$(mktemp -d)
lanes=()
ticker=
trap 'end 130' INT
trap 'end 143' TERM
for name in "${names[@]}"; do
  # Gone once it has succeeded.
  touch "$logs/$name.failed"
done
for ((n = 0; n < at_once; n++)); do
  lane &
  lanes+=("$!")
done
progress &
ticker=$!

for lane in "${lanes[@]}"; do
  wait "$lane"
done
kill "$ticker"
failed=$(cd "$logs" && ls | sed -n 's/\.failed$//p' | tr '\n' ' ')
rm -rf "$logs"
[ -z "$failed" ] || echo "failed: $failed"
[ -z "$failed" ]

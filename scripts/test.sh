#!/usr/bin/env bash
# Installs brokers and lints, then runs the tests in several sessions, three at a time: much of a test's time is spent waiting, and
# the others use it.
#
#   scripts/test.sh [--seed SEED]         all light tests, and a sample of the heavy ones, which the seed decides
#   scripts/test.sh --all [--seed SEED]   all tests
#   scripts/test.sh --share I/N [...]     no lint, and the I-th of N shares of the heavy tests that the sample leaves out
#   scripts/test.sh -k gateway            what these arguments of pytest name, all of it, in one session
set -uo pipefail
cd "$(dirname "$0")/.."

heavy=sample
# The same seed for all sessions, so that one option gives the same sample and the same kills again.
seed=$(printf '%08x' "$((RANDOM << 15 | RANDOM))")
while [ $# -gt 0 ]; do
  case $1 in
    --all) heavy=all ;;
    --share) heavy=$2 && shift ;;
    --seed) seed=$2 && shift ;;
    *) break ;;
  esac
  shift
done

# What pytest and Python compile is kept, since each session and each process that it starts would compile it again.
unset PYTHONDONTWRITEBYTECODE
pytest=(.venv/bin/python -m pytest)
brokers=(rabbitmq rabbitmq4 nats kafka postgresql hdfs s3)
engine=(tests/engine tests/examples)
kills=(tests/exactly_once tests/faults tests/real_time)
cluster=(tests/cluster tests/chaos)
# Go and Cargo wait for builds of other sessions. Maven and npm do not: whatever they build is in one session.
compiled=(tests/sdk_go tests/sdk_rust tests/go_source)
sdks=(tests/sdk_java tests/sdk_typescript tests/engine_java tests/languages tests/scaffold tests/vectors)
connectors=(tests/connectors tests/health)
brokers_killed=(tests/brokers tests/broker_crashes tests/conformance)
commands=(tests/cli tests/bench tests/demo)
simulation=(tests/simulation)
others=(tests)
for folder in "${engine[@]}" "${kills[@]}" "${cluster[@]}" "${compiled[@]}" "${sdks[@]}" "${connectors[@]}" \
  "${brokers_killed[@]}" "${commands[@]}" "${simulation[@]}"; do
  others+=("--ignore=$folder")
done

# With more on two cores, each waits so long for the others that deadlines pass, and all of them take more processor time.
at_once=3
arguments=("$@")
# What the tests need comes first, side by side: from the archive of its classes, Spark starts in half the time.
before=()
# The long ones first, so that the lanes end together.
names=(connectors sdks engine others compiled commands kills brokers_killed cluster simulation)
if [ $# -gt 0 ]; then
  names=(lint selected)
elif [ "$heavy" = all ] || [ "$heavy" = sample ]; then
  before=(install archive lint)
else
  before=(install)
fi

# session NAME: installs, lints, or runs tests.
session() {
  local tests="$1[@]"
  case $1 in
    # What cannot be installed here is left out, and the last lines name it; with CI=true, its tests fail.
    install) .venv/bin/python -m scripts.brokers install "${brokers[@]}" || [ "${CI:-}" != true ] ;;
    lint) exec make --no-print-directory lint ;;
    archive) exec .venv/bin/headrace prepare --if-missing ;;
    selected) exec "${pytest[@]}" "${arguments[@]}" ;;
    *) exec "${pytest[@]}" --heavy "$heavy" --kill-seed "$seed" --left-out "$logs/$1.left-out" --spent "$logs/$1.spent" "${!tests}" ;;
  esac
}

# lane NAME...: runs one session after the other that no other lane has taken, and shows what each has printed when it has ended.
lane() {
  local name began child=
  trap 'kill -TERM $child 2>/dev/null; wait; exit 143' TERM
  for name in "$@"; do
    mkdir "$logs/$name.taken" 2>/dev/null || continue
    began=$SECONDS
    (session "$name") >"$logs/$name" 2>&1 &
    child=$!
    wait "$child" && rm "$logs/$name.failed"
    echo "=== $name: $((SECONDS - began)) s"
    cat "$logs/$name"
  done
}

# in_lanes NAME...: runs these sessions, and waits for them.
in_lanes() {
  local name n
  lanes=()
  for name in "$@"; do
    # Gone once it has succeeded.
    touch "$logs/$name.failed"
  done
  for ((n = 0; n < at_once; n++)); do
    lane "$@" &
    lanes+=("$!")
  done
  for n in "${lanes[@]}"; do
    wait "$n"
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
  for name in ${before[@]+"${before[@]}"} "${names[@]}"; do
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
progress &
ticker=$!
[ ${#before[@]} = 0 ] || in_lanes "${before[@]}"
in_lanes "${names[@]}"
kill "$ticker"
failed=$(cd "$logs" && ls | sed -n 's/\.failed$//p' | tr '\n' ' ')
[ $# -gt 0 ] || .venv/bin/python -m tests.selection.spent "$logs"/*.spent
.venv/bin/python -m tests.selection.left_out "$seed" "$logs"/*.left-out
rm -rf "$logs"
[ -z "$failed" ] || echo "failed: $failed"
[ -z "$failed" ]

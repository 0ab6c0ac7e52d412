#!/usr/bin/env bash
# Installs brokers and lints, then runs the tests in several sessions, four or five at a time: much of a test's time is spent
# waiting, and the others use it.
#
#   scripts/test.sh [--seed SEED]         all light tests, and a sample of the heavy ones, which the seed decides
#   scripts/test.sh --all [--seed SEED]   all tests; of those that come in turn, the ones that the seed decides
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
brokers=(rabbitmq rabbitmq4 nats kafka postgresql hdfs s3 registry catalog yarn)
examples=(tests/examples)
engine=(tests/engine "${examples[@]}")
kills=(tests/exactly_once tests/faults tests/real_time)
cluster=(tests/cluster tests/chaos)
# Go and Cargo wait for builds of other sessions. Maven and npm do not: whatever they build is in one session.
compiled=(tests/sdk/go tests/sdk/rust tests/go_source)
sdks=(tests/sdk/java tests/sdk/typescript tests/engine_java tests/sdk/languages tests/scaffold tests/vectors)
commands=(tests/cli tests/bench tests/demo)
simulation=(tests/simulation)
models=(tests/pipelines tests/sdk/python tests/protocol)
gateway=(tests/gateway)
queues=(tests/connectors/rabbitmq tests/connectors/nats)
records=(tests/connectors/kafka tests/connectors/postgresql)
connectors=(tests/connectors tests/health)
brokers_killed=(tests/brokers tests/broker_crashes tests/conformance)
others=(tests)
for folder in "${engine[@]}" "${kills[@]}" "${cluster[@]}" "${compiled[@]}" "${sdks[@]}" "${commands[@]}" "${simulation[@]}" \
  "${models[@]}" "${gateway[@]}" tests/connectors tests/health "${brokers_killed[@]}"; do
  others+=("--ignore=$folder")
done
# Two lanes take from the beginning, where tests compute, and two from the end, where they mostly wait; from either side, the long
# sessions come first, so that the lanes end together. All tests wait for a larger part of their time than the sample: a third
# lane takes from the end.
names=(engine sdks compiled kills commands simulation models gateway brokers_killed cluster connectors others)
# Of all tests, those of connectors are three sessions. Otherwise they are one, which starts each broker once. The session of the
# engine would be the longest by far with the examples.
if [ "$heavy" = all ]; then
  engine=(tests/engine)
  names=(engine sdks compiled kills commands simulation models gateway examples queues brokers_killed records cluster connectors others)
  for folder in "${queues[@]}" "${records[@]}"; do
    connectors+=("--ignore=$folder")
  done
fi
from_the_beginning=2
from_the_end=2
[ "$heavy" != all ] || from_the_end=3
arguments=("$@")
# Model-based machines do the same in each run but in one of all tests.
machines=()
turns=()
[ "$heavy" != all ] || machines=(--machine-seed "$seed") turns=(--in-turn)
properties=()
[ "$heavy" != sample ] || properties=(--hypothesis-profile sample)
# What the tests need comes first, side by side: from the archive of its classes, Spark starts in half the time. No test needs
# what lints, which runs beside all of that.
before=(install)
beside=()
if [ $# -gt 0 ]; then
  before=()
  beside=(lint)
  names=(selected)
elif [ "$heavy" = all ] || [ "$heavy" = sample ]; then
  before+=(archive)
  beside=(lint)
fi

# session NAME: installs, lints, or runs tests.
session() {
  local tests="$1[@]"
  case $1 in
    # What cannot be installed here is left out, and the last lines name it; with CI=true, its tests fail.
    install) .venv/bin/python -m scripts.brokers install "${brokers[@]}" || [ "${CI:-}" != true ] ;;
    lint) exec make --no-print-directory lint ;;
    # Without it, the tests only take longer.
    archive) .venv/bin/headrace prepare --if-missing || echo "without an archive of its classes, Spark starts more slowly" ;;
    selected) exec "${pytest[@]}" "${arguments[@]}" ;;
    *) exec "${pytest[@]}" --heavy "$heavy" --kill-seed "$seed" "${machines[@]}" "${turns[@]}" "${properties[@]}" --left-out "$logs/$1.left-out" --spent "$logs/$1.spent" "${!tests}" ;;
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
  local name n reversed=()
  lanes=()
  for name in "$@"; do
    reversed=("$name" ${reversed[@]+"${reversed[@]}"})
    # Gone once it has succeeded.
    touch "$logs/$name.failed"
  done
  for ((n = 0; n < from_the_beginning; n++)); do
    lane "$@" &
    lanes+=("$!")
  done
  for ((n = 0; n < from_the_end; n++)); do
    lane "${reversed[@]}" &
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
  kill -TERM ${lanes[@]+"${lanes[@]}"} ${linter:+"$linter"} ${ticker:+"$ticker"} 2>/dev/null
  wait
  for name in ${before[@]+"${before[@]}"} ${beside[@]+"${beside[@]}"} "${names[@]}"; do
    cat "$logs/$name" 2>/dev/null
  done
  rm -rf "$logs"
  exit "$1"
}

logs=$(mktemp -d)
lanes=()
linter=
ticker=
trap 'end 130' INT
trap 'end 143' TERM
progress &
ticker=$!
if [ ${#beside[@]} != 0 ]; then
  touch "$logs/lint.failed"
  lane lint &
  linter=$!
fi
[ ${#before[@]} = 0 ] || in_lanes "${before[@]}"
in_lanes "${names[@]}"
[ -z "$linter" ] || wait "$linter"
kill "$ticker"
failed=$(cd "$logs" && ls | sed -n 's/\.failed$//p' | tr '\n' ' ')
[ $# -gt 0 ] || .venv/bin/python -m tests.selection.spent "$logs"/*.spent
.venv/bin/python -m tests.selection.left_out "$seed" "$logs"/*.left-out
rm -rf "$logs"
[ -z "$failed" ] || echo "failed: $failed"
[ -z "$failed" ]

#!/usr/bin/env bash
# Runs all tests, in two processes side by side: those that run Spark wait a lot, and the others use that time.
# With arguments, they go to one pytest: `scripts/test.sh -k gateway`.
set -uo pipefail
cd "$(dirname "$0")/.."

pytest=(.venv/bin/python -m pytest)
[ $# -eq 0 ] || exec "${pytest[@]}" "$@"

with_spark=(tests/chaos tests/cluster tests/engine tests/exactly_once tests/examples tests/faults)
others=$(mktemp)
trap 'rm -f "$others"' EXIT

"${pytest[@]}" tests "${with_spark[@]/#/--ignore=}" >"$others" 2>&1 &
pid=$!
trap 'kill -INT "$pid" 2>/dev/null; wait; exit 143' TERM
trap 'kill -INT "$pid" 2>/dev/null; wait; exit 130' INT

"${pytest[@]}" "${with_spark[@]}"
spark=$?
echo "The other tests, which ran meanwhile:"
wait "$pid"
rest=$?
cat "$others"
[ "$spark" -eq 0 ] && [ "$rest" -eq 0 ]

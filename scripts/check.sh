#!/usr/bin/env bash
# Lints and, meanwhile, runs the tests that need neither Spark nor a broker and end quickly: within a minute on two cores.
set -uo pipefail
cd "$(dirname "$0")/.."

tests=(tests/pipelines tests/sdk tests/gateway tests/chaos tests/protocol/test_codec.py tests/cli/test_r{oot,un}.py)
slow=(tests/gateway/test_{bounds,connections,fuzz,hostile,logs,reloading,rotation,server,tls}.py tests/sdk/test_conformance.py)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
make --no-print-directory lint >"$log" 2>&1 &
lint=$!
# More processes than cores: most of these tests' time is spent waiting.
.venv/bin/python -m pytest -q -n 5 --dist worksteal "${tests[@]}" "${slow[@]/#/--ignore=}" "$@" &
pytest=$!
trap 'kill -TERM "$lint" "$pytest" 2>/dev/null; wait; exit 130' INT
trap 'kill -TERM "$lint" "$pytest" 2>/dev/null; wait; exit 143' TERM

wait "$pytest"
tested=$?
wait "$lint"
linted=$?
cat "$log"
[ "$tested" -eq 0 ] && [ "$linted" -eq 0 ]

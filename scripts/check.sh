#!/usr/bin/env bash
# Lints and, meanwhile, runs the tests that need neither Spark nor a broker and end quickly: within a minute on two cores.
set -uo pipefail
cd "$(dirname "$0")/.."

tests=(tests/pipelines tests/sdk tests/gateway tests/chaos tests/protocol/test_codec.py tests/cli/test_r{oot,un}.py)
slow=(
  tests/gateway/test_{bounds,charging,connections,entries,events,fuzz,handing_on,hostile,http,logs,metrics,otlp,peeking,ready}.py
  tests/gateway/test_{changes,origins,reloading,rotation,server,signing,slices,timeline,tls}.py
  tests/pipelines/test_{beginnings,every_state,expiry,idle_by_any_way,live_results,programs,properties,type_checkers}.py
  tests/sdk/test_{conformance,process,session,sinks_with_gateway}.py
)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
make --no-print-directory lint >"$log" 2>&1 &
lint=$!
# More processes than cores, since these tests spend half of their time waiting; not many, since each has to collect all tests.
.venv/bin/python -m pytest -q -n 3 --dist worksteal "${tests[@]}" "${slow[@]/#/--ignore=}" "$@" &
pytest=$!
trap 'kill -TERM "$lint" "$pytest" 2>/dev/null; wait; exit 130' INT
trap 'kill -TERM "$lint" "$pytest" 2>/dev/null; wait; exit 143' TERM

wait "$pytest"
tested=$?
wait "$lint"
linted=$?
cat "$log"
[ "$tested" -eq 0 ] && [ "$linted" -eq 0 ]

#!/usr/bin/env bash
# Lints and, meanwhile, runs the tests that need neither Spark nor a broker and end quickly: within 45 s on two cores.
set -uo pipefail
cd "$(dirname "$0")/.."

slow=(
  tests/gateway/test_{alerts_of_faults,bounds,charging,client_certificates,connections,descriptors,drivers,entries,events,following,frozen_peers,frozen_readers,full_connections,fuzz}.py
  tests/gateway/test_{handing_on,hostile,http,logs,many_connections,metrics,otlp,own_files,peeking,ready,recorded_alerts,refused_parts}.py
  tests/gateway/test_{api,changes,faults_everywhere,hidden_faults,history,leases,origins,pausing,process_states,refusals,reloading,revoking,rotation,server,signing,sinks,slices,timeline,tls}.py
  tests/pipelines/test_{beginnings,broadcast,call_ids,changed_classes,clock_timers,clock_ttl,early_results,every_state,expiry}.py
  tests/pipelines/test_{idle_by_any_way,idle_flush,idle_streams,joins,live_results,per_process,registry,summaries}.py
  tests/pipelines/test_{programs,properties,real_registry,same_values,type_checkers}.py
  tests/sdk/python/test_{close,conformance,process,session,sinks,sinks_with_gateway,token_files,with_gateway}.py
)

# quick FILE...: those of them that are not slow. pytest ignores no file that it is given.
quick() {
  local file
  for file in "$@"; do
    [[ " ${slow[*]} " == *" $file "* ]] || echo "$file"
  done
}

# In three sessions, of which each collects its own tests only: workers of one session would each collect all of them. Those of
# the gateway mostly wait.
models=(tests/pipelines tests/sdk/python tests/protocol/test_codec.py)
# shellcheck disable=SC2207 # No name has a space, and old versions of bash have no mapfile.
gateways=($(quick tests/gateway/test_[a-o]*.py) tests/chaos)
# shellcheck disable=SC2207
others=($(quick tests/gateway/test_[p-z]*.py) tests/cli/test_r{oot,un}.py)

# What pytest compiles is kept.
unset PYTHONDONTWRITEBYTECODE

# session TEST...: runs tests, with fewer examples for each property than elsewhere.
session() {
  exec .venv/bin/python -m pytest -q --hypothesis-profile=quick "$@" "${slow[@]/#/--ignore=}"
}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
make --no-print-directory lint >"$logs/lint" 2>&1 &
lint=$!
session "${gateways[@]}" "$@" >"$logs/gateways" 2>&1 &
sessions=("$!")
session "${others[@]}" "$@" >"$logs/others" 2>&1 &
sessions+=("$!")
session "${models[@]}" "$@" &
sessions+=("$!")
trap 'kill -TERM "$lint" "${sessions[@]}" 2>/dev/null; wait; exit 130' INT
trap 'kill -TERM "$lint" "${sessions[@]}" 2>/dev/null; wait; exit 143' TERM

failed=0
for each in "${sessions[@]}"; do
  # 5: of what the arguments select, this session has nothing.
  wait "$each" || [ $? = 5 ] || failed=1
done
wait "$lint" || failed=1
cat "$logs/gateways" "$logs/others" "$logs/lint"
exit "$failed"

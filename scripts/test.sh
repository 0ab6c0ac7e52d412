#!/usr/bin/env bash
# Lints and runs all tests, side by side: much of a test's time is spent waiting, and the others use it.
# With arguments, they go to one pytest: `scripts/test.sh -k gateway`.
set -uo pipefail
cd "$(dirname "$0")/.."

pytest=(.venv/bin/python -m pytest)
spark=(tests/engine tests/examples tests/faults)
kills=(tests/chaos tests/cluster tests/exactly_once tests/real_time)
sdks=(tests/sdk_* tests/go_source tests/languages tests/scaffold tests/vectors)
# Together, since each session starts brokers of its own.
connectors=(tests/connectors tests/brokers tests/broker_crashes tests/conformance tests/health)
others=(tests)
for folder in "${spark[@]}" "${kills[@]}" "${sdks[@]}" "${connectors[@]}"; do
  others+=("--ignore=$folder")
done

logs=$(mktemp -d)
names=()
pids=()
failed=()
ticker=

# run NAME COMMAND: starts a command, whose output is shown when it has ended.
run() {
  local name=$1
  shift
  "$@" >"$logs/$name" 2>&1 &
  names+=("$name")
  pids+=("$!")
}

# after PID COMMAND: runs a command once a process has ended.
after() {
  tail --pid="$1" -f /dev/null
  "${@:2}"
}

# await INDEX: waits until a command has ended, and shows its output.
await() {
  local name=${names[$1]}
  wait "${pids[$1]}" || failed+=("$name")
  echo "=== $name"
  cat "$logs/$name"
  unset "names[$1]" "pids[$1]"
}

# progress: prints once a minute how far the test sessions are.
progress() {
  # A pause that ends with this function: one left over would hold standard output open.
  trap 'kill "$pause"; exit' TERM
  while sleep 60 & pause=$!; wait "$pause"; do
    line=$(date +%H:%M:%S)
    for name in "${names[@]}"; do
      done=$(grep -o '[0-9]*%' "$logs/$name" 2>/dev/null | tail -n 1)
      [ -z "$done" ] || line="$line  $name $done"
    done
    echo "$line"
  done
}

# end EXIT-CODE: has everything end that runs, with what it has started.
end() {
  trap '' INT TERM
  kill -TERM "${pids[@]}" ${ticker:+"$ticker"} 2>/dev/null
  wait
  cat "$logs"/*
  rm -rf "$logs"
  exit "$1"
}
trap 'end 130' INT
trap 'end 143' TERM

run lint make --no-print-directory lint
if [ $# -gt 0 ]; then
  run tests "${pytest[@]}" "$@"
else
  # The same seed for all, so that one option gives the same kills again.
  seed=$(printf '%08x' "$((RANDOM << 15 | RANDOM))")
  run sdks "${pytest[@]}" --kill-seed "$seed" "${sdks[@]}"
  # Once it has made the archive of Spark's classes, Spark starts in half the time: what starts it often waits for that.
  run archive .venv/bin/headrace prepare --if-missing
  await $((${#pids[@]} - 1))
  run others "${pytest[@]}" --kill-seed "$seed" "${others[@]}"
  run kills "${pytest[@]}" --kill-seed "$seed" "${kills[@]}"
  run spark "${pytest[@]}" --kill-seed "$seed" "${spark[@]}"
  # With five sessions on two cores, each waits so long for the others that deadlines pass.
  run connectors after "${pids[-1]}" "${pytest[@]}" --kill-seed "$seed" "${connectors[@]}"
fi

progress &
ticker=$!

for index in "${!pids[@]}"; do
  await "$index"
done
kill "$ticker"
rm -rf "$logs"
[ "${#failed[@]}" -eq 0 ] || echo "failed: ${failed[*]}"
[ "${#failed[@]}" -eq 0 ]

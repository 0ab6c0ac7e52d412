#!/usr/bin/env bash
# Lints and runs all tests, side by side: much of a test's time is spent waiting, and the others use it.
# With arguments, they go to one pytest: `scripts/test.sh -k gateway`.
set -uo pipefail
cd "$(dirname "$0")/.."

pytest=(.venv/bin/python -m pytest)
spark=(tests/engine tests/examples tests/faults)
kills=(tests/chaos tests/cluster tests/exactly_once)
sdks=(tests/sdk_* tests/go_source tests/conformance tests/vectors)
others=(tests "${spark[@]/#/--ignore=}" "${kills[@]/#/--ignore=}" "${sdks[@]/#/--ignore=}")

logs=$(mktemp -d)
names=()
pids=()
ticker=

# run NAME COMMAND: starts a command, whose output is shown when it has ended.
run() {
  local name=$1
  shift
  "$@" >"$logs/$name" 2>&1 &
  names+=("$name")
  pids+=("$!")
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
  # Once it has made the archive of Java's classes, all later JVMs start in half the time.
  run archive .venv/bin/headrace prepare --if-missing
  run others "${pytest[@]}" --kill-seed "$seed" "${others[@]}"
  run kills "${pytest[@]}" --kill-seed "$seed" "${kills[@]}"
  run sdks "${pytest[@]}" --kill-seed "$seed" "${sdks[@]}"
  run spark "${pytest[@]}" --kill-seed "$seed" "${spark[@]}"
fi

progress &
ticker=$!

failed=()
for index in "${!pids[@]}"; do
  wait "${pids[$index]}" || failed+=("${names[$index]}")
  echo "=== ${names[$index]}"
  cat "$logs/${names[$index]}"
done
kill "$ticker"
rm -rf "$logs"
[ "${#failed[@]}" -eq 0 ] || echo "failed: ${failed[*]}"
[ "${#failed[@]}" -eq 0 ]

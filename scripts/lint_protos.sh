#!/usr/bin/env bash
# Lints proto/ and checks that it breaks nothing of the last release (proto/baseline.json). With --baseline, makes proto/ the
# baseline. Needs Node.js for buf; without it the check is skipped, except with CI=true.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v npx >/dev/null 2>&1; then
  echo "SKIPPED: buf lint and buf breaking (they need Node.js, which is not installed)" >&2
  [ "${CI:-}" = true ] && exit 1
  exit 0
fi

buf() {
  npx --yes --package=@bufbuild/buf@1.75.0 -- buf "$@"
}

if [ "${1:-}" = "--baseline" ]; then
  buf build --exclude-source-info -o proto/baseline.json
  exit 0
fi
buf lint
buf breaking --against proto/baseline.json

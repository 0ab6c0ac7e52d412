#!/usr/bin/env bash
# Checks the format of all sources in Go, Java, Rust and TypeScript, whichever project they belong to: the build of a project
# checks its own only, and not every run of the tests builds each. Sources that have not changed since they passed are not read
# again. With --write, formats them. A language whose tools are not installed is left out, except with CI=true.
set -uo pipefail
cd "$(dirname "$0")/.."

write=false
[ "${1:-}" != "--write" ] || write=true
failed=0
folder=.build/formats
mkdir -p "$folder"
JAVA_FORMAT=$(sed -n 's/.*<google-java-format.version>\(.*\)<.*/\1/p' sdk/java/pom.xml)
PRETTIER=$(sed -n 's/.*"prettier": "\(.*\)".*/\1/p' sdk/typescript/package.json)

# sources PATTERN...: the files of Git that match, which are no generated code.
sources() {
  git ls-files -- "$@" | grep -v -e /generated/ -e '\.pb\.go$' -e '_pb\.ts$' -e '^sdk/rust/src/protocol/v1/'
}

go_format() {
  local gofmt option=-l
  gofmt=$(go env GOROOT)/bin/gofmt
  ! $write || option=-w
  "$gofmt" "$option" "$@"
}

# The formatter of the projects' builds, which leaves string literals as they are.
java_format() {
  local module modules=() jar option=--dry-run
  jar=$folder/google-java-format-$JAVA_FORMAT-all-deps.jar
  [ -e "$jar" ] || mvn --batch-mode --no-transfer-progress --quiet dependency:copy -DoutputDirectory="$PWD/$folder" \
    -Dartifact="com.google.googlejavaformat:google-java-format:$JAVA_FORMAT:jar:all-deps" >&2 || return 1
  for module in api code file parser tree util; do
    modules+=("--add-exports=jdk.compiler/com.sun.tools.javac.$module=ALL-UNNAMED")
  done
  ! $write || option=--replace
  java -XX:TieredStopAtLevel=1 "${modules[@]}" -jar "$jar" --skip-reflowing-long-strings "$option" "$@"
}

rust_format() {
  local options=(--check -l)
  ! $write || options=()
  rustfmt --edition 2024 ${options[@]+"${options[@]}"} "$@"
}

typescript_format() {
  local options=(--list-different)
  ! $write || options=(--write --log-level warn)
  npx --yes --package="prettier@$PRETTIER" -- prettier "${options[@]}" "$@"
}

# check LANGUAGE TOOL FORMATTER PATTERN...: fails if the formatter fails, or names a file that it would change.
check() {
  local language=$1 tool=$2 formatter=$3 files stamp wrong status=0
  shift 3
  if ! command -v "$tool" >/dev/null; then
    echo "SKIPPED: the format of sources in $language ($tool is not installed)" >&2
    [ "${CI:-}" != true ] || failed=1
    return
  fi
  mapfile -t files < <(sources "$@")
  stamp=$(cat "$0" sdk/java/pom.xml sdk/typescript/package.json "${files[@]}" | sha256sum)
  [ "$stamp" != "$(cat "$folder/$language" 2>/dev/null)" ] || return
  wrong=$("$formatter" "${files[@]}") || status=$?
  if [ -n "$wrong" ] || [ "$status" != 0 ]; then
    printf 'these sources in %s are not formatted; run: make format\n%s\n' "$language" "$wrong" >&2
    failed=1
  elif ! $write; then
    echo "$stamp" >"$folder/$language"
  fi
}

check Go go go_format '*.go'
check Java mvn java_format '*.java'
check Rust rustfmt rust_format '*.rs'
check TypeScript npx typescript_format '*.ts' '*.tsx'
exit "$failed"

#!/usr/bin/env bash
# Makes .venv with everything that Headrace needs: `make setup`. With --dev, also what tests and lint need.
# A second run finds nothing to do and is instant. Exit code 3: this machine lacks something; the line says what to do.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
uv_version=$(sed -n 's/^uv==//p' constraints.txt)
group=runtime
[ "${1:-}" = "--dev" ] && group=dev

lacking() {
  echo "headrace: $1" >&2
  exit 3
}

# install_hint DEBIAN-PACKAGES BREW-FORMULA: the command that installs it here.
install_hint() {
  if command -v apt-get >/dev/null 2>&1; then
    echo "sudo apt-get install -y $1"
  elif command -v brew >/dev/null 2>&1 || [ "$(uname -s)" = Darwin ]; then
    echo "brew install $2"
  else
    echo "install $2 with this system's package manager"
  fi
}

is_new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Prints the first Python that is new enough and runs.
find_python() {
  local name
  for name in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    if [ -n "$name" ] && is_new_enough "$name"; then
      command -v "$name"
      return
    fi
  done
  local found
  found=$(python3 -c 'import platform; print(platform.python_version())' 2>/dev/null || true)
  lacking "needs Python 3.11 or newer, found ${found:-none}; run: $(install_hint 'python3.11 python3.11-venv' python@3.12)"
}

require_venv_module() {
  local version
  if ! "$1" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    lacking "Python $version has no venv module; run: $(install_hint "python$version-venv" "python@$version")"
  fi
}

require_java() {
  local java=java output major
  [ -n "${JAVA_HOME:-}" ] && java="$JAVA_HOME/bin/java"
  output=$("$java" -version 2>&1) || output=
  major=$(printf '%s\n' "$output" | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
  if [ -z "$major" ]; then
    lacking "needs Java 17 or newer, found none at ${JAVA_HOME:-PATH}; run: $(install_hint openjdk-17-jre-headless openjdk@17)"
  elif [ "$major" -lt 17 ]; then
    lacking "needs Java 17 or newer, found $major at ${JAVA_HOME:-PATH}; run: $(install_hint openjdk-17-jre-headless openjdk@17), and point JAVA_HOME to it"
  fi
}

# What an installation depends on; a change of any of it installs again.
fingerprint() {
  cat "$0" constraints.txt pyproject.toml ./*/pyproject.toml sdk/python/pyproject.toml | cksum
}

# The stamp of the dev installation serves for the runtime one too.
is_current() {
  local wanted stamp
  wanted=$(fingerprint)
  for stamp in "$venv/.headrace-dev" "$venv/.headrace-$group"; do
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && is_new_enough "$venv/bin/python"; then
      return 0
    fi
  done
  return 1
}

require_java
is_current && exit 0

python=$(find_python)
require_venv_module "$python"
if ! is_new_enough "$venv/bin/python" || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  echo "headrace: makes $venv with $("$python" --version)"
  "$python" -m venv --clear "$venv"
fi
echo "headrace: installs into $venv (PySpark alone is some 450 MB; this takes a minute or two, once)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version"
arguments=(--constraint constraints.txt --editable . --editable protocol --editable terminal --editable sdk/python --editable gateway --editable engine --editable connectors)
[ "$group" = dev ] && arguments+=(--group dev)
# --no-progress where nobody watches: a log file is no place for a progress bar.
[ -t 2 ] || arguments+=(--no-progress)
# Byte code is made now: where PYTHONDONTWRITEBYTECODE is set, each of the many processes would compile everything anew.
"$venv/bin/uv" pip install --python "$venv/bin/python" --compile-bytecode "${arguments[@]}"
"$venv/bin/python" -m compileall -q src ./*/src sdk/python/src
# Only Spark's classes are in it: it serves until there is another PySpark, whose archive has another name.
archive=$("$venv/bin/python" -c 'from headrace.engine._class_archive import class_archive; print(class_archive())')
[ -f "$archive" ] || "$venv/bin/headrace" prepare || echo "headrace: Spark starts some seconds slower than it could; all else is well" >&2
fingerprint >"$venv/.headrace-$group"
echo "headrace: ready; the command line is $venv/bin/headrace"

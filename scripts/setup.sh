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

# Puts uv into the environment. The pip of the Python that it was made with does it at once; where that has none, which is so
# on Debian, the environment gets a pip of its own first, which takes some seconds.
install_uv() {
  local install=(install --quiet --disable-pip-version-check "uv==$uv_version")
  "$python" -m pip --python "$venv/bin/python" "${install[@]}" 2>/dev/null && return
  "$venv/bin/python" -m ensurepip >/dev/null
  "$venv/bin/python" -m pip "${install[@]}"
}

# Every 10 seconds a line for a log, where nobody sees the progress bars of uv. Ends at SIGTERM, at once.
tell_time() {
  local nap
  trap 'kill "$nap" 2>/dev/null; exit 0' TERM
  while true; do
    sleep 10 >/dev/null 2>&1 &
    nap=$!
    wait "$nap"
    echo "headrace: $SECONDS s: still installing"
  done
}

# build_console PYTHON: builds the pages of the gateway's console, if they are not current. Without Node.js, the gateway runs
# without them.
build_console() {
  "$1" scripts/build_console.py || [ "${CI:-}" != true ]
}

require_java
if is_current; then
  build_console "$venv/bin/python"
  exit
fi

python=$(find_python)
require_venv_module "$python"
if ! is_new_enough "$venv/bin/python" || ! "$venv/bin/uv" --version >/dev/null 2>&1; then
  echo "headrace: makes $venv with $("$python" --version)"
  "$python" -m venv --clear --without-pip "$venv"
fi
[ "$("$venv/bin/uv" --version 2>/dev/null | cut -d ' ' -f 2)" = "$uv_version" ] || install_uv
# npm mostly waits, as uv does.
build_console "$python" &
pages=$!
arguments=(--constraint constraints.txt --editable . --editable base --editable sdk/python --editable gateway --editable pipelines --editable engine --editable connectors --editable conformance --editable laboratory)
what="PySpark, 450 MB, and some 60 other packages, 110 MB"
if [ "$group" = dev ]; then
  arguments+=(--group dev)
  what="PySpark, 450 MB, and some 120 other packages, 170 MB"
fi
# PySpark comes as a source distribution. The wheel that is made of it is on this machine only, so it need not be compressed,
# which takes 15 s of the processor.
arguments+=(--config-settings-package "pyspark:--build-option=--compression=stored")
echo "headrace: $SECONDS s: installs into $venv what is not in uv's cache yet: $what; about a minute at 10 MB/s, once"
if [ -t 2 ]; then
  "$venv/bin/uv" pip install --python "$venv/bin/python" "${arguments[@]}"
else
  tell_time &
  ticker=$!
  trap 'kill "$ticker" 2>/dev/null || true' EXIT
  "$venv/bin/uv" pip install --no-progress --python "$venv/bin/python" "${arguments[@]}"
fi
# Byte code is made now: where PYTHONDONTWRITEBYTECODE is set, each of the many processes would compile everything anew. Half of
# it is of parts that nothing here runs.
echo "headrace: $SECONDS s: compiles Python's modules"
unused='/tests?/|/site-packages/(pandas|pip|setuptools|pkg_resources|pygments/lexers)/|/pyspark/(pandas|ml|mllib|examples|sql/connect)/'
[ "$group" = dev ] && unused='^$'
# Packages may have files that are no Python of this version.
"$venv/bin/python" -m compileall -q -j 0 -x "$unused" "$venv"/lib/python*/site-packages >/dev/null 2>&1 || true
"$venv/bin/python" -m compileall -q src ./*/src sdk/python/src
wait "$pages"
fingerprint >"$venv/.headrace-$group"
echo "headrace: $SECONDS s: ready; the command line is $venv/bin/headrace"

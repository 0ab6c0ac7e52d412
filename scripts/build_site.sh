#!/usr/bin/env bash
# Builds the site of docs/ into .build/site, and fails if a link or an anchor leads nowhere; arguments are those of `mkdocs build`.
# The first run, and one after a change of site_requirements.txt, installs MkDocs into .build/mkdocs; a build needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.build/mkdocs
requirements=scripts/site_requirements.txt
stamp=$environment/.requirements
if ! cmp -s "$requirements" "$stamp"; then
  .venv/bin/uv venv --quiet --clear --python .venv/bin/python "$environment"
  .venv/bin/uv pip install --quiet --python "$environment/bin/python" --requirement "$requirements"
  cp "$requirements" "$stamp"
fi
NO_MKDOCS_2_WARNING=1 "$environment/bin/mkdocs" build "$@"

#!/usr/bin/env bash
# Runs the tests of the Kafka and NATS connectors with the newest releases of their clients that connectors/pyproject.toml allows,
# though constraints.txt pins others: `make newest-clients`. Some methods of both are replaced, so that each release is tried out.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=.build/newest-clients
rm -rf "$folder"
mapfile -t wanted < <(.venv/bin/python - <<'PYTHON'
import tomllib

with open("connectors/pyproject.toml", "rb") as file:
    extras = tomllib.load(file)["project"]["optional-dependencies"]
print(*extras["kafka"], *extras["nats"], sep="\n")
PYTHON
)
.venv/bin/uv pip install --quiet --python .venv/bin/python --target "$folder" "${wanted[@]}"
export PYTHONPATH="$PWD/$folder${PYTHONPATH:+:$PYTHONPATH}"
.venv/bin/python - <<'PYTHON'
from importlib.metadata import version

print("newest clients: kafka-python", version("kafka-python"), "and nats-py", version("nats-py"), flush=True)
PYTHON
exec .venv/bin/python -m pytest tests/connectors/kafka tests/connectors/nats "$@"

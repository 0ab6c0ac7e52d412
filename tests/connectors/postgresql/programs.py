"""Connectors as processes of their own, in order to kill them."""

import json
import sys

from headrace.connectors.postgresql import POSTGRESQL, POSTGRESQL_OUTBOX, POSTGRESQL_SINK, POSTGRESQL_UPSERT
from headrace.sdk import run

KINDS = {
    "postgresql": POSTGRESQL,
    "postgresql-outbox": POSTGRESQL_OUTBOX,
    "postgresql-sink": POSTGRESQL_SINK,
    "postgresql-upsert": POSTGRESQL_UPSERT,
}

if __name__ == "__main__":
    kind, gateway, parameters = KINDS[sys.argv[1]], sys.argv[2], json.loads(sys.argv[3])
    sys.exit(run(kind.build(kind.parameters(**parameters)), gateway=gateway))  # type: ignore[arg-type]

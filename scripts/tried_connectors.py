"""Makes bridges/kafka-connect/connectors.md of the connectors in tried.toml, which a test runs in the bridge.

`make test ARGS=tests/sdk/java/test_tried_connectors.py` fetches and runs them.
"""

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from scripts.generated_page import ROOT, generate

BRIDGE = ROOT / "bridges" / "kafka-connect"
PAGE = BRIDGE / "connectors.md"
_LIST = BRIDGE / "tried.toml"
_TITLES = {"": "", "postgresql": "PostgreSQL", "mariadb": "MariaDB", "kafka": "Kafka"}


@dataclass(frozen=True)
class Tried:
    """A connector, and what a run of it must show; tried.toml explains the fields."""

    name: str
    connector_class: str
    artifact: str
    kind: Literal["source", "sink"]
    shows: str
    lacks: str
    given: tuple[str, ...]
    wanted: tuple[str, ...]
    properties: Mapping[str, str]
    server: str = ""
    found: str = ""
    after: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The version of its artifact."""
        return self.artifact.rpartition(":")[2]


def tried() -> list[Tried]:
    """Returns the connectors of the list."""
    return [_made(entry) for entry in tomllib.loads(_LIST.read_text())["connector"]]


def page(_: str = "") -> str:
    """Returns the text of the page."""
    rows = [
        f"| `{one.connector_class.rpartition('.')[2]}` | `{one.artifact.rpartition(':')[0]}` | {one.version} | {one.kind}"
        f" | {_TITLES[one.server]} | {one.shows} | {one.lacks} |"
        for one in tried()
    ]
    absent = [f"- {entry['name']}: {entry['why']}" for entry in tomllib.loads(_LIST.read_text())["absent"]]
    lines = [
        "# Connectors that run in the bridge",
        "",
        "A test fetches each connector of this table with Maven, runs it in the bridge with a gateway and its server, and checks",
        "that everything arrives. [tried.toml](tried.toml) lists the properties, and",
        "`python -m scripts.tried_connectors` makes this page of it.",
        "",
        "```bash",
        "make test ARGS=tests/sdk/java/test_tried_connectors.py",
        "```",
        "",
        "| connector | artifact | version | kind | server | a run shows | what it lacks |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        "Not in the table:",
        "",
        *absent,
    ]
    return "\n".join(lines) + "\n"


def _made(entry: Mapping[str, Any]) -> Tried:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    return Tried(connector_class=fields.pop("class"), **fields)


if __name__ == "__main__":
    sys.exit(generate({PAGE: page}, "scripts.tried_connectors", __doc__))

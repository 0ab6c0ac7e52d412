"""Generates the tables in docs/write/conformance.md from the kit's declarations. With --check, fails if one is stale.

A table is between `<!-- checks: KIND -->`, or `<!-- keys: MODEL -->`, and `<!-- end -->`.
"""

import re
import sys
from typing import Any

from pydantic import BaseModel
from scripts.generated_page import ROOT, generate, is_stale

from headrace.conformance.core.checks import Check
from headrace.conformance.core.spec import Deadlines, SinkSpec, SourceSpec, Spec
from headrace.conformance.sinks import SINK_CHECKS
from headrace.conformance.sources import SOURCE_CHECKS

PAGE = ROOT / "docs" / "write" / "conformance.md"
CHECKS: dict[str, tuple[Check[Any], ...]] = {"source": SOURCE_CHECKS, "sink": SINK_CHECKS}
MODELS: dict[str, type[BaseModel]] = {"both": Spec, "source": SourceSpec, "sink": SinkSpec, "deadlines": Deadlines}

_TABLE = re.compile(r"(<!-- (checks|keys): (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Returns the page with all its tables up to date."""

    def table(match: re.Match[str]) -> str:
        lines = checks(match[3]) if match[2] == "checks" else keys(match[3])
        return "\n".join([match[1], *lines, "", match[4]])

    return _TABLE.sub(table, text)


def checks(kind: str) -> list[str]:
    """Returns the table of the checks of both kinds, or of only one kind."""
    rows = {each: list(map(_row, CHECKS[each])) for each in CHECKS}
    both = [row for row in rows["source"] if row in rows["sink"]]
    listed = both if kind == "both" else [row for row in rows[kind] if row not in both]
    return ["| check | fails if | needs | rules |", "|---|---|---|---|", *listed]


def keys(name: str) -> list[str]:
    """Returns the table of the keys of a specification that are not in the table for both kinds."""
    model = MODELS[name]
    common = set() if model is Spec else set(Spec.model_fields)
    fields = [(key, field) for key, field in model.model_fields.items() if key not in common]
    lines = [f"| `{key}` | {_default(field.default)} | {_cell(field.description or '')} |" for key, field in fields]
    return ["| key | default | |", "|---|---|---|", *lines]


def _row(check: Check[Any]) -> str:
    """Returns the row of a check."""
    rules = ", ".join(f"[{rule}](../reference/protocol.md#{rule.lower()})" for rule in check.rules)
    needs = ", ".join(f"`{need}`" for need in check.needs)
    return f"| `{check.name}` | {_cell(check.fault)} | {needs} | {rules} |"


def _default(value: object) -> str:
    """Returns a default as it is written in the file."""
    if value is None or value == () or isinstance(value, BaseModel):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value:g}`"


def _cell(text: str) -> str:
    """Escapes text for a table cell."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def stale() -> bool:
    """Whether a table of the page is out of date."""
    return is_stale(PAGE, filled)


if __name__ == "__main__":
    sys.exit(generate(PAGE, filled, "scripts.generate_conformance_page", __doc__))

"""Generates the lists in docs/write/conformance.md and docs/reference/metrics.md. With --check, fails if one is stale.

They come from the kit's declarations, and from the gateway's instruments. A list is between
`<!-- keys: MODEL -->` or `<!-- metrics: GROUP -->` and `<!-- end -->`.
"""

import re
import sys

from pydantic import BaseModel
from scripts.generate_connector_pages import escaped
from scripts.generated_page import ROOT, generate, is_stale

from headrace.conformance.core.spec import Deadlines, SinkSpec, SourceSpec, Spec
from headrace.gateway.telemetry.instruments import (
    APPLICATION_INSTRUMENTS,
    CONNECTOR_INSTRUMENTS,
    INSTRUMENTS,
    STREAM_INSTRUMENTS,
    Instrument,
    Type,
)

PAGES = (ROOT / "docs" / "write" / "conformance.md", ROOT / "docs" / "reference" / "metrics.md")
MODELS: dict[str, type[BaseModel]] = {"both": Spec, "source": SourceSpec, "sink": SinkSpec, "deadlines": Deadlines}
GROUPS: dict[str, tuple[Instrument, ...]] = {
    "gateway": INSTRUMENTS,
    "connectors": CONNECTOR_INSTRUMENTS,
    "applications": APPLICATION_INSTRUMENTS,
    "streams": STREAM_INSTRUMENTS,
}

_LIST = re.compile(r"(<!-- (keys|metrics): (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Returns a page with all its lists up to date."""

    def lines(match: re.Match[str]) -> str:
        rows = keys(match[3]) if match[2] == "keys" else list(map(_item, GROUPS[match[3]]))
        return "\n".join([match[1], *rows, "", match[4]])

    return _LIST.sub(lines, text)


def keys(name: str) -> list[str]:
    """Returns the list of the keys of a specification that are not in the table for both kinds."""
    model = MODELS[name]
    common = set() if model is Spec else set(Spec.model_fields)
    fields = [(key, field) for key, field in model.model_fields.items() if key not in common]
    return [f"- `{key}`{_default(field.default)}: {escaped(field.description or '')}" for key, field in fields]


def _default(value: object) -> str:
    """Returns a default as it is written in the file, in parentheses; nothing for none."""
    if value is None or value == () or isinstance(value, BaseModel):
        return ""
    if isinstance(value, bool):
        return f" (`{str(value).lower()}`)"
    return f' (`"{value}"`)' if isinstance(value, str) else f" (`{value:g}`)"


def _item(instrument: Instrument) -> str:
    kind = ["histogram"] if instrument.type is Type.HISTOGRAM else []
    labels = ", ".join([*kind, *(f"`{label}`" for label in instrument.labels)])
    return f"- `{instrument.exported_name}`{f' ({labels})' if labels else ''}: {instrument.description}"


def stale() -> list[str]:
    """Returns the pages with a list that is out of date."""
    return [page.name for page in PAGES if is_stale(page, filled)]


if __name__ == "__main__":
    sys.exit(generate(dict.fromkeys(PAGES, filled), "scripts.generate_lists", __doc__))

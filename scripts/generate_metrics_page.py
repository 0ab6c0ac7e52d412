"""Generates the lists in docs/reference/metrics.md from the gateway's instruments. With --check, fails if they are stale.

A list is between `<!-- metrics: GROUP -->` and `<!-- end -->`.
"""

import re
import sys

from scripts.generated_page import ROOT, generate, is_stale

from headrace.gateway.telemetry.instruments import (
    APPLICATION_INSTRUMENTS,
    CONNECTOR_INSTRUMENTS,
    INSTRUMENTS,
    STREAM_INSTRUMENTS,
    Instrument,
    Type,
)

PAGE = ROOT / "docs" / "reference" / "metrics.md"
GROUPS: dict[str, tuple[Instrument, ...]] = {
    "gateway": INSTRUMENTS,
    "connectors": CONNECTOR_INSTRUMENTS,
    "applications": APPLICATION_INSTRUMENTS,
    "streams": STREAM_INSTRUMENTS,
}

_LIST = re.compile(r"(<!-- metrics: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Returns the page with all its tables up to date."""
    return _LIST.sub(lambda match: "\n".join([match[1], *table(GROUPS[match[2]]), "", match[3]]), text)


def table(instruments: tuple[Instrument, ...]) -> list[str]:
    """Returns the list of a group of instruments."""
    return list(map(_item, instruments))


def _item(instrument: Instrument) -> str:
    kind = ["histogram"] if instrument.type is Type.HISTOGRAM else []
    labels = ", ".join([*kind, *(f"`{label}`" for label in instrument.labels)])
    return f"- `{instrument.exported_name}`{f' ({labels})' if labels else ''}: {instrument.description}"


def stale() -> bool:
    """Whether a table of the page is out of date."""
    return is_stale(PAGE, filled)


if __name__ == "__main__":
    sys.exit(generate(PAGE, filled, "scripts.generate_metrics_page", __doc__))

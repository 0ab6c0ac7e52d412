"""What has changed between two documents of the status: the rows that are new or different, and those that are gone."""

from collections.abc import Mapping, Sequence
from typing import Any

KEYS = {"streams": "stream", "sessions": "session", "pipelines": "pipeline", "sinks": "sink", "sink_sessions": "session"}
"""The lists of a status, and the field that names a row of each."""
GROWING = frozenset({"age_ms", "state_age_ms", "uptime_ms"})
"""Fields that only grow with time. A row in which nothing else differs has not changed."""


def delta(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what has changed, without what has not; empty if nothing has.

    Args:
        before: A status with `health`.
        after: A later one.
    """
    found: dict[str, Any] = {}
    for part in ("gateway", "health"):
        if _lasting(before[part]) != _lasting(after[part]):
            found[part] = after[part]
    for part, key in KEYS.items():
        rows = _rows(before[part], after[part], key)
        if rows is not None:
            found[part] = rows
    return found


def _rows(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any] | None:
    known = {row[key]: _lasting(row) for row in before}
    changed = [row for row in after if known.get(row[key]) != _lasting(row)]
    removed = sorted(known.keys() - {row[key] for row in after})
    return {"set": changed, "removed": removed} if changed or removed else None


def _lasting(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in GROWING}

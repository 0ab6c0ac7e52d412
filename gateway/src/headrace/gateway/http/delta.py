"""What has changed between two documents of the status: rows that are new, fields that differ, and rows that are gone."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

KEYS = {
    "streams": "stream",
    "sessions": "session",
    "pipelines": "pipeline",
    "sinks": "sink",
    "sink_sessions": "session",
    "deployments": "deployment",
}
"""The lists of a status, and the field that names a row of each."""
GROWING = frozenset({"age_ms", "last_error_age_ms", "state_age_ms", "uptime_ms"})
"""Fields that only grow with time. A row in which nothing else differs has not changed."""

_SINCE_S = 2.0
"""By how many seconds the beginning of a problem may differ: it is computed from an age, and cut off to whole seconds."""


def delta(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what has changed, without what has not; empty if nothing has.

    Args:
        before: A status with `health`.
        after: A later one, with the same fields.
    """
    found: dict[str, Any] = {}
    for part in ("gateway", "health"):
        if _different(before[part], after[part]):
            found[part] = after[part]
    for part, key in KEYS.items():
        rows = _rows(before[part], after[part], key)
        if rows is not None:
            found[part] = rows
    return found


def same_health(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Returns whether the same problems are listed, in the same order.

    Args:
        before: The `health` that clients have. Compared with any other, a problem that begins anew again and again would stay.
        after: A later one.
    """
    if before == after:
        return True
    if len(before["problems"]) != len(after["problems"]) or {**before, "problems": ()} != {**after, "problems": ()}:
        return False
    return all(_same_problem(*pair) for pair in zip(before["problems"], after["problems"], strict=True))


def _same_problem(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    if {**before, "since": ""} != {**after, "since": ""}:
        return False
    began, begins = (datetime.fromisoformat(problem["since"]) for problem in (before, after))
    return abs((begins - began).total_seconds()) <= _SINCE_S


def _rows(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any] | None:
    known = {row[key]: row for row in before}
    changed: list[Mapping[str, Any]] = []
    for row in after:
        former = known.pop(row[key], None)
        if former is None:
            changed.append(row)
        elif different := _different(former, row):
            changed.append({key: row[key], **different})
    return {"set": changed, "removed": sorted(known)} if changed or known else None


def _different(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that differ; none if only those differ that grow with time."""
    different = {name: value for name, value in after.items() if before[name] != value}
    return different if different.keys() - GROWING else {}

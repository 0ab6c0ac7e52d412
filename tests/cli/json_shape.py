"""What every command prints with `--json`, and what holds for the names and times in it."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

FIELDS = ["command", "ok", "summary", "result", "error"]
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d)?")
_WITHOUT_UNIT = re.compile(r"(.*_)?(age|uptime|duration|elapsed|timeout|interval|latency|took|delay|period)")
_UNIT_IN_FULL = re.compile(r"(.*_)?(seconds|secs|millis|milliseconds|micros|microseconds|minutes)")
_MAPS = {"committed", "rejected_sessions", "positions", "streams_in", "ends", "environment", "conditions", "versions", "seconds"}
"""Fields whose keys are data: names of streams, of statuses, of parts that were measured."""


def document_of(printed: str) -> dict[str, Any]:
    """The one object that a command has printed; raises AssertionError if it has another shape."""
    document = json.loads(printed)
    assert list(document) == FIELDS, document
    assert isinstance(document["command"], str)
    assert document["command"]
    assert isinstance(document["summary"], str)
    assert document["summary"]
    assert document["ok"] is (document["error"] is None)
    assert document["error"] is None or isinstance(document["error"], str)
    assert document["result"] is None or isinstance(document["result"], dict)
    assert document["result"] is not None or not document["ok"]
    assert not list(faults_of(document["result"]))
    found: dict[str, Any] = document
    return found


def result_of(printed: str) -> Any:
    """The result of a command that has succeeded."""
    document = document_of(printed)
    assert document["ok"], document
    return document["result"]


def faults_of(value: Any, where: str = "result", *, keys_are_data: bool = False) -> Iterator[str]:
    """Names that are not in snake_case, times without a zone, and spans of time without a unit."""
    if isinstance(value, dict):
        for name, field in value.items():
            at = f"{where}.{name}"
            if not keys_are_data and not _NAME.fullmatch(name):
                yield f"{at} is not in snake_case"
            is_number = isinstance(field, int | float) and not isinstance(field, bool)
            if not keys_are_data and is_number and _WITHOUT_UNIT.fullmatch(name):
                yield f"{at} is a number without a unit: end its name with _ms"
            if not keys_are_data and is_number and _UNIT_IN_FULL.fullmatch(name):
                yield f"{at} spells its unit: end its name with _s or _ms"
            yield from faults_of(field, at, keys_are_data=name in _MAPS)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from faults_of(each, f"{where}[{number}]")
    elif isinstance(value, str) and _TIME.match(value):
        try:
            zone = datetime.fromisoformat(value).tzinfo
        except ValueError:
            return
        if zone is None:
            yield f"{where} is a time without a zone: {value}"

"""Compares what the gateway shows at rest with what the validator knows: the command, the API and the metrics."""

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.laboratory.chaos.evidence import SINKS, Layout, committed
from headrace.laboratory.chaos.validator import Finding
from headrace.laboratory.chaos.workload import REPLAYABLE, STREAMS, sequence_of
from headrace.processes import headrace

SHOWN_WRONG = "shown, and not true"
_WITHIN_S = 60.0
"""How long a snapshot may take to have the last commit and acknowledgement, on a busy machine; it is at most a second old."""
_CALL_TIMEOUT_S = 60.0
_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")


@dataclass(frozen=True)
class Shown:
    """The status and the metrics that a gateway shows.

    Attributes:
        documents: The status, by where it was read.
        metrics: The values of the metrics, by name and labels as they are written.
    """

    documents: Mapping[str, Mapping[str, Any]]
    metrics: Mapping[tuple[str, str], float]


def read_shown(gateway: str, http: str) -> Shown:
    """Reads what a gateway shows, by the command and by HTTP."""
    command = headrace("status", "--json", "--gateway", gateway)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_CALL_TIMEOUT_S, check=True)
    documents = {"headrace status": json.loads(done.stdout)["result"], "/api/v1/status": json.loads(_get(http, "/api/v1/status"))}
    return Shown(documents, samples(_get(http, "/metrics")))


def samples(text: str) -> dict[tuple[str, str], float]:
    """Returns the values in a text of Prometheus, by name and labels."""
    found = (_SAMPLE.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))
    return {(match[1], match[2] or ""): float(match[3]) for match in found if match is not None}


def eventually_shown(gateway: str, http: str, layout: Layout, offered: int, *, counts_all: bool) -> list[Finding]:
    """Returns what a gateway still shows wrongly once everything is at rest; waits until it shows what is true.

    Args:
        gateway: Its address.
        http: The address of its HTTP server.
        layout: The files of the run.
        offered: The number of messages that each sender has sent.
        counts_all: Whether it has run since the start: its counters begin with it.
    """
    deadline = time.monotonic() + _WITHIN_S
    while True:
        findings = list(untrue(read_shown(gateway, http), layout, offered, counts_all=counts_all))
        if not findings or time.monotonic() > deadline:
            return findings


def untrue(shown: Shown, layout: Layout, offered: int, *, counts_all: bool) -> Iterator[Finding]:
    """Yields what is shown and not true, if all that was sent is acknowledged, visible and at rest."""
    for where, document in shown.documents.items():
        streams = {stream["stream"]: stream for stream in document["streams"]}
        for name in STREAMS:
            yield from _of_stream(where, name, streams.get(name), offered, counts_all=counts_all)
        pipelines = {pipeline["pipeline"]: pipeline for pipeline in document["pipelines"]}
        for query in SINKS:
            positions = pipelines.get(query, {}).get("committed", {})
            told = {name: (at["epoch"], at["sequence"]) for name, at in positions.items() if at is not None}
            yield from _differs(where, "", f"positions of {query}", told, committed(layout.checkpoint(query)))
        for sink in document["sinks"]:
            yield from _differs(where, "", f"pending_transactions of {sink['sink']}", sink["pending_transactions"], 0)
        yield from _of_metrics(where, shown.metrics, document)


def _of_stream(where: str, name: str, stream: Mapping[str, Any] | None, offered: int, *, counts_all: bool) -> Iterator[Finding]:
    if stream is None:
        yield _finding(where, name, "it is missing")
        return
    yield from _differs(where, name, "lag_messages", stream["lag_messages"], 0)
    if not name.startswith(REPLAYABLE):
        return
    # A queue numbers its messages anew in each session, and delivers some again.
    at = (stream["acknowledged"] or {}).get("sequence")
    yield from _differs(where, name, "acknowledged", at, sequence_of(offered))
    count = stream["acknowledged_messages"]
    if count != offered and (counts_all or count > offered):
        yield _finding(where, name, f"acknowledged_messages is {count}, and {offered} were sent")


def _of_metrics(where: str, metrics: Mapping[tuple[str, str], float], document: Mapping[str, Any]) -> Iterator[Finding]:
    """Compares the metrics with a status, which at rest count the same."""
    counted = {
        "headrace_acknowledged_messages_total": document["gateway"]["acknowledged_messages"],
        "headrace_received_messages_total": document["gateway"]["received_messages"],
        "headrace_buffered_messages": document["gateway"]["buffered_messages"],
        "headrace_unacknowledged_messages": 0,
    }
    for name, count in counted.items():
        yield from _differs("/metrics", "", f"{name}, by {where}", metrics.get((name, "")), count)
    for sink in document["sinks"]:
        staged = metrics.get(("headrace_sink_staged_messages_total", f'sink="{sink["sink"]}"'))
        yield from _differs("/metrics", "", f"staged messages of {sink['sink']}, by {where}", staged, sink["staged_messages"])


def _differs(where: str, stream: str, what: str, told: object, expected: object) -> Iterator[Finding]:
    if told != expected:
        yield _finding(where, stream, f"{what} is {told}, should be {expected}")


def _finding(where: str, stream: str, detail: str) -> Finding:
    return Finding(SHOWN_WRONG, where, stream, "", "", detail)


def _get(http: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{http}{path}", timeout=_CALL_TIMEOUT_S) as response:
        text: str = response.read().decode()
    return text

"""What a gateway shows is compared with what was sent: each wrong figure is found."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from headrace.laboratory.chaos.evidence import SINKS, Layout
from headrace.laboratory.chaos.shown import Shown, samples, untrue
from headrace.laboratory.chaos.workload import REPLAYABLE, STREAMS, sequence_of

OFFERED = 20
METRICS = """
# HELP headrace_acknowledged_messages_total Messages acknowledged to their sources.
headrace_acknowledged_messages_total 220.0
headrace_received_messages_total 221
headrace_buffered_messages 0
headrace_unacknowledged_messages 0.0
headrace_sink_staged_messages_total{sink="out"} 220
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """The checkpoints of a run at rest."""
    ends = {name: {"epoch": 0, "sequence": sequence_of(OFFERED)} for name in STREAMS}
    for sink in SINKS:
        for folder, text in (("commits", ""), ("offsets", json.dumps({"streams": ends}))):
            path = tmp_path / "checkpoints" / sink / folder / "3"
            path.parent.mkdir(parents=True)
            path.write_text(text)
    return Layout(tmp_path)


def document() -> dict[str, Any]:
    at = {"epoch": 0, "sequence": sequence_of(OFFERED)}
    stream = {"acknowledged": at, "acknowledged_messages": OFFERED, "lag_messages": 0}
    return {
        "gateway": {"acknowledged_messages": 220, "received_messages": 221, "buffered_messages": 0},
        "streams": [{"stream": name, **deepcopy(stream)} for name in STREAMS],
        "pipelines": [{"pipeline": name, "committed": {stream: dict(at) for stream in STREAMS}} for name in SINKS],
        "sinks": [{"sink": "out", "pending_transactions": 0, "staged_messages": 220}],
    }


def found(layout: Layout, told: dict[str, Any], metrics: str = METRICS, *, counts_all: bool = True) -> list[str]:
    shown = Shown({"headrace status": told}, samples(metrics))
    return [finding.detail for finding in untrue(shown, layout, OFFERED, counts_all=counts_all)]


def test_what_is_true_is_not_found(layout: Layout) -> None:
    assert found(layout, document()) == []


@pytest.mark.parametrize(
    ("path", "value", "detail"),
    [
        (("streams", 0, "acknowledged_messages"), 19, "acknowledged_messages is 19, and 20 were sent"),
        (("streams", 0, "acknowledged_messages"), 21, "acknowledged_messages is 21, and 20 were sent"),
        (("streams", 0, "acknowledged", "sequence"), 5, f"acknowledged is 5, should be {sequence_of(OFFERED)}"),
        (("streams", 10, "lag_messages"), 1, "lag_messages is 1, should be 0"),
        (("streams", 3, "stream"), "other/0", "it is missing"),
        (("pipelines", 0, "committed"), {}, "positions of two-phase is {}, should be "),
        (("sinks", 0, "pending_transactions"), 2, "pending_transactions of out is 2, should be 0"),
        (("gateway", "received_messages"), 5, "headrace_received_messages_total, by headrace status is 221.0, should be 5"),
    ],
)
def test_a_wrong_figure_is_found(layout: Layout, path: tuple[str | int, ...], value: object, detail: str) -> None:
    told = document()
    place: Any = told
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    (text,) = found(layout, told)
    assert text.startswith(detail)


@pytest.mark.parametrize("name", ["headrace_unacknowledged_messages", "headrace_acknowledged_messages_total"])
def test_a_wrong_or_missing_metric_is_found(layout: Layout, name: str) -> None:
    wrong = METRICS.replace(f"\n{name} ", f"\n{name} 7")
    missing = METRICS.replace(f"\n{name} ", "\nother ")
    assert [len(found(layout, document(), text)) for text in (wrong, missing)] == [1, 1]


def test_a_gateway_that_was_restarted_counts_from_then_on(layout: Layout) -> None:
    told = document()
    told["streams"][0]["acknowledged_messages"] = 3
    assert told["streams"][0]["stream"].startswith(REPLAYABLE)
    assert found(layout, told, counts_all=False) == []
    told["streams"][0]["acknowledged_messages"] = 21
    assert len(found(layout, told, counts_all=False)) == 1

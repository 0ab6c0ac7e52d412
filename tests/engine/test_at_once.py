"""Results in real-time mode that wait for a sink, or for the end of their micro-batch: their size has a bound."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from headrace.engine._errors import NotAtOnce
from headrace.engine.applications.real_time import at_once
from headrace.engine.applications.real_time.at_once import MAX_KEPT_BYTES, MAX_WAITING_BYTES, AtOnce
from headrace.engine.applications.real_time.parts import Run
from headrace.engine.applications.stages.plan import BlockRow
from headrace.engine.sink.options import parse_sink
from headrace.engine.wire.gateway_options import Defaults

DEADLINE_S = 150.0


class Calls:
    """Calls to a sink that never answers, until it says that it writes nothing before its vote."""

    def __init__(self) -> None:
        self.ended: Callable[[Exception | None], None] = lambda error: None
        self.begun = threading.Event()

    def __call__(self, connection: Any, answered: Any, ended: Callable[[Exception | None], None]) -> "Calls":
        self.ended = ended
        return self

    def send(self, options: Any, task: Any, blocks: Any) -> None:
        self.begun.set()

    def cancel(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(at_once, "PartsCall", calls)
    monkeypatch.setattr(at_once, "sink_error", lambda *_: NotAtOnce("it votes"))
    monkeypatch.setattr(at_once, "blocks_of", lambda rows: ())
    return calls


@pytest.fixture
def freed() -> threading.Event:
    return threading.Event()


@pytest.fixture
def sink(calls: Calls, freed: threading.Event) -> Iterator[AtOnce]:
    options = parse_sink({"gateway": "127.0.0.1:1", "sink": "out"}, Defaults())
    sink = AtOnce(options, "out", Run("query", "run", 1), freed.set)
    yield sink
    sink.stop()


def row(size: int) -> BlockRow:
    return BlockRow(0, -1, "n/0", 1, 1, bytes(size))


def test_results_for_a_sink_that_does_not_answer_are_bounded(sink: AtOnce, calls: Calls) -> None:
    put = 0
    while sink.has_room:
        sink.put(1, row(2**20))
        put += 1
        assert put <= MAX_WAITING_BYTES / 2**20 + at_once.MAX_UNANSWERED + 1
    assert put >= MAX_WAITING_BYTES / 2**20


def test_results_that_are_kept_are_bounded_until_their_micro_batch_takes_them(
    sink: AtOnce, calls: Calls, freed: threading.Event
) -> None:
    sink.put(1, row(1))
    assert calls.begun.wait(DEADLINE_S)
    calls.ended(grpc.RpcError())
    assert sink.await_mode(DEADLINE_S)
    kept = 0
    while sink.has_room:
        sink.put(1, row(2**20))
        kept += 1
        assert kept <= MAX_KEPT_BYTES / 2**20
    freed.clear()
    assert len(sink.kept(1)) == kept + 1
    assert freed.is_set()
    assert sink.has_room
    sink.put(2, row(1))
    assert len(sink.kept(2)) == 1

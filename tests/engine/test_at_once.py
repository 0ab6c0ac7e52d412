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
from headrace.engine.sink.writer import Refused
from headrace.engine.wire.gateway_options import Defaults

DEADLINE_S = 150.0


class Calls:
    """Calls to a sink that answers when its test tells it to, or refuses to write before its vote."""

    def __init__(self) -> None:
        self.answered: Callable[[Refused], None] = lambda refused: None
        self.ended: Callable[[Exception | None], None] = lambda error: None
        self._changed = threading.Condition()
        self._parts: list[int] = []

    def __call__(
        self, connection: Any, answered: Callable[[Refused], None], ended: Callable[[Exception | None], None]
    ) -> "Calls":
        self.answered, self.ended = answered, ended
        return self

    def send(self, options: Any, task: Any, blocks: Any) -> None:
        with self._changed:
            self._parts.append(len(blocks))
            self._changed.notify_all()

    def parts(self, number: int) -> list[int]:
        """Waits until parts were sent; how many rows each has."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._parts) >= number, DEADLINE_S)
            return list(self._parts)

    def cancel(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(at_once, "PartsCall", calls)
    monkeypatch.setattr(at_once, "sink_error", lambda *_: NotAtOnce("it votes"))
    monkeypatch.setattr(at_once, "blocks_of", lambda rows: rows)
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


def test_what_a_slow_sink_has_not_answered_yet_makes_the_next_part_larger_instead_of_more_parts(
    sink: AtOnce, calls: Calls
) -> None:
    for number in range(1, at_once.MAX_UNANSWERED + 1):
        sink.put(1, row(1))
        assert calls.parts(number) == [1] * number
    for _ in range(10):
        sink.put(1, row(1))
    calls.answered(())
    assert calls.parts(at_once.MAX_UNANSWERED + 1) == [*[1] * at_once.MAX_UNANSWERED, 10]


def test_results_that_are_kept_are_bounded_until_their_micro_batch_takes_them(
    sink: AtOnce, calls: Calls, freed: threading.Event
) -> None:
    sink.put(1, row(1))
    calls.parts(1)
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

"""Where a micro-batch ends in real-time mode: never at a cursor that is older than the committed one."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.engine.frames import Message
from tests.fake_gateway.engine import FakeGateway

from headrace.engine.applications.real_time import reader as reader_module
from headrace.engine.applications.real_time.reader import RealTimePlanner
from headrace.engine.applications.real_time.worker import Reached
from headrace.engine.checkpoint.position import Offset, Position
from headrace.engine.source.options import Defaults, parse
from headrace.engine.wire.connection import Connection


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    gateway = FakeGateway().start()
    yield gateway
    gateway.stop()


@pytest.mark.parametrize(("told", "expected"), [(None, b"moved"), (b"of its frame", b"of its frame")])
def test_a_micro_batch_without_a_cursor_keeps_the_one_that_was_committed_without_a_message(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, told: bytes | None, expected: bytes
) -> None:
    class Worker:
        def __init__(self, path: str) -> None: ...

        def begin(self, pipeline: bytes) -> None: ...

        def pause(self, follow: Mapping[str, Position | None], awaited: Collection[str] = ()) -> dict[str, Reached]:
            return {"orders/0": Reached(Position(0, 4, told), 1)}

        def close(self, ends: Any) -> list[Any]:
            return []

    monkeypatch.setattr(reader_module, "ServedWorker", Worker)
    options = parse({"gateway": gateway.address, "stream": "orders/*", "pipeline": "p"}, Defaults(read_tasks=4))
    planner = RealTimePlanner(replace(options, real_time="socket"), Connection.of(options))
    gateway.append("orders/0", [Message(n) for n in range(1, 5)])
    committed = {"orders/0": Position(0, 3, b"moved", 1)}
    start = Offset("p", committed, run_number=1, run_id="r", checkpoint="c").to_json()
    end = start
    while end == start:
        end = planner.latest_offset(start, ReadAllAvailable())
    found = Offset.from_json(end).streams["orders/0"]
    assert (found, found.cursor) == (Position(0, 4), expected)

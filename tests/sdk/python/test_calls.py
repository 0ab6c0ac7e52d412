"""A method that does not return is named while the connector runs: by its own name, and with the line where it stands."""

import asyncio
import inspect
import logging
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.fake_gateway.server import until
from tests.fake_gateway.sinks import part
from tests.sdk.python.sinks import Plain

from headrace.sdk import AsyncSource, Message, Settings, Source
from headrace.sdk.calls import Call

BRIEF = Settings(partition_poll_seconds=0.05, stuck_seconds=0.05)
DEADLINE_S = 120.0


class Names(logging.Handler):
    """Tells a method that it has been named."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "has not returned for" in record.getMessage():
            self.lines.append(record.getMessage())
            self.seen.set()

    def wait_until_named(self) -> None:
        assert self.seen.wait(DEADLINE_S), "nothing has named the method"


@pytest.fixture
def names() -> Iterator[Names]:
    handler = Names()
    logging.getLogger("headrace.sdk").addHandler(handler)
    yield handler
    logging.getLogger("headrace.sdk").removeHandler(handler)


def blocking(names: Names, method: str) -> Source:
    class Orders(Source):
        name = "orders"

        def partitions(self):
            if method == "partitions":
                names.wait_until_named()
            return ["0"]

        def read(self, partition, position):
            if method == "read":
                names.wait_until_named()
            yield Message(b"a", sequence=1)
            while True:
                yield None

        def acknowledged(self, partition, position):
            if method == "acknowledged":
                names.wait_until_named()

    return Orders()


def of_asyncio(names: Names, method: str) -> AsyncSource:
    class Orders(AsyncSource):
        name = "orders"

        async def read(self, partition, position):
            if method == "read":
                names.wait_until_named()  # blocks the event loop
            yield Message(b"a", sequence=1)
            while True:
                yield None

        async def acknowledged(self, partition, position):
            if method == "acknowledged":
                await asyncio.to_thread(names.wait_until_named)

    return Orders()


CASES = [
    (blocking, "partitions"),
    (blocking, "read"),
    (blocking, "acknowledged"),
    (of_asyncio, "read"),
    (of_asyncio, "acknowledged"),
]


@pytest.mark.parametrize(("kind", "method"), CASES)
async def test_a_method_of_a_source_that_does_not_return_is_named(gateway, connect, names, kind, method):
    connect(kind(names, method), settings=BRIEF)
    session = await gateway.session()
    stream_id = await session.open()
    await session.next("frame", ignore=("backlog", "report"))
    session.ack(stream_id, 1)
    await until(names.seen.is_set)
    line, file = names.lines[0], inspect.getsourcefile(blocking)
    assert f"Orders.{method}() has not returned for" in line
    assert f"it stands at {file}:" in line
    errors = []
    while not any(method in error.message for error in errors):
        errors += (await session.next("report", ignore=("backlog", "frame"))).report.errors


async def test_a_method_of_a_sink_that_does_not_return_is_named(sink_gateway, attach, names):
    sink = Plain()
    sink.outcomes = lambda values: names.wait_until_named()
    attach(sink, settings=BRIEF)
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"a"])
    session.end(id_, 1)
    await until(names.seen.is_set)
    assert names.lines[0].startswith("sink memory: Plain.write() has not returned for")


def told(call: Call, *times: float) -> list[bool]:
    """At which times a call that may take ten seconds is named."""
    return [call.overdue(now, 10.0) is not None for now in times]


def test_it_is_named_again_after_twice_the_time_and_not_while_it_does_something() -> None:
    frames, progress = [sys._getframe()], [0]
    call = Call("stream orders/0", "orders/0", lambda: frames, lambda: progress[0])
    assert told(call, 0.0, 9.0, 11.0, 21.0, 23.0, 45.0, 47.0) == [False, False, True, False, True, False, True]
    progress[0] += 1
    assert told(call, 48.0, 57.0, 58.5) == [False, False, True]
    call.turn += 1
    assert told(call, 90.0) == [False]
    frames.clear()
    assert told(call, 200.0, 300.0) == [False, False]


def test_a_thread_that_waits_in_the_sdk_is_not_named() -> None:
    waits, over = threading.Condition(), []

    def rest() -> None:
        with waits:
            waits.wait_for(lambda: over, DEADLINE_S)

    thread = threading.Thread(target=rest)
    thread.start()

    def frames() -> list[object]:
        """As if the SDK had called `wait_for`: without the frames of this module and its callers."""
        found, frame = [], sys._current_frames().get(thread.ident)
        while frame is not None and frame.f_code is not rest.__code__:
            found.append(frame)
            frame = frame.f_back
        return found

    assert told(Call("sink memory", "", frames, lambda: None), 0.0, 100.0) == [False, False]
    with waits:
        over.append(True)
        waits.notify()
    thread.join()

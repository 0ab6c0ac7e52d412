"""`close`: called once, after every other method, however a connector ends."""

import asyncio
import contextlib
import signal
import threading

import pytest
from tests.fake_gateway.server import until
from tests.fake_gateway.sinks import part
from tests.sdk.python.sinks import AsyncPlain, AsyncTwoPhase, Plain, TwoPhase
from tests.sdk.python.test_process import start

from headrace.contract.token_files import TokenFileError
from headrace.sdk import AsyncSource, Message, Settings, SinkFailed, Source, SourceFailed, serve

BRIEF = Settings(partition_poll_seconds=0.05, stuck_seconds=0.05, close_seconds=0.2)
"""For methods that never return."""


class Calls:
    name = "s"

    def __init__(self, *, endless: bool = False, fails: str = "", hangs: str = "") -> None:
        self.calls: list[str] = []
        self.endless, self.fails, self.hangs = endless, fails, hangs
        self.release = threading.Event()

    def called(self, what: str) -> None:
        self.calls.append(what)
        if what == self.fails:
            raise ValueError(f"{what} fails")

    def closed_last(self) -> bool:
        return self.calls.count("close") == 1 and self.calls[-1] == "close"


class Blocking(Calls, Source):
    def partitions(self):
        self.called("partitions")
        return ["0"]

    def read(self, partition, position):
        try:
            self.called("read")
            if self.hangs == "read":
                self.release.wait()
            yield Message(b"a", sequence=1)
            while self.endless:
                yield None
        finally:
            self.calls.append("the end of read")

    def acknowledged(self, partition, position):
        self.called("acknowledged")

    def close(self):
        self.called("close")
        if self.hangs == "close":
            self.release.wait()


class Asynchronous(Calls, AsyncSource):
    async def partitions(self):
        return Blocking.partitions(self)

    async def read(self, partition, position):
        try:
            self.called("read")
            if self.hangs == "read":
                await self.hang()
            yield Message(b"a", sequence=1)
            while self.endless:
                yield None
        finally:
            self.calls.append("the end of read")

    async def acknowledged(self, partition, position):
        self.called("acknowledged")

    async def close(self):
        self.called("close")
        if self.hangs == "close":
            await self.hang()

    async def hang(self) -> None:
        """Catches each cancellation until it is released."""
        while not self.release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        raise asyncio.CancelledError


SOURCES = pytest.mark.parametrize("kind", [Blocking, Asynchronous])
OTHERS = ("backlog", "credit_request", "report", "close_stream", "frame", "open_stream")


@SOURCES
async def test_a_source_is_closed_once_it_has_ended(gateway, connect, kind):
    source = kind()
    task = connect(source)
    session = await gateway.session()
    stream = await session.open()
    await session.messages(1)
    session.ack(stream, 1)
    await session.next("goodbye", ignore=OTHERS)
    await task
    assert source.closed_last()
    assert "acknowledged" in source.calls
    assert "the end of read" in source.calls


@SOURCES
async def test_a_source_is_closed_once_it_is_stopped(gateway, connect, kind):
    source, stop = kind(endless=True), asyncio.Event()
    task = connect(source, stop=stop)
    session = await gateway.session()
    stream = await session.open()
    await session.messages(1)
    stop.set()
    session.ack(stream, 1)
    await session.next("goodbye", ignore=OTHERS)
    await task
    assert source.closed_last()


@SOURCES
async def test_a_source_is_closed_once_across_sessions(gateway, connect, kind):
    source, stop = kind(endless=True), asyncio.Event()
    task = connect(source, stop=stop)
    session = await gateway.session()
    await session.open()
    await session.messages(1)
    await gateway.stop()
    await gateway.start()
    session = await gateway.session()
    stream = await session.open()
    await session.messages(1)
    assert "close" not in source.calls
    stop.set()
    session.ack(stream, 1)
    await session.next("goodbye", ignore=OTHERS)
    await task
    assert source.closed_last()


@SOURCES
@pytest.mark.parametrize("fails", ["partitions", "read"])
async def test_a_source_is_closed_after_an_error(gateway, connect, kind, fails):
    source = kind(fails=fails)
    task = connect(source)
    session = await gateway.session()
    if fails == "read":
        await session.open()
    with pytest.raises(SourceFailed, match=f"{fails} fails"):
        await task
    assert source.closed_last()


@SOURCES
async def test_a_source_whose_options_are_invalid_is_not_called_at_all(kind, tmp_path):
    source = kind()
    with pytest.raises(TokenFileError):
        await serve(source, gateway="127.0.0.1:1", token_file=tmp_path / "missing")
    assert source.calls == []


@SOURCES
async def test_a_source_is_closed_though_no_gateway_was_ever_there(kind):
    source, stop = kind(), asyncio.Event()
    stop.set()
    await serve(source, gateway="127.0.0.1:1", stop=stop)
    assert source.calls == ["close"]


@SOURCES
async def test_a_source_whose_task_is_cancelled_is_closed(gateway, connect, kind):
    source = kind(endless=True)
    task = connect(source)
    session = await gateway.session()
    await session.open()
    await session.messages(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.closed_last()


@SOURCES
async def test_a_close_that_raises_is_logged_and_changes_nothing_else(kind, caplog):
    source, stop = kind(fails="close"), asyncio.Event()
    stop.set()
    await serve(source, gateway="127.0.0.1:1", stop=stop)
    assert "source s: close() raised ValueError: close fails" in caplog.messages


@SOURCES
async def test_a_close_that_does_not_return_is_logged_and_left(connect, kind, caplog):
    source, stop = kind(hangs="close"), asyncio.Event()
    stop.set()
    await connect(source, stop=stop, settings=BRIEF)
    assert "source s: close() has not returned after 0.2 s (close_seconds); the connector ends without it" in caplog.messages
    source.release.set()


@SOURCES
async def test_close_never_runs_beside_a_method_that_has_not_returned(gateway, connect, kind, caplog):
    source, stop = kind(hangs="read"), asyncio.Event()
    task = connect(source, stop=stop, settings=BRIEF)
    session = await gateway.session()
    await session.open()
    await until(lambda: "read" in source.calls)
    stop.set()
    await session.next("goodbye", ignore=OTHERS)
    await task
    assert "close" not in source.calls
    assert any("close() is not called, because another method has not returned" in line for line in caplog.messages)
    source.release.set()
    await until(lambda: "the end of read" in source.calls)


def closing(kind, **raises):
    """A sink that notes its close."""

    def close(self):
        self.called("close")

    async def close_later(self):
        self.called("close")

    asynchronous = kind.__name__.startswith("Async")
    sink = type("Closing", (kind,), {"close": close_later if asynchronous else close})()
    sink.raises = {what: [error] for what, error in raises.items()}
    return sink


SINKS = pytest.mark.parametrize("kind", [Plain, AsyncPlain, TwoPhase, AsyncTwoPhase])


@SINKS
async def test_a_sink_is_closed_once_it_is_stopped(sink_gateway, attach, kind):
    sink, stop = closing(kind), asyncio.Event()
    task = attach(sink, stop=stop)
    session = await sink_gateway.session()
    await session.staged(part(0), b"a")
    stop.set()
    await session.next("goodbye")
    await task
    assert sink.calls.count("close") == 1
    assert sink.calls[-1] == "close"


@pytest.mark.parametrize("kind", [TwoPhase, AsyncTwoPhase])
async def test_a_sink_that_never_reported_is_closed(attach, kind):
    sink, stop = closing(kind, recover=SinkFailed("not yet")), asyncio.Event()
    task = attach(sink, stop=stop, gateway="127.0.0.1:1")
    await until(lambda: "recover" in sink.calls)
    stop.set()
    await task
    assert sink.calls[-1] == "close"


@SINKS
async def test_a_close_of_a_sink_that_raises_is_logged(kind, caplog):
    sink, stop = closing(kind, close=ValueError("close fails")), asyncio.Event()
    stop.set()
    await serve(sink, gateway="127.0.0.1:1", stop=stop)
    assert "sink memory: close() raised ValueError: close fails" in caplog.messages


@pytest.mark.parametrize("kind", [Plain, TwoPhase])
async def test_a_sink_that_is_stuck_is_not_closed_beside_its_method(sink_gateway, attach, kind, caplog):
    sink, stop, stuck, release = closing(kind), asyncio.Event(), threading.Event(), threading.Event()

    def wait(values: object) -> None:
        stuck.set()
        release.wait()

    sink.outcomes = wait
    task = attach(sink, stop=stop, settings=Settings(drain_seconds=0.05, stuck_seconds=0.05, close_seconds=0.2))
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"a"])
    session.end(id_, 1)
    await until(stuck.is_set)
    stop.set()
    await task
    assert "close" not in sink.calls
    assert any("close() is not called" in line for line in caplog.messages)
    release.set()


STUBBORN = """
import asyncio, sys
from headrace.sdk import AsyncSource, Settings, run

class Stubborn(AsyncSource):
    name = "stubborn"

    async def read(self, partition, position):
        while True:
            yield None

    async def close(self):
        print("closing", flush=True)
        while True:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass

sys.exit(run(Stubborn(), settings=Settings(close_seconds=0.1)))
"""


async def test_a_process_ends_though_its_close_catches_its_cancellation(gateway):
    process = await start(gateway, STUBBORN)
    session = await gateway.session()
    await session.open()
    process.send_signal(signal.SIGTERM)
    await session.next("goodbye", ignore=OTHERS)
    said, log = await asyncio.wait_for(process.communicate(), 60)
    assert said == b"closing\n"
    assert process.returncode == 0
    assert b"source stubborn: close() has not returned after 0.1 s" in log

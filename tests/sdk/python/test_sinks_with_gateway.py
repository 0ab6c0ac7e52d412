"""Sinks and the real gateway: what a pipeline writes is visible once the commit log contains its batch."""

import asyncio
import contextlib
import sqlite3
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from tests.disks import disk
from tests.gateway.patience import PATIENCE_MS, Patience
from tests.gateway.sink_wire import Writer, serving_instances
from tests.gateway.wire import DEADLINE_S
from tests.gateway.wire import serve as gateway_serving
from tests.sdk.python.sinks import AsyncIdempotent, AsyncPlain, AsyncTwoPhase, Idempotent, Memory, Plain, TwoPhase

from headrace.connectors import FileSink, SinkFormat
from headrace.gateway.config import Limits
from headrace.sdk import IdempotentSink, serve
from headrace.sdk.sinks import session


@asynccontextmanager
async def serving(sink: object, address: str, instance: str | None = None) -> AsyncIterator[None]:
    """Serves a sink, and stops it in good order."""
    stop = asyncio.Event()
    task = asyncio.create_task(serve(sink, gateway=address, instance=instance, stop=stop))
    try:
        yield
        stop.set()
        await asyncio.wait_for(task, DEADLINE_S)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def visible(writer: Writer, committed: int) -> None:
    """Waits until a batch that is in the commit log is visible."""
    async with asyncio.timeout(DEADLINE_S):
        while await writer.report_commits(committed):
            pass


def written(sink: Memory) -> list[bytes]:
    return sink.values or [value for _, values in sorted(sink.batches.items()) for value in values]


@pytest.mark.parametrize("kind", [Plain, AsyncPlain, Idempotent, AsyncIdempotent, TwoPhase, AsyncTwoPhase])
async def test_batches_are_written(kind):
    sink = kind()
    sink.name = "out"
    async with gateway_serving() as (_, address), serving(sink, address):
        writer = Writer(address)
        await writer.report_commits()
        for batch in range(3):
            await asyncio.gather(*(writer.deliver(batch, [b"%d%d" % (batch, n)], partition=n) for n in range(2)))
            await writer.vote(batch, writer.part(batch, 0), writer.part(batch, 1))
            await visible(writer, batch)
        await writer.close()
    assert sorted(written(sink)) == [b"00", b"01", b"10", b"11", b"20", b"21"]


async def test_a_sink_that_is_slower_than_the_gateways_patience_is_not_ended(monkeypatch):
    """It reports that it is busy, four times in the gateway's patience, and the gateway waits anew each time."""

    class Slow(AsyncPlain):
        async def write(self, rows):
            # Frames of several transports' windows wait behind this one meanwhile.
            await may_write.wait()
            return await super().write(rows)

    assert session._BUSY_SHARE == 1 / 4
    # Nothing else that it sends, such as that it lives, may stand for that.
    monkeypatch.setattr("headrace.sdk.wire._reports.HEARTBEAT_S", PATIENCE_MS)
    monkeypatch.setattr(session, "_BUSY_SHARE", 0.05 / (PATIENCE_MS / 1000))
    sink, may_write, patience = Slow(), asyncio.Event(), Patience(monkeypatch)
    sink.name = "out"
    async with gateway_serving(Limits(write_timeout_seconds=PATIENCE_MS / 1000)) as (gateway, address), serving(sink, address):
        writer = Writer(address)
        deliveries = [writer.deliver(0, [b"%d" % n * 2**20] * 3, partition=n) for n in range(8)]
        await patience.granted(20)
        may_write.set()
        await asyncio.gather(*deliveries)
        assert gateway.rejected_sessions == {}
        await writer.close()
    assert len(written(sink)) == 24


class Table(IdempotentSink):
    """The example of the documentation: rows and the batch's id in one step."""

    name = "out"

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, transaction, rows):
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS batches (pipeline, batch, UNIQUE (pipeline, batch))")
            db.execute("CREATE TABLE IF NOT EXISTS written (value)")
            id_ = (transaction.pipeline, transaction.batch)
            if db.execute("INSERT OR IGNORE INTO batches VALUES (?, ?)", id_).rowcount:
                db.executemany("INSERT INTO written VALUES (?)", ((m.value,) for some in rows for m in some.messages()))


@pytest.mark.parametrize("kind", [Table, Plain, TwoPhase])
async def test_two_instances_of_a_sink_write_every_row_once(kind, tmp_path):
    one, other = (Table(tmp_path / "db"), Table(tmp_path / "db")) if kind is Table else (kind(), kind())
    one.name = other.name = "out"
    async with gateway_serving() as (_, address), serving(one, address, "one"), serving(other, address, "other"):
        writer = Writer(address)
        await writer.report_commits()
        await serving_instances(address, ["one", "other"])
        for batch in range(3):
            deliveries = [writer.deliver(batch, [b"%d%d" % (batch, n)], partition=n) for n in range(4)]
            instances = [response.instance for response in await asyncio.gather(*deliveries)]
            await writer.vote(batch, *(writer.part(batch, n) for n in range(4)), instances=instances)
            await visible(writer, batch)
        await writer.close()
    if kind is Table:
        with closing(sqlite3.connect(tmp_path / "db")) as db:
            found = [value for (value,) in db.execute("SELECT value FROM written")]
    else:
        found = written(one) + written(other)
    assert sorted(found) == [b"%d%d" % (batch, n) for batch in range(3) for n in range(4)]


class OneAtATime(TwoPhase):
    """Stages like a database that lets one write at a time: whoever has begun continues to the end of its part."""

    name = "out"

    def __init__(self):
        super().__init__()
        self._lock = threading.Lock()

    def stage(self, part, rows):
        with self._lock:
            return super().stage(part, rows)


class AsyncOneAtATime(AsyncTwoPhase):
    name = "out"

    def __init__(self):
        super().__init__()
        self._lock = asyncio.Lock()

    async def stage(self, part, rows):
        async with self._lock:
            return await super().stage(part, rows)


@pytest.mark.parametrize("kind", [TwoPhase, AsyncTwoPhase, OneAtATime, AsyncOneAtATime])
async def test_parts_that_are_larger_than_what_waits_for_a_sink_are_staged(kind):
    sink = kind()
    sink.name = "out"
    async with gateway_serving() as (_, address), serving(sink, address):
        writer = Writer(address)
        await writer.report_commits()
        values = [[bytes([65 + n]) * 2**20] * 14 for n in range(3)]
        await asyncio.gather(*(writer.deliver_frames(0, rows, partition=n) for n, rows in enumerate(values)))
        await writer.vote(0, *(writer.part(0, n) for n in range(3)))
        await visible(writer, 0)
        await writer.close()
    assert sorted(sink.values) == sorted(value for rows in values for value in rows)


@pytest.mark.parametrize("kind", [OneAtATime, AsyncOneAtATime])
async def test_a_part_for_which_the_disk_of_temporary_files_has_no_room_fails_its_task_which_may_try_again(
    kind, tmp_path, monkeypatch
):
    """Rows that wait, since the sink stages another part, are in a file. The other part is staged."""
    sink, rows, rest = kind(), [b"x" * 2**20] * 14, asyncio.Event()
    sink.name = "out"
    async with gateway_serving() as (_, address), serving(sink, address):
        writer = Writer(address)
        await writer.report_commits()
        first = writer.deliver_frames_held(0, rows, rest)
        async with asyncio.timeout(DEADLINE_S):
            while not any(call.startswith("stage 0 0 ") for call in sink.calls):  # Now it waits for the rest of the first part.
                await writer.report_commits()
        with disk(tmp_path / "full", "size=1m") as folder:
            monkeypatch.setattr(tempfile, "tempdir", str(folder))
            others = [writer.deliver_frames(0, rows, partition=n) for n in (1, 2)]
            outcomes = await asyncio.gather(*others, return_exceptions=True)
            rest.set()
            await first
        monkeypatch.setattr(tempfile, "tempdir", None)
        assert all(f"No space left on device: '{folder}'" in str(outcome) for outcome in outcomes), outcomes
        for n in (1, 2):
            await writer.deliver(0, [b"again"], partition=n, attempt="b")
        await writer.vote(0, *(writer.part(0, n, attempt="b" if n else "a") for n in range(3)))
        await visible(writer, 0)
        await writer.close()
    assert sorted(sink.values) == [b"again", b"again", *rows]


async def test_a_part_that_the_sink_cannot_stage_fails_its_task_which_may_try_again():
    sink = TwoPhase()
    sink.name = "out"
    sink.raises["stage"] = [OSError("disk full")]
    async with gateway_serving() as (_, address), serving(sink, address):
        writer = Writer(address)
        await writer.report_commits()
        with pytest.raises(Exception, match="OSError: disk full"):
            await writer.deliver(0)
        await writer.deliver(0, attempt="b")
        await writer.vote(0, writer.part(0, attempt="b"))
        await visible(writer, 0)
        await writer.close()
    assert sink.values == [b"v"]


async def test_a_file_sink_that_was_away_shows_what_was_committed_meanwhile(tmp_path):
    async with gateway_serving() as (_, address):
        writer = Writer(address)
        for batch in range(3):
            sink = FileSink("out", tmp_path, SinkFormat.LINES)
            async with serving(sink, address):
                if batch:
                    await visible(writer, batch - 1)
                await writer.report_commits(committed=batch - 1 if batch else None)
                await writer.deliver(batch, [b"%d" % batch, b"x"])
                await writer.vote(batch)
            sink.close()
            # Spark writes its commit log while the sink is away.
            assert await writer.report_commits(committed=batch) == 1
        sink = FileSink("out", tmp_path, SinkFormat.LINES)
        async with serving(sink, address):
            await visible(writer, 2)
        sink.close()
        await writer.close()
    assert (tmp_path / "out-000001.lines").read_bytes() == b"0\nx\n1\nx\n2\nx\n"

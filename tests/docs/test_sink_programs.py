"""The programs of the page for authors of sinks run as they are printed, in processes of their own, with a scripted gateway."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.docs.pages import blocks
from tests.docs.running import running
from tests.fake_gateway.sinks import FakeSinkGateway, FakeSinkSession, part, transaction

DEADLINE_S = 150.0
AUTHORS = "docs/write/writing-a-sink.md"
TESTED = "Testing a sink"


async def write(session: FakeSinkSession, batch: int, *values: bytes, **columns: object) -> None:
    """Writes a batch whose first part is tried twice."""
    for attempt in ("lost", "kept"):
        id_ = session.start(part(batch, 0, attempt))
        session.rows(id_, values, **columns)
        session.end(id_, len(values))
        await session.next("staged")
    await session.staged(part(batch, 1))
    await session.prepared(transaction(batch), part(batch, 0, "kept"), part(batch, 1))
    await session.committed(transaction(batch))


async def notes(session: FakeSinkSession, folder: Path) -> None:
    await session.staged(part(0), b"one", b"two")
    assert (folder / "notes.txt").read_bytes() == b"one\ntwo\n"


async def readings(session: FakeSinkSession, folder: Path) -> None:
    refused = {1: "could not convert string to float: b'cold'"}
    await session.staged(part(0), b"20.5", b"cold", b"-3", refused=refused)
    assert (folder / "readings.jsonl").read_text() == '{"celsius": 20.5}\n{"celsius": -3.0}\n'


async def payments(session: FakeSinkSession, folder: Path) -> None:
    for batch in (0, 1, 1):
        await write(session, batch, b"%d" % batch, keys=[b"ann"])
    with closing(sqlite3.connect(folder / "payments.db")) as db:
        assert db.execute("SELECT * FROM payments").fetchall() == [("ann", 0.0), ("ann", 1.0)]


async def ledger(session: FakeSinkSession, folder: Path) -> None:
    def visible() -> list[bytes]:
        with closing(sqlite3.connect(folder / "ledger.db")) as db:
            found = db.execute("SELECT body FROM parts WHERE state = 'visible' ORDER BY pipeline, batch, part")
            return [body for (body,) in found]

    await write(session, 0, b"one", b"two")
    assert visible() == [b"one\ntwo\n", b""]
    await session.staged(part(1), b"three")
    await session.prepared(transaction(1), part(1))
    await session.staged(part(2), b"never")
    session.drain()
    assert (await session.next("goodbye")).reason
    again = await session.gateway.session()
    assert list(again.hello.staged) == [part(1), part(2)]
    assert list(again.hello.prepared) == [transaction(1)]
    assert list(again.hello.committed) == [transaction(0)]
    again.abort(transaction(2))
    again.drop(again.start(part(3)))
    for _ in range(2):
        await again.committed(transaction(1))
    assert visible() == [b"one\ntwo\n", b"", b"three\n"]


async def lines(session: FakeSinkSession, folder: Path) -> None:
    received = bytearray()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            received.extend(data)
        writer.close()

    server = await asyncio.start_unix_server(receive, folder / "lines.sock")
    await session.staged(part(0), b"one", b"two")
    async with asyncio.timeout(DEADLINE_S):
        while received != b"one\ntwo\n":  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.01)
    server.close()


async def traffic(session: FakeSinkSession, folder: Path) -> None:
    await session.staged(part(0), b"one", b"three")
    await session.staged(part(0, 1), b"")
    assert (folder / "traffic.txt").read_text() == "3 messages, 8 bytes\n"


PROGRAMS = {
    "A minimal sink": notes,
    "Messages that a sink refuses": readings,
    "Exactly once with a database: IdempotentSink": payments,
    "Exactly once with anything: TwoPhaseSink": ledger,
    "asyncio": lines,
    "Fast sinks: columns": traffic,
}


def test_every_program_is_run() -> None:
    assert [block.heading for block in blocks(AUTHORS, "python")] == [*PROGRAMS, TESTED]


@pytest.mark.parametrize("heading", PROGRAMS)
async def test_a_program_of_the_page_for_authors_of_sinks(heading: str, tmp_path: Path) -> None:
    (block,) = (block for block in blocks(AUTHORS, "python") if block.heading == heading)
    gateway = FakeSinkGateway()
    await gateway.start()
    try:
        async with running(block, tmp_path, gateway.address) as process:
            await PROGRAMS[heading](await gateway.session(), tmp_path)
            process.terminate()
            async with asyncio.timeout(DEADLINE_S):
                _, errors = await process.communicate()
            closed = b"the sink is closed\n"
            assert (process.returncode, errors) == (0, closed if closed.decode().strip() in block.text else b"")
    finally:
        await gateway.stop()


def test_the_tests_of_the_page_for_authors_of_sinks_pass() -> None:
    (block,) = (block for block in blocks(AUTHORS, "python") if block.heading == TESTED)
    names: dict[str, object] = {}
    exec(compile(block.text, AUTHORS, "exec"), names)
    tests = [test for name, test in names.items() if name.startswith("test_") and callable(test)]
    assert len(tests) == 1
    for test in tests:
        test()


def test_the_smallest_program_is_short() -> None:
    assert len(blocks(AUTHORS, "python")[0].text.strip().splitlines()) < 20

"""The programs of the pages run as they are printed: sources in processes of their own, with a gateway."""

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.docs.pages import blocks
from tests.docs.readers import DEADLINE_S, Reader
from tests.docs.running import running
from tests.gateway.wire import serve

AUTHORS = "docs/write/writing-a-source.md"


@dataclass(frozen=True)
class Program:
    """The result of a program of a page."""

    streams: dict[str, list[bytes]]
    """What it streams."""
    prepare: Callable[[Path], None] = lambda folder: None
    """Makes what it reads."""
    left: Callable[[Path], object] = lambda folder: None
    """What is left of that once it is acknowledged."""
    endless: bool = False
    """Whether it runs until it is stopped."""


def readings(folder: Path) -> None:
    (folder / "readings.log").write_text("one\ntwo\n\nfour\nnot yet whole")


def inbox(folder: Path) -> None:
    (folder / "inbox").mkdir()
    for number in range(1, 6):
        (folder / "inbox" / str(number)).write_text(f"letter {number}")


def left_letters(folder: Path) -> object:
    return list((folder / "inbox").iterdir())


def jobs(folder: Path) -> None:
    with sqlite3.connect(folder / "jobs.db") as db:
        db.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, body TEXT)")
        db.executemany("INSERT INTO jobs (body) VALUES (?)", [(f"job {n}",) for n in range(1, 8)])
    db.close()


def left_jobs(folder: Path) -> object:
    with sqlite3.connect(folder / "jobs.db") as db:
        rows = db.execute("SELECT id FROM jobs").fetchall()
    db.close()
    return rows


PROGRAMS = {
    "A minimal source": Program({"squares/0": [b"%d" % (n * n) for n in range(1, 101)]}),
    "An endless source: yield None": Program({"readings/0": [b"one", b"two", b"", b"four"]}, readings, endless=True),
    "Choosing where to begin: starts": Program({"readings/0": [b"four"]}, readings, endless=True),
    "Deleting acknowledged messages: acknowledged and PositionLost": Program(
        {"inbox/0": [b"letter %d" % n for n in range(1, 6)]}, inbox, left_letters, endless=True
    ),
    "Several partitions": Program(
        {f"temperatures/{city}": [b"%s %d" % (city.encode(), n) for n in range(1, 11)] for city in ("berlin", "oslo")}
    ),
    "A queue: redelivering sources": Program({"jobs/0": [b"job %d" % n for n in range(1, 8)]}, jobs, left_jobs, endless=True),
    "asyncio": Program({"ticks/0": [b"tick %d" % n for n in range(1, 21)]}),
    "Fast sources: batches": Program({"numbers/0": [b"%d" % n for n in range(1, 10_001)]}),
    "Running it": Program({"greetings/0": [b"hello"]}),
}
TESTED = "Testing a source"


def test_every_program_is_run() -> None:
    assert [block.heading for block in blocks(AUTHORS, "python")] == [*PROGRAMS, TESTED]


@pytest.mark.parametrize("heading", PROGRAMS)
async def test_a_program_of_the_page_for_authors(heading: str, tmp_path: Path) -> None:
    (block,) = (block for block in blocks(AUTHORS, "python") if block.heading == heading)
    program = PROGRAMS[heading]
    program.prepare(tmp_path)
    async with serve() as (_, address), running(block, tmp_path, address) as process:
        reader = Reader(address)
        await reader.attach()
        for stream, values in program.streams.items():
            assert await reader.read(stream, len(values)) == values
        await reader.commit()
        if program.endless:
            process.terminate()
        async with asyncio.timeout(DEADLINE_S):
            _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")
        assert not program.left(tmp_path)
        await reader.close()


def test_the_tests_of_the_page_for_authors_pass() -> None:
    (block,) = (block for block in blocks(AUTHORS, "python") if block.heading == TESTED)
    names: dict[str, object] = {}
    exec(compile(block.text, AUTHORS, "exec"), names)
    tests = [test for name, test in names.items() if name.startswith("test_") and callable(test)]
    assert len(tests) == 2
    for test in tests:
        test()

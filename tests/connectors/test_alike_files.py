"""Files of one log with the same contents: what is read is what was written, or the position is lost."""

import asyncio
import gzip
import os
import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.connectors.file_reading import Reading

from headrace.connectors import FileSource
from headrace.sdk import PositionLost


@asynccontextmanager
async def reading(*patterns: Path, positions=None):
    """Reads, and ends all reading at the end."""
    found = Reading(FileSource("s", patterns, rotated_seconds=0.0), positions)
    try:
        yield found
    finally:
        await found.stop()


class Log:
    """A log of equal lines, which is copied and truncated."""

    def __init__(self, folder: Path, line: bytes) -> None:
        self.path, self._line = folder / "app.log", line
        self.written = self._copies = 0
        self.path.touch()

    def write(self, count: int) -> None:
        with self.path.open("ab") as file:
            file.write((self._line + b"\n") * count)
        self.written += count

    def rotate(self) -> None:
        for number in range(self._copies, 0, -1):
            for suffix in ("", ".gz"):
                old = self.path.with_name(f"app.log.{number}{suffix}")
                if old.exists():
                    old.rename(self.path.with_name(f"app.log.{number + 1}{suffix}"))
        shutil.copyfile(self.path, self.path.with_name("app.log.1"))
        os.truncate(self.path, 0)
        self._copies += 1

    def pack(self, number: int) -> None:
        plain = self.path.with_name(f"app.log.{number}")
        if plain.exists():
            plain.with_name(plain.name + ".gz").write_bytes(gzip.compress(plain.read_bytes()))
            plain.unlink()


LINES = st.sampled_from([b"a", b"alive, and as long as a line of a log is", b"x" * 400])
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 3)),
        st.tuples(st.just("rotate"), st.just(0)),
        st.tuples(st.just("pack"), st.integers(1, 3)),
        st.tuples(st.sampled_from(["read", "restart"]), st.just(0)),
    ),
    min_size=2,
    max_size=12,
)


async def run(folder: Path, line: bytes, deeds: list[tuple[str, int]]) -> bool:
    """Returns whether all was read; False if the position is lost."""
    log, positions, values = Log(folder, line), {}, []
    log.write(1)
    found = Reading(FileSource("s", [log.path], rotated_seconds=0.0), positions)
    try:
        for deed, number in [("read", 0), *deeds, ("write", 1), ("read", 0)]:
            if deed in ("read", "restart"):
                before = len(values)
                await found.until(lambda reading, before=before: len(reading.values) + before >= log.written)
                await found.looks(2)
                assert len(found.values) + len(values) == log.written
            if deed == "restart":
                await found.stop()
                values += found.values
                found = Reading(FileSource("s", [log.path], rotated_seconds=0.0), positions)
            elif deed == "write":
                log.write(number)
            elif deed == "rotate":
                log.rotate()
            elif deed == "pack":
                log.pack(number)
    except PositionLost:
        return False
    finally:
        await found.stop()
    return True


@given(line=LINES, deeds=DEEDS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_equal_lines_that_are_copied_and_truncated_are_read_or_their_position_is_lost(line, deeds):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder), line, deeds))


@pytest.mark.parametrize("line", [b"a", b"x" * 400])
async def test_copies_of_equal_files_are_told_apart_by_those_that_were_read(tmp_path, line):
    log, positions, values = Log(tmp_path, line), {}, []
    for number in range(10):
        async with reading(log.path, positions=positions) as found:
            if number:
                # It has gone on from the copy to the log.
                await found.until(lambda reading: reading.yielded)
            log.write(1)
            await found.has(line)
            values += found.values
        log.rotate()
    assert values == [line] * 10


@pytest.mark.behaviour(
    "file",
    "copies of the log that hide whether it was truncated",
    "loses the position, and names a copy",
)
async def test_a_log_with_the_contents_of_its_copies_has_lost_its_position(tmp_path):
    log, positions = Log(tmp_path, b"a"), {}
    log.write(1)
    async with reading(log.path, positions=positions) as found:
        await found.has(b"a")
    for _ in range(2):
        log.rotate()
        log.write(1)
    with pytest.raises(PositionLost, match=r"app\.log was truncated since 2 bytes .* app\.log\.2 begins with the same bytes"):
        async with reading(log.path, positions=positions) as found:
            await found.until(lambda reading: reading.values)


async def test_a_log_with_other_contents_than_its_copy_is_read_on(tmp_path):
    log, positions = Log(tmp_path, b"a"), {}
    log.write(1)
    async with reading(log.path, positions=positions) as found:
        await found.has(b"a")
        # The copy was made, and the log is truncated later.
        (tmp_path / "app.log.2").write_bytes(b"other\n")
    with log.path.open("ab") as file:
        file.write(b"b\n")
    async with reading(log.path, positions=positions) as found:
        await found.has(b"b")
        assert found.values == [b"b"]

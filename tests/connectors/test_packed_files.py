"""Compressed files that grow: members that are appended, and files that are empty at first."""

import bz2
import gzip
import lzma
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from tests.connectors.file_reading import Reading

from headrace.connectors import FileSource

PACK = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    ".lz4": lambda data: pa.Codec("lz4").compress(data, asbytes=True),
}
EACH = pytest.mark.parametrize("suffix", PACK)


@asynccontextmanager
async def reading(*patterns: Path, positions=None, **options):
    """Reads, and ends all reading at the end."""
    found = Reading(FileSource("s", patterns, **{"rotated_seconds": 0.0, **options}), positions)
    try:
        yield found
    finally:
        await found.stop()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@EACH
async def test_members_that_are_appended_are_read(tmp_path, suffix):
    path, positions = tmp_path / f"app.log{suffix}", {}
    path.write_bytes(PACK[suffix](b"one\n"))
    async with reading(path, positions=positions) as found:
        await found.has(b"one")
        for value in (b"two", b"three"):
            append(path, PACK[suffix](value + b"\n"))
            await found.has(value)
        assert found.values == [b"one", b"two", b"three"]
    append(path, PACK[suffix](b"four\n"))
    async with reading(path, positions=positions) as found:
        await found.has(b"four")
        assert found.values == [b"four"]


@EACH
async def test_files_whose_numbers_count_up_are_known_again_once_they_are_compressed(tmp_path, suffix):
    log, positions = tmp_path / "app.log", {}
    log.write_bytes(b"one\n")
    async with reading(tmp_path / "*", positions=positions) as found:
        await found.has(b"one")
        for number, value in enumerate((b"two", b"three"), 1):
            log.rename(tmp_path / f"app-{number}.log")
            log.write_bytes(value + b"\n")
            await found.has(value)
    for path in sorted(tmp_path.glob("app-?.log")):
        path.with_name(path.name + suffix).write_bytes(PACK[suffix](path.read_bytes()))
        path.unlink()
    log.rename(tmp_path / "app-3.log")
    log.write_bytes(b"four\n")
    async with reading(tmp_path / "*", positions=positions) as found:
        await found.has(b"four")
        assert found.values == [b"four"]


@EACH
@pytest.mark.parametrize("follow", [True, False])
async def test_an_empty_file_is_not_damaged(tmp_path, suffix, follow):
    path = tmp_path / f"app.log.1{suffix}"
    path.touch()
    (tmp_path / "app.log").write_bytes(b"two\n")
    async with reading(tmp_path / "*", follow=follow) as found:
        await found.has(b"two")
        assert found.values == [b"two"]


@EACH
async def test_an_empty_file_may_be_written_later(tmp_path, suffix):
    path = tmp_path / f"app.log{suffix}"
    path.touch()
    async with reading(path) as found:
        await found.until(lambda reading: reading.yielded)
        path.write_bytes(PACK[suffix](b"one\n"))
        await found.has(b"one")

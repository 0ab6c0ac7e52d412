"""Rotated files whose log does not exist: whether they belong to it, only its position tells."""

import asyncio
import gzip
import os
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.connectors.file_reading import DEADLINE_S, Reading, values_of
from tests.connectors.rabbitmq.rig import Query, serving, values
from tests.gateway.wire import serve as gateway_serving

from headrace.connectors import FileSource
from headrace.connectors.file import _source
from headrace.connectors.file.listing import may_match
from headrace.sdk import Batch


def source(*patterns: Path, **options) -> FileSource:
    return FileSource("s", patterns, **{"rotated_seconds": 0.0, **options})


@asynccontextmanager
async def reading(*patterns: Path, positions=None, **options):
    """Reads, and ends all reading at the end."""
    found = Reading(source(*patterns, **options), positions)
    try:
        yield found
    finally:
        await found.stop()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


RENAMED = ("app.log.1", "app.1.log", "app-2026-01-31.log", "app.log-20260131", "app.log.old", "app.log.2026-01-31.1")


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("name", RENAMED)
async def test_a_log_that_was_renamed_before_a_restart_is_read_in_its_stream(tmp_path, name, packed):
    log, renamed, positions = tmp_path / "app.log", tmp_path / name, {}
    log.write_bytes(b"one\n")
    async with reading(tmp_path / "*", positions=positions) as found:
        await found.has(b"one")
    append(log, b"two\n")
    if packed:
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
    else:
        log.rename(renamed)
    async with reading(tmp_path / "*", positions=positions) as found:
        await found.has(b"two")
        await found.looks()
        log.write_bytes(b"three\n")
        await found.has(b"three")
        await found.looks()
        assert {stream: values for stream, values in found.found.items() if values} == {"app.log": [b"two", b"three"]}


@pytest.mark.parametrize("follow", [True, False])
async def test_rotations_and_no_log_at_a_restart(tmp_path, follow):
    log, positions = tmp_path / "app.log", {}
    log.write_bytes(b"one\n")
    async with reading(tmp_path / "*", positions=positions) as found:
        await found.has(b"one")
    log.rename(tmp_path / "app.log.3")
    (tmp_path / "app.log.2").write_bytes(b"two\n")
    (tmp_path / "app.log.1").write_bytes(b"three\n")
    async with reading(tmp_path / "*", positions=positions, follow=follow) as found:
        await found.has(b"two", b"three")
        await found.looks()
        assert found.values == [b"two", b"three"]


async def test_another_name_of_a_file_changes_no_stream(tmp_path):
    positions = {}
    (tmp_path / "web.log").write_bytes(b"one\n")
    async with reading(tmp_path / "*", positions=positions) as found:
        await found.has(b"one")
    os.link(tmp_path / "web.log", tmp_path / "a")
    (tmp_path / "b").symlink_to("web.log")
    append(tmp_path / "web.log", b"two\n")
    for expected in ([b"two"], []):
        async with reading(tmp_path / "*", positions=positions) as found:
            await found.until(lambda reading, expected=expected: len(reading.values) >= len(expected))
            await found.looks()
            assert {name: values for name, values in found.found.items() if values} == ({"web.log": expected} if expected else {})


async def test_files_that_only_look_rotated_are_streams_of_their_own(tmp_path):
    for name in ("data-1.csv", "data-2.csv", "part.1"):
        (tmp_path / name).write_bytes(f"{name}\n".encode())
    async with reading(tmp_path / "*", positions={}) as found:
        await found.until(lambda reading: len(reading.values) == 3)
        (tmp_path / "data-3.csv").write_bytes(b"data-3.csv\n")
        await found.has(b"data-3.csv")
        assert {name: values for name, values in found.found.items() if values} == {
            name: [name.encode()] for name in ("data-1.csv", "data-2.csv", "data-3.csv", "part.1")
        }


async def test_a_query_may_read_such_a_file_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(_source, "_ABSENT_S", 0.1)
    (tmp_path / "data-1.csv").write_bytes(b"one\n")
    files = source(tmp_path / "*")
    assert sorted(await files.partitions()) == ["data-1.csv", "data.csv"]
    items = files.read("data-1.csv", None)
    async with asyncio.timeout(DEADLINE_S):
        assert values_of(await anext(item async for item in items if isinstance(item, Batch))) == [b"one"]


async def test_a_log_that_comes_while_it_is_asked_for_is_read(tmp_path):
    (tmp_path / "app.log.1").write_bytes(b"one\n")
    files = source(tmp_path / "*")
    assert sorted(await files.partitions()) == ["app.log", "app.log.1"]
    (tmp_path / "app.log").write_bytes(b"two\n")
    found = Reading(files)
    try:
        await found.has(b"one", b"two")
        await found.looks()
        assert sorted(found.values) == [b"one", b"two"]
    finally:
        await found.stop()


async def test_no_stream_is_left_of_a_log_that_never_was(tmp_path, monkeypatch):
    monkeypatch.setattr(_source, "_FREE_S", 0.1)
    (tmp_path / "data-1.csv").write_bytes(b"one\n")
    async with gateway_serving() as (_, address):
        reader = Query(address)
        async with serving(source(tmp_path / "*"), address):
            assert values(await reader.read(1)) == [b"one"]
            (tmp_path / "data.csv").write_bytes(b"two\n")
            assert values(await reader.read(2))[-1] == b"two"
        await reader.close()


async def test_a_query_that_has_read_the_log_reads_on_in_its_stream(tmp_path):
    log = tmp_path / "app.log"
    log.write_bytes(b"one\n")
    async with gateway_serving() as (_, address):
        reader = Query(address)
        async with serving(source(tmp_path / "*"), address):
            assert values(await reader.read(1)) == [b"one"]
        append(log, b"two\n")
        log.rename(tmp_path / "app.log.1")
        async with serving(source(tmp_path / "*"), address):
            assert values(await reader.read(2))[-1] == b"two"
            log.write_bytes(b"three\n")
            assert values(await reader.read(3))[-1] == b"three"
        assert sorted(values(reader.messages)) == [b"one", b"three", b"two"]
        await reader.close()


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a/*", "/a/app.log", True),
        ("/a/*", "/a/b/app.log", False),
        ("/a/*", "/a/.app.log", False),
        ("/a/app.log.*", "/a/app.log", False),
        ("/a/**/*.log", "/a/app.log", True),
        ("/a/**/*.log", "/a/b/c/app.log", True),
        ("/a/**", "/a/b/app.log", True),
        ("/a/[x].log", "/a/[x].log", True),
    ],
)
def test_what_a_pattern_would_match(pattern, path, matches):
    assert may_match(pattern, path) is matches

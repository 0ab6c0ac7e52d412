"""The file source with more files than streams, through a gateway."""

import asyncio
import threading
from pathlib import Path

import pytest
from tests.connectors.rabbitmq.rig import Query, serving, until, values
from tests.gateway.wire import serve as gateway_serving

from headrace.connectors import FileSource
from headrace.gateway.config import Limits
from headrace.sdk import serve


def make_files(folder: Path, count: int) -> list[bytes]:
    """Files with a line each."""
    for number in range(count):
        (folder / f"{number:03}.log").write_bytes(b"%d\n" % number)
    return [b"%d" % number for number in range(count)]


def ours() -> int:
    """How many threads the SDK and the source have."""
    return sum(thread.name.startswith("headrace") for thread in threading.enumerate())


def source(folder: Path, **options) -> FileSource:
    return FileSource("s", [folder / "*.log"], **{"max_streams": 4, "idle_seconds": 0.0, **options})


async def test_more_files_than_streams_take_turns(tmp_path):
    expected = make_files(tmp_path, 30)
    async with gateway_serving() as (_, address):
        reader = Query(address)
        threads = ours()
        async with serving(source(tmp_path), address):
            assert sorted(values(await reader.read(30)), key=int) == expected
            assert ours() <= threads + 2  # One reads, and one looks at the calls.
            with (tmp_path / "007.log").open("ab") as file:
                file.write(b"more\n")
            await reader.read_to(b"more")
            later = Query(address, "later")
            assert sorted(values(await later.read(31)), key=lambda v: (v == b"more", v.zfill(9))) == [*expected, b"more"]
            await later.close()
        await reader.close()


async def test_files_that_are_not_followed_end_in_turns(tmp_path):
    expected = make_files(tmp_path, 30)
    (tmp_path / "empty.log").touch()
    async with gateway_serving() as (_, address):
        reader = Query(address)
        task = asyncio.create_task(serve(source(tmp_path, follow=False), gateway=address))
        assert sorted(values(await reader.read(30)), key=int) == expected
        await asyncio.wait_for(task, 120)
        await reader.close()


async def test_a_lost_session_begins_with_what_was_not_acknowledged(tmp_path):
    expected = make_files(tmp_path, 12)
    files = source(tmp_path, follow=False)
    async with gateway_serving() as (_, address):
        reader = Query(address)
        async with serving(files, address):
            await reader.read(4)
            await reader.uncommitted(2)
        await reader.close()
    async with gateway_serving() as (_, address):
        again = Query(address)
        again.committed = dict(reader.committed)
        async with serving(files, address):
            found = values(reader.messages) + values(await again.read(12 - len(reader.messages)))
        assert sorted(found, key=int) == expected
        await again.close()


async def test_hundreds_of_idle_files_cost_little(tmp_path):
    make_files(tmp_path, 300)
    async with gateway_serving() as (_, address):
        reader = Query(address)
        files, threads = source(tmp_path, max_streams=300), ours()
        async with serving(files, address):
            await reader.read(300)
            await until(lambda: len(files._watch._waiting) == 300)
            assert ours() <= threads + 2  # One reads, and one looks at the calls.
            with (tmp_path / "123.log").open("ab") as file:
                file.write(b"more\n")
            await reader.read_to(b"more")
        await reader.close()


@pytest.mark.parametrize("follow", [True, False])
async def test_the_gateway_may_have_fewer_streams_than_the_source(tmp_path, follow):
    expected = make_files(tmp_path, 10)
    async with gateway_serving(Limits(max_streams_per_session=3)) as (_, address):
        reader = Query(address)
        async with serving(source(tmp_path, max_streams=100, follow=follow), address):
            assert sorted(values(await reader.read(10)), key=int) == expected
        await reader.close()

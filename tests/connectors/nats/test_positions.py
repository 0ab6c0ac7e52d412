"""`start`, and `headrace positions rewind --connector`: both find a time by the stream's own index."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.connectors.nats.rig import DEADLINE, Query, connection, numbers

from headrace.connectors_cli import positions_of
from headrace.protocol.v1.frame_pb2 import Position


async def stored_at(server, stream: str, sequence: int) -> datetime:
    """When a message was stored, by the server's clock, to the microsecond."""
    time = (await server.js.get_msg(stream, sequence)).time
    assert time is not None
    return time


def deployed(folder: Path, nats, stream: str, **more: object) -> str:
    """A deployment with one connector; returns how a command names it."""
    table = {"connector": "nats", "source": "s", "stream": stream, **connection(nats), **more}
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in table.items()]
    (folder / "deploy.toml").write_text(f"[connectors.orders]\n{''.join(lines)}")
    return f"{folder / 'deploy.toml'}:orders"


@pytest.mark.behaviour(
    "nats",
    "`headrace positions rewind` to a time before the checkpoint's",
    "finds it in the stream, with `--connector FILE:NAME`",
)
@pytest.mark.parametrize("subjects", [[], ["b"]], ids=["all subjects", "one subject"])
async def test_a_query_goes_back_to_the_time_of_any_message(nats, server, source, run, query, address, tmp_path, subjects):
    stream = await server.stream()
    for number in range(6):
        await server.numbers(f"{stream}.{'ab'[number % 2]}", 1, number)
    await server.js.delete_msg(stream, 2)
    here = {"subjects": [f"{stream}.{subject}" for subject in subjects]}
    of_query = [number for number in (0, 2, 3, 4, 5) if not subjects or number % 2]
    run(source(stream, **here))
    one = await query()
    assert numbers(await one.read(len(of_query))) == of_query
    await one.commit()
    (name,) = one.committed
    target = deployed(tmp_path, nats, stream, **here)
    for sequence in (1, 3, 4, 6):
        time = await stored_at(server, stream, sequence)
        found = await asyncio.to_thread(positions_of, target, time)
        # Whoever asks again gets the same answer, and nothing of the query has changed.
        assert (await asyncio.to_thread(positions_of, target, time)).positions == found.positions
        assert one.committed[name].sequence == 6
        position = found.positions[name]
        assert position is not None
        moved = Query(address, f"q{sequence}")
        moved.committed[name] = Position(epoch=0, sequence=position.sequence, cursor=position.cursor)
        await moved.attach()
        expected = [number for number in of_query if number >= sequence - 1]
        assert numbers(await moved.read(len(expected))) == expected
        await moved.close()


async def test_a_time_before_and_after_all_messages(nats, server, tmp_path):
    stream = await server.stream()
    target = deployed(tmp_path, nats, stream)
    now = datetime.now(UTC)

    async def found(time: datetime) -> int:
        (position,) = (await asyncio.to_thread(positions_of, target, time)).positions.values()
        assert position is not None
        return position.sequence

    assert await found(now) == 0, "an empty stream"
    await server.numbers(f"{stream}.x", 3)
    last = await stored_at(server, stream, 3)
    assert [await found(last - timedelta(days=3)), await found(last + timedelta(days=3))] == [0, 3]
    await server.js.purge_stream(stream)
    assert [await found(last - timedelta(days=3)), await found(last + timedelta(days=3))] == [3, 3]


@pytest.mark.parametrize("start", ["latest", "time"])
async def test_a_new_query_begins_where_start_says(server, source, run, query, start):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 3)
    told = start if start == "latest" else (await stored_at(server, stream, 3)).isoformat()
    run(source(stream, start=told))
    one = await query()
    read: list[int] = []
    async with asyncio.timeout(DEADLINE):
        while not one.committed:
            read += numbers(await one.poll(wait_ms=200))
            await one.commit()
    await server.numbers(f"{stream}.x", 2, 3)
    while 4 not in read:
        read += numbers(await one.read(1))
    assert read == ([3, 4] if start == "latest" else [2, 3, 4])

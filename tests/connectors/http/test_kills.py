"""Connectors that are killed: what a receiver has answered is in the checkpoint, and what a sink has not told is sent again."""

import asyncio
import random
import sys
from contextlib import suppress

import aiohttp
import pytest
from tests.connectors.http.receiver import receiving
from tests.connectors.programs import free_port, listening
from tests.connectors.query import querying
from tests.fake_gateway.server import until
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import serve as gateway

SENDERS, MESSAGES, KILLS = 20, 15, 3
DEADLINE_S = 150.0


async def test_what_is_answered_is_in_the_checkpoint_and_nothing_is_lost() -> None:
    port, choice = free_port(), random.Random(11)
    url = f"http://127.0.0.1:{port}/"
    committed: set[str] = set()
    answered: set[str] = set()
    sent = {f"{sender}-{number}" for sender in range(SENDERS) for number in range(MESSAGES)}

    async with gateway() as (_, address), querying(address, "hooks/*") as query, aiohttp.ClientSession() as client:

        async def start() -> asyncio.subprocess.Process:
            arguments = ("--listen", f"127.0.0.1:{port}", "--source", "hooks", "--id-header", "Id", "--gateway", address)
            command = [sys.executable, "-m", "headrace.cli", "connector", "run", "http", *arguments]
            process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
            await listening(port)
            return process

        async def send(sender: int) -> None:
            for number in range(MESSAGES):
                id_ = f"{sender}-{number}"
                while id_ not in answered:
                    with suppress(aiohttp.ClientError):
                        async with client.post(url, data=id_.encode(), headers={"Id": id_}) as response:
                            if response.status == 204:
                                assert id_ in committed, f"{id_} was answered, and is not in the checkpoint"
                                answered.add(id_)
                    await asyncio.sleep(0.01)

        async def read() -> None:
            """Batch after batch, some of which are never committed."""
            while True:
                batch = await query.batch("hooks/0", 1)
                assert all(message.value == (message.message_id or "").encode() for message in batch)
                if choice.random() < 0.7:
                    committed.update(message.message_id or "" for message in batch)
                    await query.commit()

        async def kill() -> None:
            process = await start()
            for kills in range(1, KILLS + 1):
                enough = kills * len(sent) // (KILLS + 1)
                await until(lambda enough=enough: len(answered) >= enough)
                process.kill()
                await process.wait()
                process = await start()
            await asyncio.gather(*senders)
            process.kill()
            await process.wait()

        senders = [asyncio.create_task(send(sender)) for sender in range(SENDERS)]
        reading = asyncio.create_task(read())
        async with asyncio.timeout(DEADLINE_S):
            await kill()
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        assert answered == sent == committed


async def test_a_sink_sends_again_what_was_not_confirmed_with_the_same_ids() -> None:
    async with gateway() as (_, address), receiving() as receiver:

        async def start() -> asyncio.subprocess.Process:
            arguments = ("--url", receiver.url, "--sink", "out", "--gateway", address)
            command = [sys.executable, "-m", "headrace.cli", "connector", "run", "http-sink", *arguments]
            return await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)

        receiver.hold = asyncio.Event()
        process, writer = await start(), Writer(address)
        first = writer.deliver(0, [b"a", b"b"])
        await until(lambda: receiver.bodies == [b"a"])
        process.kill()
        await process.wait()
        with pytest.raises(Exception, match="session"):
            await first
        receiver.hold.set()
        process = await start()
        await writer.deliver(0, [b"a", b"b"], attempt="b")
        assert receiver.bodies == [b"a", b"a", b"b"]
        assert receiver.keys() == ["query/0/0/0", "query/0/0/0", "query/0/0/1"]
        await writer.close()
        process.kill()
        await process.wait()

"""A receiver whose process may have few descriptors, and clients that take them all."""

import asyncio
import contextlib
import resource
import sys

import aiohttp
import pytest
from tests.connectors.programs import free_port, listening
from tests.connectors.query import querying
from tests.gateway.wire import DEADLINE_S
from tests.gateway.wire import serve as gateway

DESCRIPTORS = 256


@pytest.mark.behaviour("http", "more clients than the process has descriptors for", "keeps 64 for itself")
@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nHost: x\r\n"])
async def test_clients_that_take_all_descriptors_keep_nobody_away(sent):
    port = free_port()
    own = ["--source", "h", "--listen", f"127.0.0.1:{port}", "--answer", "received", "--head-seconds", "600"]
    async with gateway() as (_, address), querying(address, "h/*") as query, contextlib.AsyncExitStack() as stack:
        command = [sys.executable, "-m", "headrace.cli", "connector", "run", "http", *own, "--gateway", address]
        limited = ["bash", "-c", f'ulimit -n {DESCRIPTORS}; exec "$0" "$@"', *command]
        process = await asyncio.create_subprocess_exec(*limited)
        stack.push_async_callback(process.wait)
        stack.callback(process.kill)
        await listening(port)
        for _ in range(DESCRIPTORS + 50):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
            writer.write(sent)
        timeout = aiohttp.ClientTimeout(total=DEADLINE_S)
        url = f"http://127.0.0.1:{port}/"
        async with aiohttp.ClientSession(timeout=timeout) as client, client.post(url, data=b"ordinary") as response:
            assert response.status == 202
        assert await query.values("h/0", 1) == [b"ordinary"]
        await query.commit()
        assert process.returncode is None
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > DESCRIPTORS

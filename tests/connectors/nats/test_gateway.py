"""The NATS sources, whose gateway is killed and started again: it has forgotten all, and Spark's checkpoint has not."""

from contextlib import ExitStack

import pytest
from tests.connectors.nats.rig import Query, Running, numbers, until
from tests.gateway.processes import gateway_process


@pytest.mark.parametrize("connector", ["source", "consumer"])
async def test_a_gateway_that_is_killed_loses_nothing_and_repeats_nothing_that_is_committed(server, request, connector):
    stream = await server.stream()
    await server.numbers(f"{stream}.x", 3000)
    with ExitStack() as stack:
        gateway = stack.enter_context(gateway_process())
        running, before = Running(request.getfixturevalue(connector)(stream), gateway.address), Query(gateway.address)
        await before.attach()
        found = await before.batch(1000)
        await before.commit()
        if connector == "consumer":
            await until(lambda: _has_acknowledged(server, stream, len(found)))
        assert await before.poll(wait_ms=1000) or len(found) == 3000
        gateway.process.kill()
        gateway.wait()
        await before.close()
        stack.enter_context(gateway_process("--listen", gateway.address))
        after = Query(gateway.address)
        after.committed = before.committed
        await after.attach()
        found += await after.read(3000 - len(found))
        assert sorted(numbers(found)) == list(range(3000))
        await after.close()
        await running.close()


async def _has_acknowledged(server, stream: str, count: int) -> bool:
    info = await server.js.consumer_info(stream, "c")
    return info.ack_floor.stream_seq >= count

"""What docs/reference/connectors/rabbitmq.md shows works."""

import asyncio
from pathlib import Path

from tests.connectors.programs import line, page
from tests.connectors.rabbitmq.rig import DEADLINE_S, Query, values
from tests.gateway.sink_wire import Writer

SHOP, SERVICE = 0, 1


async def test_the_example(rabbit, rabbitmq, address: str, tmp_path: Path) -> None:
    instead = {
        "127.0.0.1:5672": f"{rabbitmq.host}:{rabbitmq.port}",
        "--source orders": "--source s",
        "--sink alerts": "--sink out",
    }
    reader, writer = Query(address), Writer(address)
    async with page("docs/reference/connectors/rabbitmq.md", tmp_path, instead) as shown:
        shop = await shown.program(SHOP)
        assert await asyncio.wait_for(shop.wait(), DEADLINE_S) == 0
        await shown.connector("rabbitmq", address)
        orders = await reader.read(3)
        assert values(orders) == [b"order 0", b"order 1", b"order 2"]
        assert len({order.message_id for order in orders}) == 3
        await shown.connector("rabbitmq-sink", address)
        service = await shown.program(SERVICE)
        for attempt, batch in (("a", 0), ("b", 0), ("a", 1)):
            await writer.deliver(batch, [b"alert %d" % batch], attempt=attempt)
        assert [await line(service), await line(service)] == ["alert 0", "alert 1"]
    for client in (reader, writer):
        await client.close()
    for queue in ("orders", "alerts"):
        rabbit.delete(queue)

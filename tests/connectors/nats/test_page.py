"""What docs/reference/connectors/nats.md shows works."""

from pathlib import Path

from tests.connectors.nats.rig import special
from tests.connectors.programs import line, page
from tests.connectors.query import querying
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import serve as gateway

SENDER = """\
import asyncio
import uuid

import nats


async def main():
    client = await nats.connect("nats://127.0.0.1:4222")
    stream = client.jetstream()
    await stream.add_stream(name="ORDERS", subjects=["orders.>"])
    await stream.add_stream(name="ALERTS", subjects=["alerts.>"])
    for number in range(3):
        await stream.publish("orders.eu", b"order %d" % number, headers={"Nats-Msg-Id": str(uuid.uuid4())})
    await client.close()


asyncio.run(main())
"""
TAKER = """\
import asyncio

import nats


async def main():
    client = await nats.connect("nats://127.0.0.1:4222")
    alerts = await client.jetstream().subscribe("alerts.>", ordered_consumer=True)
    async for message in alerts.messages:
        print(message.subject, message.data.decode(), flush=True)


asyncio.run(main())
"""


async def test_the_example_of_the_page(tmp_path: Path) -> None:
    with special(tmp_path, "") as where:
        # Rows of the test have no keys.
        instead = {"127.0.0.1:4222": where, "alerts.{key}": "alerts.eu", "--sink alerts": "--sink out"}
        async with gateway() as (_, address), querying(address, "orders/*") as query, page(PAGE, tmp_path, instead) as shown:
            assert await (await shown.other_side(SENDER)).wait() == 0
            await shown.connector("nats", address)
            orders = await query.batch("orders/ORDERS", 3)
            assert [order.value for order in orders] == [b"order 0", b"order 1", b"order 2"]
            assert {order.key for order in orders} == {b"orders.eu"}
            await shown.connector("nats-sink", address)
            writer = Writer(address)
            for attempt in "ab":
                await writer.deliver(0, [b"alert"], attempt=attempt)
            await writer.deliver(1, [b"next alert"])
            taker = await shown.other_side(TAKER)
            assert [await line(taker), await line(taker)] == ["alerts.eu alert", "alerts.eu next alert"]
            await writer.close()


PAGE = "docs/reference/connectors/nats.md"

"""What docs/reference/connectors/kafka.md shows works."""

import asyncio
from pathlib import Path

from tests.connectors.kafka.rig import DEADLINE, Query
from tests.connectors.programs import page
from tests.gateway.sink_wire import Writer

PAGE = "docs/reference/connectors/kafka.md"
SENDER = """\
from kafka import KafkaAdminClient, KafkaProducer

admin = KafkaAdminClient(bootstrap_servers="127.0.0.1:9092")
topics = {name: {"num_partitions": 2} for name in ("orders", "alerts")}
admin.create_topics(topics, wait_for_metadata=True)
admin.close()

producer = KafkaProducer(bootstrap_servers="127.0.0.1:9092")
for number in range(3):
    producer.send("orders", b"order %d" % number, key=b"ann")
producer.close()
"""
TAKER = """\
from kafka import KafkaConsumer

consumer = KafkaConsumer(
    "alerts",
    bootstrap_servers="127.0.0.1:9092",
    isolation_level="read_committed",
    auto_offset_reset="earliest",
    group_id="alerting",
)
for alert in consumer:
    print(alert.value.decode(), flush=True)
"""


async def test_the_example_of_the_page(log, address: str, query, tmp_path: Path) -> None:
    instead = {"127.0.0.1:9092": log.servers, "--source orders": "--source s", "--sink alerts": "--sink out"}
    one: Query = query()
    await one.attach()
    async with page(PAGE, tmp_path, instead) as shown:
        sender = await shown.other_side(SENDER)
        assert await asyncio.wait_for(sender.wait(), DEADLINE) == 0
        await shown.connector("kafka", address)
        orders = await one.read(3)
        assert [(order.key, order.value) for order in orders] == [(b"ann", b"order %d" % number) for number in range(3)]
        await shown.connector("kafka-sink", address)
        await attached(one)
        writer = Writer(address)
        await writer.report_commits()
        for batch, alert in enumerate([b"alert", b"next alert"]):
            await writer.deliver(batch, [alert])
            await writer.vote(batch)
        taker = await shown.other_side(TAKER)
        assert {await printed(taker), await printed(taker)} == {"alert", "next alert"}
        await writer.close()


async def attached(query: Query) -> None:
    """Waits until a sink is there."""
    async with asyncio.timeout(DEADLINE):
        while not any(sink.instances for sink in (await query.engine.status()).sinks):  # noqa: ASYNC110 - the gateway tells nobody
            await asyncio.sleep(0.05)


async def printed(process: asyncio.subprocess.Process) -> str:
    """The next line that a program prints."""
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), DEADLINE)).decode().rstrip("\n")

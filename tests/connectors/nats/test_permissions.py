"""What docs/reference/connectors/nats.md says that users need is enough, and each sees no more than that."""

import json
import logging
import re
from pathlib import Path

from tests.connectors.nats.rig import numbers, special, until
from tests.connectors.nats.rig import server as connected

from headrace.connectors.nats import (
    NatsConsumerParameters,
    NatsConsumerSource,
    NatsParameters,
    NatsSink,
    NatsSinkParameters,
    NatsSource,
)
from headrace.sdk import WRITTEN, Message, Refused, Rows

PAGE = Path(__file__).parents[3] / "docs/reference/connectors/nats.md"
USERS = ("reader", "worker", "writer")


def configuration() -> str:
    """Users who may do what the page says, in the order of its sections, and one who may do all."""
    paragraphs = (paragraph.replace("\n", " ") for paragraph in PAGE.read_text().split("\n\n"))
    told = [paragraph for paragraph in paragraphs if paragraph.startswith("The user needs permission to publish to ")]
    users = ['{ user: "all", password: "p" }']
    for user, sentence in zip(USERS, told, strict=True):
        publish, subscribe = (json.dumps(re.findall("`([^`]+)`", part)) for part in sentence.split("and to subscribe to"))
        allowed = f"publish: {{ allow: {publish} }}, subscribe: {{ allow: {subscribe} }}"
        users.append(f'{{ user: "{user}", password: "p", permissions: {{ {allowed} }} }}')
    return f"authorization {{ users: [ {', '.join(users)} ] }}"


async def test_the_permissions_that_the_page_names_are_enough(query, run, tmp_path, caplog):
    with special(tmp_path, configuration()) as where:
        way = {"servers": f"nats://{where}", "password": "p"}
        async with connected(f"nats://all:p@{where}") as other:
            await other.stream(name="ORDERS", subjects=["orders.>"])
            await other.stream(name="JOBS", subjects=["jobs.>"], retention="workqueue")
            await other.stream(name="ALERTS", subjects=["alerts.eu"])
            await other.publish("orders.eu", b"1")
            await other.publish("jobs.x", b"2")
            with caplog.at_level(logging.WARNING):
                orders = run(NatsSource(NatsParameters(source="s", stream="ORDERS", user="reader", **way)))
                jobs = NatsConsumerParameters(source="s", stream="JOBS", consumer="headrace", user="worker", **way)
                run(NatsConsumerSource(jobs))
                reading = await query()
                assert sorted(numbers(await reading.read(2))) == [1, 2]
                await reading.commit()
                await until(lambda: _is_empty(other, "JOBS"))
                await orders.stop()
                await until(lambda: _has_no_consumer(other, "ORDERS"))
                sink = NatsSink(NatsSinkParameters(sink="out", subject="alerts.{key}", user="writer", **way))
                outcomes = await sink.write(Rows.of(Message(b"a", b"eu"), Message(b"b", b"us")))
                await sink.close()
    assert outcomes == [WRITTEN, Refused("no stream stores the subject alerts.us")]
    assert "permissions violation" not in caplog.text


async def _is_empty(server, stream: str) -> bool:
    return (await server.js.stream_info(stream)).state.messages == 0


async def _has_no_consumer(server, stream: str) -> bool:
    return not await server.js.consumers_info(stream)

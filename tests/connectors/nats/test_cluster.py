"""Three nodes of JetStream: the leaders of a stream and of its consumers move, and nothing is lost or comes twice."""

import asyncio
from typing import Any

import pytest
from scripts.brokers import Cluster, NatsNode
from tests.connectors.nats.rig import DEADLINE, Server, numbers, server, until

from headrace.connectors.nats import (
    NatsConsumerParameters,
    NatsConsumerSource,
    NatsParameters,
    NatsSink,
    NatsSinkParameters,
    NatsSource,
)
from headrace.sdk import Message, Rows

PER_LEADER = 100
ATTEMPT_S = 5.0
"""For how long a call is tried before it is tried again."""


def connection(cluster: Cluster[NatsNode]) -> dict[str, Any]:
    node = cluster.nodes[1]
    servers = [f"nats://{node.host}:{node.port}" for node in cluster.nodes.values()]
    return {"servers": servers, "user": node.user, "password": node.password}


async def leader_of(server: Server, stream: str) -> int:
    """Which node leads a stream."""
    found = 0

    async def known() -> bool:
        nonlocal found
        cluster = (await server.js.stream_info(stream)).cluster
        found = int(cluster.leader[1:]) if cluster and cluster.leader else 0
        return found > 0

    await until(lambda: _ignoring(known))
    return found


async def _ignoring(known: Any) -> bool:
    """Whether something holds; the nodes may not have agreed yet."""
    try:
        # Nobody answers a request that came before the nodes had a leader.
        async with asyncio.timeout(ATTEMPT_S):
            return bool(await known())
    except Exception:
        return False


async def replicated(server: Server) -> str:
    """A stream of three replicas; the cluster may have just begun."""
    name = ""

    async def made() -> bool:
        nonlocal name
        name = await server.stream(num_replicas=3)
        return True

    await until(lambda: _ignoring(made))
    return name


async def publish(server: Server, stream: str, first: int) -> None:
    """Stores numbers, each once: one that was not confirmed may be there already."""
    for number in range(first, first + PER_LEADER):

        async def stored(number: int = number) -> bool:
            await server.js.publish(f"{stream}.x", b"%d" % number, timeout=1, headers={"Nats-Msg-Id": f"{stream}-{number}"})
            return True

        await until(lambda stored=stored: _ignoring(stored))


@pytest.mark.parametrize("kind", ["nats", "nats-consumer"])
async def test_sources_follow_the_leader(nats_cluster, query, run, kind):
    own = connection(nats_cluster)
    async with server(own["servers"], user=own["user"], password=own["password"]) as cluster:
        stream = await replicated(cluster)
        if kind == "nats":
            source: Any = NatsSource(NatsParameters(source="s", stream=stream, **own))
        else:
            source = NatsConsumerSource(NatsConsumerParameters(source="s", stream=stream, consumer="c", create=True, **own))
        run(source)
        reader, found = await query(), []
        await publish(cluster, stream, 0)
        found += await reader.read(PER_LEADER // 2)
        # It may move in good order, or because its node is no more.
        await cluster.client.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", timeout=DEADLINE)
        await publish(cluster, stream, PER_LEADER)
        while len({message.message_id for message in found}) < 2 * PER_LEADER:
            found += await reader.read(1)
        killed = await leader_of(cluster, stream)
        nats_cluster.nodes[killed].kill()
        await publish(cluster, stream, 2 * PER_LEADER)
        while len({message.message_id for message in found}) < 3 * PER_LEADER:
            found += await reader.read(1)
        assert await leader_of(cluster, stream) != killed
    if kind == "nats":
        assert sorted(numbers(found)) == list(range(3 * PER_LEADER))
    # A consumer gives again what was not acknowledged; each message has an id of its own.
    assert {message.message_id for message in found} == {f"{stream}-{number}" for number in range(3 * PER_LEADER)}


async def test_the_sink_follows_the_leader(nats_cluster):
    own = connection(nats_cluster)
    async with server(own["servers"], user=own["user"], password=own["password"]) as cluster:
        stream = await replicated(cluster)
        sink = NatsSink(NatsSinkParameters(sink="out", subject=f"{stream}.x", **own))
        values = [b"%d" % number for number in range(2 * PER_LEADER)]
        messages = [Message(value, message_id=f"{stream}-{value.decode()}") for value in values]
        assert await sink.write(Rows.of(*messages[:PER_LEADER])) is None
        nats_cluster.nodes[await leader_of(cluster, stream)].kill()
        assert await sink.write(Rows.of(*messages[PER_LEADER:])) is None
        await sink.close()
        there: list[int] = []

        async def read() -> bool:
            there[:] = sorted(int(message.data) for message in await cluster.stored(stream))
            return True

        # The node that was killed may have led the cluster, too, without which nobody gets a consumer.
        await until(lambda: _ignoring(read))
        assert there == list(range(2 * PER_LEADER))

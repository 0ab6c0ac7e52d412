"""Three nodes of Kafka: the leaders of partitions and of transactions move, and nothing is lost or comes twice."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from scripts.brokers import Cluster, KafkaNode
from tests.connectors.kafka.rig import CLIENTS, Log, numbered, numbers, reading, sink_of, wait, write
from tests.selection.turns import in_turns

PER_LEADER = 500


@pytest.fixture(scope="module")
def replicated(kafka_cluster: Cluster[KafkaNode]) -> Iterator[Log]:
    """Actions of others on the cluster."""
    log = Log(",".join(kafka_cluster.urls))
    yield log
    log.close()


def leader_of(log: Log, topic: str) -> int:
    """Which node leads a topic's only partition; 0 while nobody does."""
    (partition,) = log.ask(lambda admin: admin.describe_topics([topic]))[0]["partitions"]
    return max(0, int(partition["leader_id"]))


@pytest.mark.parametrize("each_client", in_turns(CLIENTS, of=2), indirect=True)
async def test_source_and_sink_follow_the_leaders(kafka_cluster, replicated, address, query, eager, each_client):
    topic, results = replicated.create(), replicated.create()
    servers = kafka_cluster.urls
    reader = query()
    sink = sink_of(bootstrap_servers=servers, topic=results, sink=results)
    with closing(sink):
        async with reading(address, bootstrap_servers=servers, topics=topic, start="latest", group=topic):
            await reader.attach()
            await reader.begin(f"s/{topic}-0")
            replicated.append(topic, numbered(0, PER_LEADER))
            await reader.read(PER_LEADER // 2)
            write(sink, 0, numbered(0, PER_LEADER))
            killed = leader_of(replicated, topic)
            kafka_cluster.nodes[killed].kill()
            replicated.append(topic, numbered(PER_LEADER, PER_LEADER))
            messages = await reader.read(2 * PER_LEADER)
            write(sink, 1, numbered(PER_LEADER, PER_LEADER))
            wait(lambda: leader_of(replicated, topic) not in (0, killed))
            # The one that leads the results, and perhaps the transactions.
            kafka_cluster.nodes[killed].start()
            kafka_cluster.nodes[leader_of(replicated, results)].kill()
            write(sink, 2, numbered(2 * PER_LEADER, PER_LEADER))
            replicated.append(topic, numbered(2 * PER_LEADER, PER_LEADER))
            messages = await reader.read(3 * PER_LEADER)
    assert numbers(messages) == list(range(3 * PER_LEADER))
    assert replicated.values(results) == numbered(0, 3 * PER_LEADER)

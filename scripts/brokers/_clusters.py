"""Clusters of three small nodes on loopback, for tests in which leaders change: each node is a broker."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from scripts.brokers._broker import BrokerFailed
from scripts.brokers._ivy import SMALL_JVM
from scripts.brokers._kafka import CLUSTER_ID, Kafka, java_command
from scripts.brokers._nats import Nats
from scripts.brokers._processes import Command

NODES = 3
_KAFKA = """\
process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1000
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
listeners=PLAIN://{host}:{client},CONTROLLER://{host}:{controller}
listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
num.network.threads=1
num.io.threads=2
log.cleaner.dedupe.buffer.size=8388608
log.cleaner.backoff.ms=500
default.replication.factor=3
min.insync.replicas=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=3
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=250
"""


class NatsNode(Nats):
    """A node of a JetStream cluster."""

    default_ports = {"client": None, "monitor": None, "routes": None}  # noqa: RUF012
    number: int
    peers: Callable[[], Sequence["NatsNode"]]

    def _prepare(self) -> None:
        super()._prepare()
        routes = [f"nats-route://{node.host}:{node.ports['routes']}" for node in self.peers()]
        with (self.folder / "nats.conf").open("a") as config:
            config.write(
                f"""
            server_name: "n{self.number}"
            cluster: {{ name: "headrace", listen: "{self.host}:{self.ports["routes"]}", routes: {routes} }}
            """.replace("'", '"')
            )


class KafkaNode(Kafka):
    """A node of a Kafka cluster, broker and controller."""

    default_ports = {"client": None, "controller": None}  # noqa: RUF012
    number: int
    peers: Callable[[], Sequence["KafkaNode"]]

    def _prepare(self) -> None:
        settings = self.folder / "server.properties"
        voters = ",".join(f"{node.number}@{node.host}:{node.ports['controller']}" for node in self.peers())
        own = {"number": self.number, "voters": voters, "host": self.host, "folder": self.folder}
        settings.write_text(_KAFKA.format(**own, **self.ports))
        if not (self.folder / "data" / "meta.properties").exists():
            command = [*java_command("kafka.tools.StorageTool", *SMALL_JVM), "format", "--cluster-id", CLUSTER_ID]
            done = subprocess.run([*command, "--config", str(settings)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise BrokerFailed(f"kafka: {self.folder}/data cannot be made:\n{done.stdout}{done.stderr}")

    def _commands(self) -> Sequence[Command]:
        jvm = [*SMALL_JVM, f"-Djava.io.tmpdir={self.folder}"]
        return [Command([*java_command("kafka.Kafka", *jvm), str(self.folder / "server.properties")])]


N = TypeVar("N", NatsNode, KafkaNode)


class Cluster(Generic[N]):
    """Three nodes.

    Attributes:
        nodes: The nodes by number, from 1.
    """

    def __init__(self, kind: type[N], folder: Path) -> None:
        """Starts nothing. The folders of the nodes are in `folder`, next to the folders of other brokers."""
        self.nodes: Mapping[int, N] = {number: kind(folder / f"{kind.name}-{number}") for number in range(1, NODES + 1)}
        for number, node in self.nodes.items():
            node.number = number
            node.peers = lambda: list(self.nodes.values())

    @property
    def urls(self) -> list[str]:
        """The URL of each node."""
        return [node.url for node in self.nodes.values()]

    def start(self) -> None:
        """Starts all nodes at the same time, since a single one does not become ready."""
        for node in self.nodes.values():
            node.take_ports([port for other in self.nodes.values() for port in other.ports.values()])
        with ThreadPoolExecutor(NODES) as starters:
            for started in [starters.submit(node.start) for node in self.nodes.values()]:
                started.result()

    def wait_for(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Waits until the nodes agree on something. Errors of `condition` mean that they do not agree yet.

        Raises:
            BrokerFailed: They did not agree in time.
        """
        deadline = time.monotonic() + seconds
        while True:
            with suppress(Exception):
                if condition():
                    return
            if time.monotonic() > deadline:
                raise BrokerFailed("the nodes of a cluster do not come to an agreement")
            time.sleep(0.05)

"""Kafka in KRaft mode: one node that is broker and controller, from the jars on Maven Central."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from scripts.brokers._broker import PROXY, Broker, BrokerFailed, exchange
from scripts.brokers._ivy import are_fetched, fetch, java
from scripts.brokers._processes import Command

_ROOT = Path(__file__).parents[2]
_JARS = _ROOT / ".build" / "brokers" / "kafka-jars"
_IVY_FILE = Path(__file__).with_name("kafka.ivy.xml")
CLUSTER_ID = "headrace-brokers-00001"
# Brokers of tests are started often, and do little: the start takes half the processor time.
_QUICK_START = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
# ApiVersions, version 0, correlation id 1, no client id.
_API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
listeners=PLAIN://{host}:{client},SASL://{host}:{sasl},PROXIED://{host}:{proxied},CONTROLLER://{host}:{controller}
advertised.listeners=PLAIN://{host}:{client},SASL://{host}:{sasl},PROXIED://{host}:{proxy}
listener.security.protocol.map=PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}";
log.dirs={folder}/data
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=8388608
log.cleaner.backoff.ms=500
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=250
"""


class Kafka(Broker):
    """A Kafka broker with a plain listener, one with SASL/PLAIN, and one whose advertised address is a proxy."""

    name = "kafka"
    default_ports = {"client": 9092, "sasl": 9094, "controller": None, "proxied": None, PROXY: None}  # noqa: RUF012

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the jars are there, in the required version."""
        return are_fetched(_IVY_FILE, _JARS)

    @classmethod
    def install(cls) -> None:
        """Downloads the jars."""
        fetch(cls.name, _IVY_FILE, _JARS)

    @property
    def sasl_port(self) -> int:
        """The port of the listener that requires SASL/PLAIN with `user` and `password`; `port` requires no login."""
        return self.ports["sasl"]

    @property
    def proxied(self) -> tuple[int, int | None]:
        """The port of the listener whose advertised address is a proxy, and the port of that proxy."""
        return self.ports["proxied"], self.ports[PROXY]

    def url_at(self, port: int) -> str:
        """Returns a bootstrap address."""
        return f"{self.host}:{port}"

    def _prepare(self) -> None:
        settings = self.folder / "server.properties"
        values = {"host": self.host, "user": self.user, "password": self.password, "folder": self.folder}
        settings.write_text(_SETTINGS.format(**values, **self.ports))
        if not (self.folder / "data" / "meta.properties").exists():
            command = [
                *java_command("kafka.tools.StorageTool", *_QUICK_START),
                "format",
                "--cluster-id",
                CLUSTER_ID,
                "--config",
                str(settings),
            ]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode:
                raise BrokerFailed(f"kafka: {self.folder}/data cannot be made:\n{done.stdout}")

    def _commands(self) -> Sequence[Command]:
        # Where it unpacks libraries, which it leaves behind if it is killed.
        options = [f"-Djava.io.tmpdir={self.folder}", *([] if self._usual_ports else _QUICK_START)]
        return [Command([*java_command("kafka.Kafka", *options), str(self.folder / "server.properties")])]

    def _answers(self) -> bool:
        return len(exchange(self.port, _API_VERSIONS, 8)) == 8


def java_command(main: str, *options: str) -> list[str]:
    """Returns the command that runs one of Kafka's programs."""
    logging = ["-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [java(), "-Xmx512m", *options, *logging, "-cp", f"{_JARS}/*", main]

"""Fixtures: the real brokers, each started where a test first asks for it, and a network in front of them that fails.

`rabbitmq`, `nats`, `kafka` and `postgresql` are `scripts.brokers.Broker`: `url`, `host`, `port`, `user`, `password`, and
`kill()`, `start()`, `stop()`, `restart()`, which keep port and data. They are shared by all tests of a session: use names of your
own for queues, topics and tables. One that a test has left dead is started again before the next test. `nats_cluster` and
`kafka_cluster` have three nodes, of which one may be killed, and stop after each module. `hdfs` and `s3` store checkpoints,
and `yarn` runs applications.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from scripts.brokers import (
    S3,
    Broker,
    Catalog,
    Cluster,
    Hdfs,
    Kafka,
    KafkaNode,
    Nats,
    NatsNode,
    PostgreSQL,
    RabbitMQ,
    RabbitMQ4,
    Registry,
    Yarn,
)
from tests.absent import absent
from tests.brokers.network import FaultyNetwork

B = TypeVar("B", bound=Broker)
N = TypeVar("N", NatsNode, KafkaNode)
_GUARD_S = 120.0
_started = pytest.StashKey[list[Broker]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_started] = []


def pytest_runtest_setup(item: pytest.Item) -> None:
    for broker in item.config.stash[_started]:
        broker.start()


@pytest.fixture(scope="session")
def brokers_folder() -> Iterator[Path]:
    """Where the brokers of this session are. Their processes end with this one, even if it is killed."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-brokers-"))
    # PostgreSQL runs as a user of its own where this is root.
    folder.chmod(0o711)
    command = [sys.executable, "-m", "scripts.brokers._guard", str(folder)]
    root = Path(__file__).parents[2]
    guard = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, start_new_session=True)
    yield folder
    assert guard.stdin is not None
    guard.stdin.close()
    guard.wait(_GUARD_S)


@pytest.fixture(scope="session")
def rabbitmq(brokers_folder: Path, pytestconfig: pytest.Config) -> RabbitMQ:
    """RabbitMQ; `ctl(...)` runs rabbitmqctl. Version 4 where HEADRACE_RABBITMQ is 4."""
    kind = RabbitMQ4 if os.environ.get("HEADRACE_RABBITMQ") == "4" else RabbitMQ
    return start_for_tests(kind, brokers_folder, pytestconfig)


@pytest.fixture(scope="session")
def rabbitmq4(brokers_folder: Path, pytestconfig: pytest.Config) -> RabbitMQ4:
    """RabbitMQ 4, where it is installed: run `make brokers ARGS=rabbitmq4`, as root."""
    return start_for_tests(RabbitMQ4, brokers_folder, pytestconfig)


@pytest.fixture(scope="session")
def nats(brokers_folder: Path, pytestconfig: pytest.Config) -> Nats:
    """NATS with JetStream."""
    return start_for_tests(Nats, brokers_folder, pytestconfig)


@pytest.fixture(scope="session")
def kafka(brokers_folder: Path, pytestconfig: pytest.Config) -> Kafka:
    """Kafka; `url` is the bootstrap address, `sasl_port` wants SASL/PLAIN. Topics have to be created."""
    return start_for_tests(Kafka, brokers_folder, pytestconfig)


@pytest.fixture(scope="session")
def postgresql(brokers_folder: Path, pytestconfig: pytest.Config) -> PostgreSQL:
    """PostgreSQL, whose user may do everything."""
    return start_for_tests(PostgreSQL, brokers_folder, pytestconfig)


@pytest.fixture(scope="session")
def hdfs(brokers_folder: Path, pytestconfig: pytest.Config) -> Hdfs:
    """HDFS; `url` is its root folder."""
    return start_for_tests(Hdfs, brokers_folder, pytestconfig)


@pytest.fixture(scope="session")
def s3(brokers_folder: Path, pytestconfig: pytest.Config) -> S3:
    """An S3 server with one bucket, `bucket`; `url` is its endpoint. Its content is gone once it ends."""
    return start_for_tests(S3, brokers_folder, pytestconfig)


@pytest.fixture(scope="session")
def registry(brokers_folder: Path, pytestconfig: pytest.Config) -> Registry:
    """A schema registry; `url` is the address of Confluent's API."""
    return start_for_tests(Registry, brokers_folder, pytestconfig)


@pytest.fixture(scope="session")
def catalog(brokers_folder: Path, pytestconfig: pytest.Config) -> Catalog:
    """A REST catalog of Iceberg."""
    return start_for_tests(Catalog, brokers_folder, pytestconfig)


@pytest.fixture(scope="session")
def yarn(brokers_folder: Path, pytestconfig: pytest.Config) -> Yarn:
    """YARN with one node; `configuration` is the folder of its settings."""
    return start_for_tests(Yarn, brokers_folder, pytestconfig)


@pytest.fixture(scope="module")
def nats_cluster(brokers_folder: Path, pytestconfig: pytest.Config) -> Iterator[Cluster[NatsNode]]:
    """JetStream on three nodes."""
    with started_cluster(NatsNode, brokers_folder, pytestconfig) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafka_cluster(brokers_folder: Path, pytestconfig: pytest.Config) -> Iterator[Cluster[KafkaNode]]:
    """Kafka on three nodes, whose topics have three replicas."""
    with started_cluster(KafkaNode, brokers_folder, pytestconfig) as cluster:
        yield cluster


@pytest.fixture
def network() -> Iterator[Callable[[Broker | int], FaultyNetwork]]:
    """Puts a network that can fail in front of a broker, or of a port of this machine.

    `broker.url_at(network(broker).port)` is the way through it. A broker may have one such network in a test.
    """
    with ExitStack() as stack:

        def make(target: Broker | int) -> FaultyNetwork:
            port, listen = target.proxied if isinstance(target, Broker) else (target, None)
            return stack.enter_context(FaultyNetwork(port, listen))

        yield make


def start_for_tests(kind: type[B], folder: Path, config: pytest.Config) -> B:
    """Starts a broker for this session, or says why not."""
    _require(kind)
    broker = kind(folder / kind.name)
    broker.start()
    config.stash[_started].append(broker)
    return broker


@contextmanager
def started_cluster(kind: type[N], folder: Path, config: pytest.Config) -> Iterator[Cluster[N]]:
    """Three nodes, which take processor time as long as they run, for the tests of one module; or says why not."""
    _require(kind)
    cluster = Cluster(kind, folder)
    cluster.start()
    known = config.stash[_started]
    nodes = [*cluster.nodes.values()]
    known.extend(nodes)
    yield cluster
    for node in nodes:
        known.remove(node)
        node.kill()


def _require(kind: type[Broker]) -> None:
    """Skips a test whose broker is not installed, except with CI=true."""
    if not kind.is_installed():
        missing = f"{kind.name} is not installed; run: make brokers ARGS={kind.name}"
        absent(missing)

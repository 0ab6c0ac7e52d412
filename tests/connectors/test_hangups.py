"""Neither SIGHUP nor replaced certificates end a bundled connector: it continues, and with TLS, it uses the new files."""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from signal import SIGTERM

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate
from scripts.brokers import Kafka, Nats, PostgreSQL, RabbitMQ
from tests.absent import absent
from tests.connectors.http.receiver import receiving
from tests.connectors.kafka.rig import Log
from tests.connectors.nats.rig import server as nats_client
from tests.connectors.nats.rig import unused
from tests.connectors.postgresql.rig import in_database, temporary_schema
from tests.connectors.programs import free_port, listening
from tests.connectors.query import querying
from tests.connectors.rabbitmq.rig import Rabbit
from tests.connectors.tls_front import TlsFront, ssl_request
from tests.fake_gateway.server import until
from tests.fake_gateway.sinks import frame_of
from tests.gateway.certificates import Authority
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import DEADLINE_S
from tests.gateway.wire import serve as gateway
from tests.sdk.processes import Connector, connector

from headrace.connectors import CONNECTORS, declared

Work = Callable[[int], Coroutine[None, None, None]]


@dataclass
class Certificates:
    """The TLS files of a connector, which are replaced while it runs."""

    folder: Path
    authority: Authority = field(init=False)
    """Who signs them; nobody else is trusted."""
    presented: bytes = field(init=False)
    """The connector's certificate, in DER."""

    def __post_init__(self) -> None:
        self.authority = Authority(self.folder, "first")
        self.install()

    def renew(self) -> None:
        """Founds another authority, whose files are not installed yet."""
        self.authority = Authority(self.folder, "second")

    def install(self) -> None:
        """Installs the files of the authority."""
        own = self.authority.issue("own")
        for path, new in ((self.ca, self.authority.cert), (self.certificate, own.cert), (self.key, own.key)):
            fresh = path.with_suffix(".fresh")
            fresh.write_bytes(new.read_bytes())
            fresh.chmod(0o600)
            fresh.replace(path)
        self.presented = load_pem_x509_certificate(own.cert.read_bytes()).public_bytes(Encoding.DER)

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        return self.folder / "own.pem"

    @property
    def key(self) -> Path:
        return self.folder / "own.key"

    @property
    def parameters(self) -> dict[str, object]:
        """The files, by the usual names of parameters."""
        return {"tls_ca": str(self.ca), "tls_certificate": str(self.certificate), "tls_key": str(self.key)}


@dataclass(frozen=True)
class System:
    """The system of a connector.

    Attributes:
        parameters: The connector's parameters for it.
        stream: The stream of a source.
        put: Has a source something more to read.
        loses: Whether what is put before the source listens is lost.
        front: Where a client of TLS connects.
    """

    parameters: Mapping[str, object]
    stream: str = ""
    put: Callable[[bytes], Awaitable[object]] | None = None
    loses: bool = False
    front: TlsFront | None = None


# Systems without a broker


@asynccontextmanager
async def files_to_read(certificates: Certificates, _: str) -> AsyncIterator[System]:
    log = certificates.folder / "in.txt"

    async def put(value: bytes) -> None:
        with log.open("ab") as out:
            out.write(value + b"\n")

    yield System({"path": str(certificates.folder / "*.txt")}, "s/in.txt", put)


@asynccontextmanager
async def a_folder_to_write(certificates: Certificates, _: str) -> AsyncIterator[System]:
    yield System({"path": str(certificates.folder / "out")})


@asynccontextmanager
async def standard_output(_: Certificates, __: str) -> AsyncIterator[System]:
    yield System({})


@asynccontextmanager
async def clients(certificates: Certificates, name: str) -> AsyncIterator[System]:
    """Those of `http` and `tcp`, which trust one authority only."""
    port = free_port()

    async def put(value: bytes) -> None:
        await listening(port)
        context = ssl.create_default_context(cafile=certificates.authority.cert)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        assert writer.get_extra_info("ssl_object").getpeercert(binary_form=True) == certificates.presented
        length = len(value)
        if name == "tcp":
            writer.write(length.to_bytes(4) + value)
            await writer.drain()
        else:
            writer.write(b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (length, value))
            assert b" 202 " in await reader.readline()
        writer.close()

    own = certificates.parameters
    told = {"listen": f"127.0.0.1:{port}", "tls_certificate": own["tls_certificate"], "tls_key": own["tls_key"]}
    yield System(told if name == "tcp" else {**told, "answer": "received"}, "s/0", put)


@asynccontextmanager
async def a_receiver(certificates: Certificates, _: str) -> AsyncIterator[System]:
    async with receiving() as receiver:
        port = int(receiver.url.rpartition(":")[2].partition("/")[0])
        async with TlsFront(port, certificates.authority, anonymous=True) as front:
            yield System({"url": f"https://{front.address}/in", "tls_ca": str(certificates.ca)}, front=front)


# Brokers


@asynccontextmanager
async def kafka(certificates: Certificates, name: str, broker: Kafka) -> AsyncIterator[System]:
    inner, outer = broker.proxied
    with closing(Log(broker.url)) as log:
        topic = await asyncio.to_thread(log.create)
        async with TlsFront(inner, certificates.authority, port=outer) as front:
            told = {"bootstrap_servers": front.address, "tls": True, **certificates.parameters}
            # Only ids of this topic's transactions count.
            own = {"topic": topic, "state_topic": f"{topic}.ids", "transactional_id": topic}
            told |= {"topics": topic} if name == "kafka" else own
            yield System(told, f"s/{topic}-0", lambda value: asyncio.to_thread(log.append, topic, [value]), front=front)


@asynccontextmanager
async def nats(certificates: Certificates, name: str, broker: Nats) -> AsyncIterator[System]:
    async with nats_client(broker.url) as client, TlsFront(broker.port, certificates.authority) as front:
        stream = await client.stream()
        told = {"servers": f"tls://{front.address}", "tls_first": True, **certificates.parameters}
        told |= {"user": broker.user, "password": broker.password}
        told |= {
            "nats": {"stream": stream},
            "nats-consumer": {"stream": stream, "consumer": "c"},
            "nats-core": {"subjects": f"{stream}.x"},
            "nats-sink": {"subject": f"{stream}.x"},
        }[name]
        loses = name == "nats-core"
        put = lambda value: client.publish(f"{stream}.x", value)  # noqa: E731
        yield System(told, "s/0" if loses else f"s/{stream}", put, loses, front)


@asynccontextmanager
async def postgresql(certificates: Certificates, name: str, broker: PostgreSQL) -> AsyncIterator[System]:
    with temporary_schema(broker.url, unused("hangups").replace("-", "_")) as schema:
        table = f"{schema}.t"
        keyed = name == "postgresql-upsert"
        own = "k text PRIMARY KEY" if keyed else "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
        in_database(broker.url, f"CREATE TABLE {table} ({own}, value bytea)")
        async with TlsFront(broker.port, certificates.authority, before=ssl_request) as front:
            files = {"sslrootcert": certificates.ca, "sslcert": certificates.certificate, "sslkey": certificates.key}
            options = "&".join(f"{option}={path}" for option, path in files.items())
            told = {"url": f"{broker.url_at(front.port)}?sslmode=verify-full&{options}", "table": table, "value_column": "value"}
            if keyed:
                told["key_columns"] = "k"

            async def put(value: bytes) -> None:
                await asyncio.to_thread(in_database, broker.url, f"INSERT INTO {table} (value) VALUES ('{value.decode()}')")

            yield System(told, "s/0", put, front=front)


@asynccontextmanager
async def rabbitmq(certificates: Certificates, name: str, broker: RabbitMQ) -> AsyncIterator[System]:
    with closing(Rabbit(broker)) as rabbit:
        queue = await asyncio.to_thread(rabbit.declare, "stream" if name == "rabbitmq-stream" else "classic")
        async with TlsFront(broker.port, certificates.authority) as front:
            url = broker.url_at(front.port).replace("amqp:", "amqps:")
            told = {"url": url, "routing_key" if name == "rabbitmq-sink" else "queue": queue, **certificates.parameters}
            yield System(told, f"s/{queue}", lambda value: asyncio.to_thread(rabbit.publish, queue, [value]), front=front)


SYSTEMS: dict[str, tuple[str | None, Callable[..., AbstractAsyncContextManager[System]]]] = {
    "file": (None, files_to_read),
    "file-sink": (None, a_folder_to_write),
    "http": (None, clients),
    "http-sink": (None, a_receiver),
    "kafka": ("kafka", kafka),
    "kafka-sink": ("kafka", kafka),
    "nats": ("nats", nats),
    "nats-consumer": ("nats", nats),
    "nats-core": ("nats", nats),
    "nats-sink": ("nats", nats),
    "postgresql": ("postgresql", postgresql),
    "postgresql-outbox": ("postgresql", postgresql),
    "postgresql-sink": ("postgresql", postgresql),
    "postgresql-upsert": ("postgresql", postgresql),
    "rabbitmq": ("rabbitmq", rabbitmq),
    "rabbitmq-sink": ("rabbitmq", rabbitmq),
    "rabbitmq-stream": ("rabbitmq", rabbitmq),
    "stdout-sink": (None, standard_output),
    "tcp": (None, clients),
}
"""The broker and the system of each connector."""
CASES = [(known.name, "") for known in CONNECTORS] + [("kafka", "librdkafka"), ("kafka-sink", "librdkafka")]
CLIENTS_OF_TLS = [(name, client) for name, client in CASES if SYSTEMS[name][0] is not None or name == "http-sink"]


def named(case: tuple[str, str]) -> str:
    return "-".join(filter(None, case))


@pytest.fixture(params=CASES, ids=named)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> "Case":
    name, client = request.param
    if client and find_spec("confluent_kafka") is None:
        absent("confluent-kafka is not installed; run: make setup-dev")
    assert name in SYSTEMS, f"{name} is a new connector: add its system"
    broker, attach = SYSTEMS[name]
    certificates = Certificates(tmp_path)
    own = () if broker is None else (request.getfixturevalue(broker),)
    more = {"client": client} if client else {}
    return Case(name, certificates, attach(certificates, name, *own), more)


@dataclass(frozen=True)
class Case:
    """A connector that runs as users run it."""

    name: str
    certificates: Certificates
    system: AbstractAsyncContextManager[System]
    more: Mapping[str, object]

    @property
    def kind(self) -> str:
        (known,) = (known for known in CONNECTORS if known.name == self.name)
        return known.kind

    def command(self, parameters: Mapping[str, object]) -> list[str]:
        """How it is run."""
        path = self.certificates.folder / "connector.toml"
        given = {"connector": self.name, self.kind: "s", **parameters, **self.more}
        path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items()))
        return [sys.executable, "-m", "headrace.cli", "connector", "run", "--verbose", "-c", str(path)]

    @asynccontextmanager
    async def working(self, system: System, address: str) -> AsyncIterator[Work]:
        """Has it read or write one message more, each with its number."""
        if self.kind == "sink":
            async with writing(address) as work:
                yield work
        else:
            async with reading(system, address) as work:
                yield work


@asynccontextmanager
async def reading(system: System, address: str) -> AsyncIterator[Work]:
    """A query that reads until it has found a message, and commits it."""
    async with querying(address, "s/*") as query:

        async def work(number: int) -> None:
            assert system.put is not None
            value, found = b"%d" % number, list[bytes | None]()
            await system.put(value)
            again = asyncio.create_task(put_again(value)) if system.loses else None
            try:
                while value not in found:
                    found = await query.values(system.stream, 1)
                    await query.commit()
            finally:
                if again is not None:
                    again.cancel()
                    await asyncio.wait({again})

        async def put_again(value: bytes) -> None:
            assert system.put is not None
            while True:
                await system.put(value)
                await asyncio.sleep(0.2)

        yield work


@asynccontextmanager
async def writing(address: str) -> AsyncIterator[Work]:
    """A query that writes a batch with one message, and commits it."""
    writer = Writer(address, sink="s")
    await writer.report_commits()

    async def work(batch: int) -> None:
        await writer.deliver_packed(writer.part(batch), frame_of([b"%d" % batch], keys=[b"k"]))
        await writer.vote(batch)
        while await writer.report_commits(batch):
            pass

    yield work
    await writer.close()


async def done(process: Connector, work: Coroutine[None, None, None]) -> None:
    """Waits for work of a connector, or for its end, which would be wrong."""
    working = asyncio.create_task(work)
    async with asyncio.timeout(DEADLINE_S):
        while not working.done():
            assert process.runs, process.log
            await asyncio.wait({working}, timeout=0.25)
        await working


async def ended(process: Connector) -> int:
    """Ends it in order while the terminal hangs up again and again; returns the exit code."""
    ending = asyncio.create_task(process.end(SIGTERM))
    while not ending.done():
        process.hang_up()
        await asyncio.wait({ending}, timeout=0.25)
    return await ending


@pytest.mark.behaviour("README", "SIGHUP", "runs on; new connections use the present TLS files")
async def test_a_connector_goes_on_with_its_new_certificate(case, tmp_path):
    certificates = case.certificates
    async with gateway() as (_, address), case.system as system:
        command, log = case.command(system.parameters), tmp_path / "log"
        async with connector(address, log, *command) as process, case.working(system, address) as work:
            await done(process, work(0))
            certificates.renew()
            certificates.install()
            if system.front is not None:
                assert system.front.presented, "it does not use TLS"
                system.front.use(certificates.authority)
            process.hang_up()
            await until(lambda: "SIGHUP: reading certificates again" in process.log)
            await done(process, work(1))
            if system.front is not None:
                assert {*system.front.presented} == {None if case.name == "http-sink" else certificates.presented}
            assert await ended(process) == 0, process.log


@pytest.mark.behaviour(
    "README",
    "authorities, certificates and keys that its system replaces before it does",
    "tries again with backoff, and continues once its own files fit",
)
@pytest.mark.parametrize("case", CLIENTS_OF_TLS, ids=named, indirect=True)
async def test_a_connector_waits_while_only_its_system_has_new_certificates(case, tmp_path):
    """Nobody replaces both sides at the same moment. The files are read again without SIGHUP, too."""
    certificates = case.certificates
    async with gateway() as (_, address), case.system as system:
        front = system.front
        assert front is not None
        command, log = case.command(system.parameters), tmp_path / "log"
        async with connector(address, log, *command) as process, case.working(system, address) as work:
            await done(process, work(0))
            certificates.renew()
            front.use(certificates.authority)
            waiting = asyncio.create_task(done(process, work(1)))
            await done(process, until(lambda: front.failures >= 3))
            certificates.install()
            await waiting
            assert await ended(process) == 0, process.log


def test_each_connector_with_tls_is_tried_with_it():
    """PostgreSQL's have the files in their URL."""
    tried = {"http", "http-sink", "tcp"} | {name for name, (broker, _) in SYSTEMS.items() if broker is not None}
    with_tls = {
        known.name for known in CONNECTORS if any(each.name.startswith("tls_") for each in declared(known.load().parameters))
    }
    assert with_tls | {name for name in SYSTEMS if name.startswith("postgresql")} == tried

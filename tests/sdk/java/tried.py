"""Runs a connector of tried.toml in the bridge, from what is in its system to what arrives."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kafka import KafkaProducer
from scripts.brokers import Kafka, PostgreSQL
from scripts.tried_connectors import Tried
from tests.connectors.kafka.rig import Log
from tests.connectors.postgresql.rig import connected, rows_of, started
from tests.gateway.processes import gateway_process
from tests.sdk.java.conftest import ROOT, Toolchain
from tests.sdk.java.mariadb import PASSWORD, USER, Server
from tests.sdk.processes import DEADLINE_S, connector
from tests.sdk.queries import Reader, Writer

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tried</groupId>
  <artifactId>plugin</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>{}</groupId>
      <artifactId>{}</artifactId>
      <version>{}</version>
    </dependency>
  </dependencies>
</project>
"""


@dataclass(frozen=True)
class System:
    """The system that a connector connects to."""

    values: Mapping[str, str]
    """The values of the places in its properties."""
    run: Callable[[str], Awaitable[None]]
    """Takes one of `given` or `after`."""
    read: Callable[[str], Awaitable[str]] | None = None
    """Returns the content of `found` as one text, if sinks write to it."""


def fetched(tried: Tried, toolchain: Toolchain) -> Path:
    """Has Maven copy a connector and what it depends on into a folder of plugins, unless they are there; returns the folder."""
    folder = ROOT / ".build" / "tried" / tried.artifact.replace(":", "_")
    plugins, done = folder / "plugins", folder / "fetched"
    if not done.exists():
        jars = plugins / "plugin"
        jars.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(_POM.format(*tried.artifact.split(":")))
        built = toolchain.build(folder, _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={jars}")
        assert built.returncode == 0, built.stdout
        done.touch()
    return plugins


def files(folder: Path) -> System:
    """A folder: lines go into its file `in`."""

    async def append(line: str) -> None:
        with (folder / "in").open("a") as file:
            file.write(f"{line}\n")

    async def read(name: str) -> str:
        path = folder / name
        return path.read_text() if path.exists() else ""

    return System({"folder": str(folder)}, append, read)


async def postgresql(server: PostgreSQL) -> System:
    """A database of PostgreSQL, whose log is a logical one."""
    async with await connected(server.url) as db:
        await db.execute("ALTER SYSTEM SET wal_level = logical")
    server.kill()
    await started(server)

    async def run(statement: str) -> None:
        async with await connected(server.url) as db:
            await db.execute(statement.encode())

    async def read(query: str) -> str:
        async with await connected(server.url) as db:
            [[exists]] = await rows_of(db, "SELECT to_regclass('public.tried_sink') IS NOT NULL")
            return str(await rows_of(db, query)) if exists else ""

    names = ("host", "port", "user", "password", "database")
    return System({name: str(getattr(server, name)) for name in names}, run, read)


@contextmanager
def mariadb(folder: Path) -> Iterator[System]:
    """A MariaDB of its own, which ends with the block."""
    data = folder / "mariadb"
    data.mkdir()
    server = Server(data)

    async def run(statement: str) -> None:
        await asyncio.to_thread(server.run, statement)

    try:
        values = {"host": "127.0.0.1", "port": str(server.port), "user": USER, "password": PASSWORD}
        yield System(values, run)
    finally:
        server.kill()


def kafka(broker: Kafka) -> System:
    """The topic `tried` of a Kafka."""
    log = Log(broker.url)
    if "tried" not in log.ask(lambda admin: admin.list_topics()):
        log.create(name="tried")

    def send(message: str) -> None:
        producer = KafkaProducer(bootstrap_servers=broker.url)
        producer.send("tried", message.encode()).get(DEADLINE_S)
        producer.close()

    return System({"host": broker.host, "port": str(broker.port)}, partial(asyncio.to_thread, send))


async def ran(tried: Tried, system: System, plugins: Path, bridge: list[str], folder: Path) -> None:
    """Runs a connector until everything that is wanted has arrived."""
    system = replace(system, values={"folder": str(folder), **system.values})
    properties = {name: value.format_map(system.values) for name, value in tried.properties.items()}
    wanted = {"name": tried.name, "connector.class": tried.connector_class, "plugin.path": str(plugins), **properties}
    config = folder / "connector.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))
    kind, option = ("kafka-connect", "--source") if tried.kind == "source" else ("kafka-connect-sink", "--sink")
    command: list[str | Path] = [*bridge, "connector", "run", kind, option, "tried", "--config", config]
    log = folder / "log"
    try:
        if tried.kind == "source":
            for one in tried.given:
                await system.run(one)
        with gateway_process() as gateway:
            async with connector(gateway.address, log, *command):
                await (_has_read if tried.kind == "source" else _has_written)(tried, system, gateway.address)
    except TimeoutError as error:
        raise AssertionError(f"{tried.name}: not everything has arrived: {log.read_text()}") from error
    finally:
        for one in tried.after:
            await system.run(one)


async def _has_read(tried: Tried, system: System, address: str) -> None:
    del system
    query = Reader(address, "tried/0")

    def complete() -> bool:
        texts = [(message.key or b"") + (message.value or b"") for message in query.messages]
        return all(any(one.encode() in text for text in texts) for one in tried.wanted)

    try:
        await query.read_until(complete)
    finally:
        await query.close()


async def _has_written(tried: Tried, system: System, address: str) -> None:
    assert system.read is not None, f"no sink can write to {tried.server}"
    query = Writer(address, "tried")
    try:
        await query.write(0, [one.encode() for one in tried.given])
    finally:
        await query.close()
    content = await system.read(tried.found)
    assert all(one in content for one in tried.wanted), content

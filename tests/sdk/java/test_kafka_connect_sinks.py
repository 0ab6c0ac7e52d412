"""Sinks of Kafka Connect that others wrote: nothing is missing, whatever dies, and rows by key are as they should be."""

import json
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from scripts.brokers import PostgreSQL
from tests.connectors.postgresql.rig import connected, rows_of
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_sequence, number_value
from tests.gateway.processes import gateway_process
from tests.sdk.crashes import BATCHES
from tests.sdk.processes import Connector, connector
from tests.sdk.queries import Writer

pytestmark = [pytest.mark.timeout(900), pytest.mark.in_turn(5, 6)]  # The first build fetches what it needs.

_TEXT = "org.apache.kafka.connect.storage.StringConverter"
_FILE = "org.apache.kafka.connect.file.FileStreamSinkConnector"
_JDBC = "io.debezium.connector.jdbc.JdbcSinkConnector"
_FIELDS = [
    {"field": "id", "type": "int64", "optional": False},
    {"field": "name", "type": "string", "optional": True},
    {"field": "version", "type": "int32", "optional": False},
]
_SCHEMA = {"type": "struct", "name": "item", "optional": False, "fields": _FIELDS}


def _properties(folder: Path, plugins: Path, **properties: str) -> list[str | Path]:
    """Writes a configuration of a connector, and returns the options that name it."""
    lines = [f"{name.replace('_', '.')}={value}\n" for name, value in {"plugin_path": str(plugins), **properties}.items()]
    path = folder / "sink.properties"
    path.write_text("".join(lines))
    return ["kafka-connect-sink", "--sink", "copy", "--config", path]


def _to_file(folder: Path, plugins: Path, **more: str) -> list[str | Path]:
    converters = {"key_converter": _TEXT, "value_converter": _TEXT}
    return _properties(
        folder, plugins, **{"connector_class": _FILE, "topics": "lines", "file": str(folder / "out"), **converters, **more}
    )


def _run(bridge: list[str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*bridge, "connector", *words], capture_output=True, text=True, check=False)


def test_a_check_validates_the_properties_of_a_sink(bridge: list[str], file_plugin: Path, tmp_path: Path) -> None:
    valid = _run(bridge, "check", *_to_file(tmp_path, file_plugin))
    assert valid.returncode == 0, valid.stderr
    assert "FileStreamSinkConnector" in valid.stdout
    for more, told in (
        ({"topics": ""}, ("topics",)),
        ({"topics_regex": "a.*"}, ("topics",)),
        ({"transforms": "a"}, ("transforms.a.type",)),
        ({"tasks_max": "0"}, ("tasks.max",)),
        ({"connector_class": _FILE.replace("Sink", "Source")}, ("kafka-connect --source",)),
    ):
        invalid = _run(bridge, "check", *_to_file(tmp_path, file_plugin, **more))
        assert invalid.returncode != 0, more
        assert all(text in invalid.stderr for text in told), (more, invalid.stderr)
    _, *rest = _to_file(tmp_path, file_plugin)
    as_source = _run(bridge, "check", "kafka-connect", "--source", "copy", *rest[2:])
    assert "kafka-connect-sink --sink" in as_source.stderr


async def _written_whatever_dies(
    gateways: ExitStack, command: list[str | Path], log: Path, batches: list[list[bytes]]
) -> Connector:
    """Has a query write five batches, while bridge, gateway and driver are killed; returns the bridge, which has ended."""
    gateway = gateways.enter_context(gateway_process())
    async with connector(gateway.address, log, *command) as bridge:
        query = Writer(gateway.address, "copy")
        await query.write(0, batches[0])
        # The bridge is killed in a part, and after its vote.
        stop = await query.begin(1, batches[1][:3])
        await bridge.restart()
        stop()
        await query.vote(1, await query.stage(1, batches[1]))
        await bridge.restart()
        await query.commit(1)
        # The gateway is killed before the vote: the batch runs again.
        await query.stage(2, batches[2])
        gateway.process.kill()
        gateway.wait()
        gateways.enter_context(gateway_process("--listen", gateway.address))
        await query.write(2, batches[2])
        # The driver is killed before the commit: another run writes the batch again.
        await query.vote(3, await query.stage(3, batches[3]))
        await query.close()
        query = Writer(gateway.address, "copy", run=2, committed=2)
        await query.write(3, batches[3])
        await bridge.restart()
        await query.write(4, batches[4])
        await query.close()
        assert await bridge.end(signal.SIGTERM) == 0, bridge.log
    return bridge


async def test_the_sink_of_kafka_for_files_misses_nothing(bridge: list[str], file_plugin: Path, tmp_path: Path) -> None:
    command: list[str | Path] = [*bridge, "connector", "run", *_to_file(tmp_path, file_plugin)]
    with ExitStack() as gateways:
        await _written_whatever_dies(gateways, command, tmp_path / "log", BATCHES)
    found = (tmp_path / "out").read_bytes().splitlines()
    assert {value for batch in BATCHES for value in batch} <= {*found}


@pytest.fixture
async def table(postgresql: PostgreSQL) -> AsyncIterator[PostgreSQL]:
    """The server, with a table of this test."""
    async with await connected(postgresql.url) as db:
        await db.execute("DROP TABLE IF EXISTS public.bridged")
        await db.execute("CREATE TABLE public.bridged (id bigint PRIMARY KEY, name text, version int NOT NULL)")
    yield postgresql
    async with await connected(postgresql.url) as db:
        await db.execute("DROP TABLE public.bridged")


def _changes(rng: random.Random) -> tuple[list[list[bytes]], dict[int, tuple[str, int]]]:
    """Batches of rows, of which each has an id once, and the last row of each id."""
    last: dict[int, tuple[str, int]] = {}
    batches = []
    for version in range(len(BATCHES)):
        batch = []
        for key in rng.sample(range(100), 60):
            last[key] = (f"item {key} of {rng.random()}", version)
            payload = {"id": key, "name": last[key][0], "version": version}
            batch.append(json.dumps({"schema": _SCHEMA, "payload": payload}).encode())
        batches.append(batch)
    return batches, last


async def test_the_sink_of_debezium_for_databases_keeps_the_last_row_of_each_key(
    bridge: list[str], jdbc_plugin: Path, table: PostgreSQL, tmp_path: Path
) -> None:
    options = _properties(
        tmp_path,
        jdbc_plugin,
        connector_class=_JDBC,
        topics="bridged",
        connection_url=f"jdbc:postgresql://{table.host}:{table.port}/{table.database}",
        connection_username=table.user,
        connection_password="${env:DATABASE_PASSWORD}",
        insert_mode="upsert",
        primary_key_mode="record_value",
        primary_key_fields="id",
        schema_evolution="none",
    )
    command: list[str | Path] = ["env", f"DATABASE_PASSWORD={table.password}", *bridge, "connector", "run", *options]
    batches, last = _changes(random.Random(3))
    with ExitStack() as gateways:
        ended = await _written_whatever_dies(gateways, command, tmp_path / "log", batches)
    assert table.password not in ended.log
    async with await connected(table.url) as db:
        rows = await rows_of(db, "SELECT id, name, version FROM public.bridged")
    assert {key: (name, version) for key, name, version in rows} == last


_PARTITIONS = ("0", "1")
_OFFERED = 300


class World:
    """A source, a gateway, a driver of Spark with a query, and Kafka's sink for files."""

    def __init__(self, folder: Path, command: list[str | Path]) -> None:
        self.rig = Rig(folder, "[limits]\nsession_messages = 400\n")
        self.driver = self.rig.driver(master="local[2,4]")
        self.bridge = self.rig.program("bridge", command)
        self.source = self.rig.connector("numbers")
        self.numbers = Numbers(self.rig.source_folder("numbers"))
        self.query = self.rig.query("copy", "copy", "numbers/*", {"maxMessagesPerTrigger": "100"})
        self._out = folder / "out"
        self.offered = 0

    def start(self) -> None:
        self.driver.run(self.query)
        for process in (self.rig.gateway, self.source, self.bridge, self.driver):
            process.start()

    def written(self) -> set[str]:
        """The lines of the file."""
        return {*self._out.read_text(errors="replace").splitlines()} if self._out.exists() else set()

    def offer(self) -> None:
        """Has the source offer more, and waits until a part of it is written."""
        first = f"numbers/0:{number_sequence(self.offered + 1)}:{number_value(self.offered + 1)}"
        self.offered += _OFFERED
        for partition in _PARTITIONS:
            self.numbers.offer(partition, self.offered)
        self.rig.wait_until("a part is written", lambda: first in self.written())

    def finish(self) -> None:
        """Waits until everything is acknowledged: only then must it be there."""
        for partition in _PARTITIONS:
            self.rig.wait_until("it is acknowledged", partial(self.numbers.has_acked, partition, self.offered))


@pytest.fixture
def world(bridge: list[str], file_plugin: Path, tmp_path: Path) -> Iterator[World]:
    """A query of Spark that writes through the bridge."""
    found = World(tmp_path, [*bridge, "connector", "run", *_to_file(tmp_path, file_plugin)])
    try:
        found.start()
        yield found
    finally:
        found.rig.dispose()


def test_a_query_of_spark_misses_nothing_in_a_file(world: World) -> None:
    for victim in (world.bridge, world.rig.gateway, world.driver, world.bridge):
        world.offer()
        victim.kill()
        victim.start()
    world.finish()
    wanted = {
        f"numbers/{partition}:{number_sequence(n)}:{number_value(n)}"
        for partition in _PARTITIONS
        for n in range(1, world.offered + 1)
    }
    assert wanted <= world.written()

"""Spark Connect: clients that have nothing of Headrace read streams and write to sinks, by `headrace connect-server`."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.faults.processes import Process, free_port
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_value

pytestmark = pytest.mark.timeout(1200)
FIRST, THEN = 200, 300
CLIENT = """
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
rows = spark.readStream.format("headrace").option("stream", "numbers/*").load()
writer = rows.select("key", "value").writeStream.format("headrace").option("sink", "copies")
query = writer.option("checkpointLocation", sys.argv[2]).start()
print(query.id)
"""
"""It ends at once: the query belongs to the server."""
VISITOR = """
import sys
import time

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

url = sys.argv[1] + "/;session_id=5dd3f5c8-7f1e-4d3b-9d40-1a9c5f2e6a01"
ends = time.monotonic() + 300
while time.monotonic() < ends:
    try:
        print(SparkSession.builder.remote(url).create().range(3).count())
    except PySparkException as error:
        assert "SESSION_CLOSED" in str(error), error
        print("closed")
        break
    # Longer than the server keeps a session without calls: each call counts.
    time.sleep(8)
"""
"""It has no query, and looks whether the server still knows its session."""
PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("copies", "headrace", {"sink": "copies"})


@dp.table
def numbers():
    return spark.readStream.format("headrace").option("stream", "numbers/*").load()


@dp.append_flow(target="copies")
def copies():
    return spark.readStream.table("numbers").select("key", "value")


@dp.materialized_view
def total():
    return spark.read.table("numbers").selectExpr("count(*) AS n")
"""
SPECIFICATION = """
name: numbers
storage: {storage}
libraries:
  - glob:
      include: flows/**
"""


class Server(Process):
    """`headrace connect-server`, at the same port each time."""

    def __init__(self, folder: Path, gateway: str, *settings: str) -> None:
        address = f"127.0.0.1:{free_port()}"
        self.url = f"sc://{address}"
        self.ready_file = folder / "connect.address"
        given: list[str | Path] = [
            "--listen",
            address,
            "--ready-file",
            self.ready_file,
            "--gateway",
            gateway,
            "--master",
            "local[2]",
        ]
        # Tables of pipelines belong to the folder that the server begins in.
        settings += (f"spark.sql.warehouse.dir={folder / 'warehouse'}",)
        conf = [word for setting in settings for word in ("--conf", setting)]
        super().__init__("connect-server", ["-m", "headrace.cli", "connect-server", *given, *conf], folder)

    def start(self) -> None:
        """Starts it."""
        self.ready_file.unlink(missing_ok=True)
        super().start()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rig]:
    """A gateway, a source of numbers, and a two-phase sink."""
    world = Rig(tmp_path)
    try:
        Numbers(world.source_folder("numbers")).offer("0", FIRST)
        world.gateway.start()
        world.connector("numbers").start()
        world.file_sink("copies", tmp_path / "copies").start()
        yield world
    finally:
        world.dispose()


@pytest.fixture
def server(world: Rig) -> Server:
    """A server that listens."""
    server = Server(world.folder, world.gateway.address)
    world.processes.append(server)
    server.start()
    world.wait_until("Spark Connect listens", server.ready_file.exists)
    return server


def test_queries_of_clients_write_each_message_once_though_their_server_is_killed(world: Rig, server: Server) -> None:
    source, checkpoint = Numbers(world.folder / "numbers"), world.folder / "checkpoint"
    query = client(world.folder, server, checkpoint)
    wait_for_copies(world, source, FIRST)
    server.kill()
    source.offer("0", THEN)
    server.start()
    world.wait_until("Spark Connect listens again", server.ready_file.exists)
    assert client(world.folder, server, checkpoint) == query
    wait_for_copies(world, source, THEN)
    assert copies(world.folder) == expected(THEN)
    server.terminate()
    assert server.wait() == 0, server.log_tail()
    status = world.gateway.status()
    assert status is not None
    assert [pipeline.attached for pipeline in status.pipelines] == [False]


def test_flows_of_a_declarative_pipeline_read_a_stream_and_write_to_a_sink(world: Rig, server: Server) -> None:
    folder = world.folder / "pipeline"
    (folder / "flows").mkdir(parents=True)
    (folder / "flows" / "numbers.py").write_text(PIPELINE)
    specification = folder / "spark-pipeline.yml"
    specification.write_text(SPECIFICATION.format(storage=(folder / "storage").as_uri()))
    source = Numbers(world.folder / "numbers")
    run: list[str | Path] = ["-m", "pyspark.pipelines.cli", "run", "--spec", specification]
    for offered in (FIRST, THEN):
        source.offer("0", offered)
        # Each run ends with what there was when it began.
        done = python(world.folder, run, SPARK_REMOTE=server.url)
        assert "Run is COMPLETED" in done.stdout + done.stderr
        wait_for_copies(world, source, offered)
    assert copies(world.folder) == expected(THEN)


def test_a_query_outlives_the_session_of_a_client_that_has_gone_and_nobody_elses(world: Rig) -> None:
    of_sessions = "spark.connect.session.manager"
    server = Server(
        world.folder, world.gateway.address, f"{of_sessions}.defaultSessionTimeout=5s", f"{of_sessions}.maintenanceInterval=1s"
    )
    world.processes.append(server)
    server.start()
    world.wait_until("Spark Connect listens", server.ready_file.exists)
    source = Numbers(world.folder / "numbers")
    client(world.folder, server, world.folder / "checkpoint")
    assert python(world.folder, ["-c", VISITOR, server.url]).stdout.split() == ["3", "closed"]
    source.offer("0", THEN)
    wait_for_copies(world, source, THEN)


def client(folder: Path, server: Server, checkpoint: Path) -> str:
    """Starts the query as a client in a process of its own, and returns its id."""
    return python(folder, ["-c", CLIENT, server.url, checkpoint]).stdout.split()[-1]


def python(folder: Path, arguments: Sequence[str | Path], **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a process that must succeed. Nothing in its environment names a gateway."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env={**plain, **environ}, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def wait_for_copies(world: Rig, source: Numbers, last: int) -> None:
    """Waits until everything is committed, acknowledged and visible."""
    world.wait_until(f"the source is told of {last}", lambda: source.has_acked("0", last))
    world.wait_until(f"the sink shows {last}", lambda: copies(world.folder).total() >= last)


def copies(folder: Path) -> Counter[str]:
    """The lines that the sink shows."""
    return Counter(line for file in (folder / "copies").glob("*.lines") for line in file.read_text().splitlines())


def expected(last: int) -> Counter[str]:
    """Each number once."""
    return Counter(str(number_value(n)) for n in range(1, last + 1))

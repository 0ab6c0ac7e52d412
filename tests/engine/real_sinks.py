"""A real gateway, files as a source, and file sinks, each a process that a test may kill, for queries of the test's own Spark."""

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess, spark_environ
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc

DEADLINE_S = 150.0


class RealSinks:
    """Queries that write what is in a file to sinks."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self.folder = folder
        self.address = free_address()
        self._environ = {**spark_environ(folder), "PYTHONUNBUFFERED": "1"}
        self.processes: dict[str, OwnedProcess] = {}
        self.queries: list[StreamingQuery] = []
        self._channel = grpc.insecure_channel(self.address)
        self.gateway = self._process("gateway", "gateway", "--listen", self.address)
        (folder / "in.lines").touch()
        source = ("--path", str(folder / "in.lines"), "--source", "orders")
        self.source = self._process("source", "connector", "run", "file", *source, "--gateway", self.address)
        for process in (self.gateway, self.source):
            process.start()

    def sink(self, name: str) -> OwnedProcess:
        """The process of a file sink, which is not started."""
        where = ("--path", str(self.folder / name), "--sink", name, "--format", "lines", "--gateway", self.address)
        return self._process(name, "connector", "run", "file-sink", *where)

    def append(self, *lines: str) -> None:
        """Gives the source more."""
        with (self.folder / "in.lines").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def start(self, sink: str, **options: str) -> StreamingQuery:
        """Starts a query on everything, which writes to a sink."""
        frame = self._spark.readStream.format("headrace").options(gateway=self.address, stream="orders/*").load()
        given = {"gateway": self.address, "sink": sink, "checkpointLocation": str(self.folder / f"{sink}-query"), **options}
        query = frame.writeStream.format("headrace").options(**given).start()
        self.queries.append(query)
        return query

    def failure(self, query: StreamingQuery) -> str:
        """Why a query fails."""
        with pytest.raises(StreamingQueryException) as caught:
            assert query.awaitTermination(int(DEADLINE_S)), "it continues"
        return str(caught.value)

    def visible(self, sink: str) -> list[str]:
        """The visible lines of a file sink."""
        return [line for path in sorted((self.folder / sink).glob("*.lines")) for line in path.read_text().splitlines()]

    def lose(self, sink: str) -> None:
        """Deletes all that a file sink has."""
        shutil.rmtree(self.folder / sink)

    def status(self) -> admin_pb2.GetStatusResponse:
        """The status of the gateway."""
        stub = admin_pb2_grpc.AdminServiceStub(self._channel)
        return stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=DEADLINE_S, wait_for_ready=True)

    def is_served(self, sink: str) -> bool:
        """Whether a sink's connector is attached."""
        return any(one.sink == sink and one.instances for one in self.status().sinks)

    def wait_until(self, what: str, condition: Callable[[], Any]) -> None:
        """Waits for a condition."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            failed = [query.exception() for query in self.queries if query.exception()]
            assert not failed, f"{what}: {failed}"
            assert time.monotonic() < deadline, f"{what}: {[line for p in self.processes.values() for line in p.tail()]}"
            time.sleep(0.02)

    def close(self) -> None:
        """Ends everything."""
        for query in self.queries:
            query.stop()
        for process in self.processes.values():
            process.kill()
        self._channel.close()

    def _process(self, name: str, *arguments: str) -> OwnedProcess:
        command = [sys.executable, "-m", "headrace.cli", *arguments]
        process = self.processes[name] = OwnedProcess(name, command, self.folder, self._environ)
        return process

"""What reads the same table: the bridge, Debezium's own engine, and a standalone worker of Connect that writes to Kafka."""

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from headrace.laboratory.bench.bridge.far_end import arrivals
from headrace.laboratory.bench.bridge.programs import PRESET, Programs
from headrace.laboratory.bench.bridge.server import TABLE, Server
from headrace.laboratory.bench.rig import STOP_S, acknowledged_rate, end, gateway

_MAX_S = 300.0
_LOOKS_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Job:
    """The rows or changes of a table that a contender reads.

    Attributes:
        server: The server with the table.
        rows: The rows, or inserts, that must come.
        snapshot: `initial`, for the rows of the table, or `no_data`, for the changes since the slot was made.
        slot: The slot, and the name of the source.
    """

    server: Server
    rows: int
    snapshot: str
    slot: str

    @classmethod
    def of(cls, server: Server, rows: int, snapshot: str) -> "Job":
        """With a slot of its own."""
        return cls(server, rows, snapshot, f"bench_{secrets.token_hex(4)}")

    @property
    def stream(self) -> str:
        """The stream of the bridge."""
        return f"{self.slot}/0"

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the preset."""
        return {
            "source": self.slot,
            "database": "postgres",
            "tables": [TABLE],
            "host": "127.0.0.1",
            "port": self.server.port,
            "user": "postgres",
            "slot": self.slot,
            "snapshot": self.snapshot,
            "heartbeat": 10.0,
        }


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one run was, after the first quarter of its rows.

    Attributes:
        rate: Records per second.
        cpu_us: Processor time of its process for each record, in microseconds.
    """

    rate: float
    cpu_us: float


Contender = Callable[[Programs, Job], Speed]


@contextmanager
def started(command: Sequence[str], **environ: str) -> Iterator["Started"]:
    """Runs a process, and kills it when the block ends."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, env={**os.environ, **environ}, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield Started(process, log)
        finally:
            end(process)


@dataclass(frozen=True, slots=True)
class Started:
    """A running process, and what it logs."""

    process: "subprocess.Popen[str]"
    log: IO[str]

    @property
    def java(self) -> psutil.Process:
        """Its Java, which may have taken its place."""
        own = psutil.Process(self.process.pid)
        return next((one for one in (own, *own.children(recursive=True)) if one.name() == "java"), own)

    def must_run(self) -> None:
        """Checks that it has not ended.

        Raises:
            RuntimeError: It has.
        """
        if (code := self.process.poll()) is not None:
            self.log.seek(0)
            raise RuntimeError(f"{self.process.args!r} ended with {code}: {self.log.read()[-4000:]}")


@dataclass(slots=True)
class _Moments:
    """When how many records had come, and the processor time that a process had used then."""

    process: Started
    total: int
    seen: list[tuple[float, int]]
    quarter: tuple[float, int] | None = None

    def note(self, count: int) -> None:
        self.seen.append((time.monotonic(), count))
        if self.quarter is None and count >= self.total // 4:
            self.quarter = (self._cpu_s(), count)

    def speed(self) -> Speed:
        begin = self.quarter or (self._cpu_s(), 0)
        return Speed(acknowledged_rate(self.seen), 1e6 * (self._cpu_s() - begin[0]) / max(1, self.total - begin[1]))

    def _cpu_s(self) -> float:
        used = self.process.java.cpu_times()
        return float(used.user + used.system)


def bridge_command(job: Job, *options: str) -> list[str]:
    """The command of the bridge; it needs `HEADRACE_CONNECTORS` and `HEADRACE_GATEWAY`."""
    given = [part for name, value in job.parameters.items() for part in _option(name, value)]
    return [sys.executable, "-m", "headrace.cli", "connector", "run", PRESET, *given, *options]


def _option(name: str, value: Any) -> list[str]:
    text = f"{value:g}s" if isinstance(value, float) else value[0] if isinstance(value, list) else str(value)
    return [f"--{name}", text]


def bridge(programs: Programs, job: Job) -> Speed:
    """Through the bridge and a gateway, whose far end acknowledges without Spark."""
    with (
        gateway() as running,
        started(bridge_command(job), HEADRACE_CONNECTORS=str(programs.connectors), HEADRACE_GATEWAY=running.address) as process,
    ):
        moments = _Moments(process, job.rows, [])
        for count in arrivals(running.address, job.stream, job.rows, process.must_run):
            moments.note(count)
        return moments.speed()


def engine(programs: Programs, job: Job) -> Speed:
    """In Debezium's own engine, into a consumer that only counts."""
    command = programs.java("io.headrace.kafkaconnect.Baseline", "engine", PRESET, str(job.rows))
    with started(command, HEADRACE_PARAMETERS=json.dumps(job.parameters)) as process:
        moments = _Moments(process, job.rows, [])
        assert process.process.stdout is not None
        count = 0
        for line in process.process.stdout:
            count = int(line)
            moments.note(count)
            if count >= job.rows:
                return moments.speed()
        process.process.wait(STOP_S)
        process.must_run()
        raise RuntimeError(f"Debezium's engine ended after {count} of {job.rows} records")


def worker(kafka: str) -> Contender:
    """In a standalone worker of Connect that writes to a Kafka, by its address."""

    def run(programs: Programs, job: Job) -> Speed:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            written, settings = folder / "connector.properties", folder / "worker.properties"
            subprocess.run(
                programs.java("io.headrace.kafkaconnect.Baseline", "properties", PRESET, str(written)),
                env={**os.environ, "HEADRACE_PARAMETERS": json.dumps(job.parameters)},
                stderr=subprocess.DEVNULL,
                check=True,
            )
            settings.write_text(_worker_settings(kafka, folder))
            command = programs.java("org.apache.kafka.connect.cli.ConnectStandalone", str(settings), str(written))
            with started(command) as process:
                moments = _Moments(process, job.rows, [])
                for count in _written(kafka, f"{job.slot}.{TABLE}", job.rows, process.must_run):
                    moments.note(count)
                return moments.speed()

    return run


def _worker_settings(kafka: str, folder: Path) -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "bootstrap.servers": kafka,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.file.filename": folder / "offsets",
        "offset.flush.interval.ms": 1000,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "plugin.discovery": "service_load",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _written(servers: str, topic: str, total: int, must_run: Callable[[], None]) -> Iterator[int]:
    """Yields how many records a topic contains whenever there are more."""
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError

    partition, seen = TopicPartition(topic, 0), 0
    consumer = KafkaConsumer(bootstrap_servers=servers)
    try:
        deadline = time.monotonic() + _MAX_S
        while seen < total:
            must_run()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{seen} of {total} records were written to {topic} in {_MAX_S:.0f} s")
            try:
                there = topic in consumer.topics()
                found = int(consumer.end_offsets([partition])[partition]) if there else 0
            except KafkaError:
                found = 0
            if found > seen:
                seen = found
                yield seen
            time.sleep(_LOOKS_EVERY_S)
    finally:
        consumer.close()

"""A NATS server, its connector, and a query: faults of the broker, and of how its state is observed."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import nats
from nats.errors import Error
from nats.js import JetStreamContext
from nats.js.api import StreamConfig
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.faults.fault import Fault, Site
from headrace.laboratory.bench.faults.gateway import running
from headrace.laboratory.bench.queries import headrace, stop
from headrace.laboratory.bench.rig import START_S, Restartable, status, wait_for
from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess

_PROGRAM = "nats-server"
_USER, _PASSWORD, _WRONG = "bench", "right", "guessed"
_STREAM = "numbers"
_KEEPS = 2
"""Messages that the JetStream stream keeps."""
_DEADLINE_S = 120.0


@contextmanager
def _run(spark: SparkSession, names: frozenset[str]) -> Iterator[tuple[str, list[Fault]]]:
    """Yields the URL of the gateway, and the faults; the query has read the first message."""
    program = _program()
    assert program is not None, "lacks"
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        gateway = stack.enter_context(running(folder))
        server = _Server(program, folder)
        stack.callback(server.process.kill)
        server.start()
        server.fill(1)
        source = stack.enter_context(Restartable(_connector(server.url, gateway.address), _environ(_PASSWORD)))
        site = _Query(spark, gateway.address, folder)
        stack.callback(site.stop)
        site.start()
        wait_for("the query to read a message", partial(site.has_read, 1), _DEADLINE_S)
        yield gateway.url, [fault for fault in _faults(server, source, site) if fault.name in names]


def _lacks() -> dict[str, str]:
    return {} if _program() else dict.fromkeys(_NAMES, f"the program {_PROGRAM}")


_NAMES = ("broker_stopped", "wrong_password", "expired_position")
BROKER = Site(_NAMES, _run, _lacks)


def _faults(server: "_Server", source: Restartable, site: "_Query") -> list[Fault]:
    guessing = Restartable(source.arguments, _environ(_WRONG))

    def guess() -> None:
        source.kill()
        guessing.start()

    def know() -> None:
        guessing.kill()
        source.start()

    def expire() -> None:
        source.kill()
        server.fill(5 * _KEEPS)
        source.start()

    return [
        Fault(
            "broker_stopped",
            frozenset({"connector-reports"}),
            "connector",
            server.process.kill,
            server.start,
            server.address.rpartition(":")[2],
        ),
        Fault("wrong_password", frozenset({"connector-away"}), "connector", guess, know, "password"),
        Fault(
            "expired_position",
            frozenset({"position-lost"}),
            "stream",
            expire,
            partial(site.start, failOnDataLoss="false"),
            "no longer has messages",
        ),
    ]


class _Server:
    """A NATS server with JetStream and one user."""

    def __init__(self, program: str, folder: Path) -> None:
        self.address = free_address()
        self.url = f"nats://{self.address}"
        config = folder / "nats.conf"
        config.write_text(
            f'listen: "{self.address}"\njetstream: {{ store_dir: "{folder}/jetstream" }}\n'
            f"authorization: {{ user: {_USER}, password: {_PASSWORD} }}\n"
        )
        self.process = OwnedProcess("nats", [program, "--config", str(config)], folder, os.environ, ends_with_parent=True)

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        self.process.start()
        wait_for("NATS to answer", self._answers, START_S)

    def fill(self, messages: int) -> None:
        """Publishes messages to the stream, which is created if it does not exist."""

        async def publish(stream: JetStreamContext) -> None:
            await stream.add_stream(StreamConfig(name=_STREAM, subjects=[f"{_STREAM}.>"], max_msgs=_KEEPS))
            for number in range(messages):
                await stream.publish(f"{_STREAM}.m", str(number).encode())

        self._run(publish)

    def _answers(self) -> bool:
        async def ask(stream: JetStreamContext) -> None:
            await stream.account_info()

        with suppress(Error, OSError):
            self._run(ask)
            return True
        return False

    def _run(self, call: Callable[[JetStreamContext], Awaitable[None]]) -> None:
        async def run() -> None:
            client = await nats.connect(self.url, user=_USER, password=_PASSWORD, allow_reconnect=False, error_cb=_ignored)
            try:
                await call(client.jetstream())
            finally:
                await client.close()

        asyncio.run(run())


class _Query:
    """A query that reads the stream of the broker."""

    def __init__(self, spark: SparkSession, address: str, folder: Path) -> None:
        self._spark, self._address, self._folder = spark, address, folder
        self._query: StreamingQuery | None = None

    def start(self, **options: str) -> None:
        """Starts it in the checkpoint of the one before, which it stops."""
        self.stop()
        writer = headrace(self._spark, self._address, **options).writeStream.format("noop")
        self._query = writer.option("checkpointLocation", str(self._folder / "checkpoint")).start()

    def stop(self) -> None:
        """Stops it, if it runs."""
        if self._query is not None:
            stop(self._query)

    def has_read(self, messages: int) -> bool:
        """Whether this number of messages is acknowledged."""
        return any(stream.acknowledged.sequence >= messages for stream in status(self._address).streams)


def _program() -> str | None:
    """Returns the path of the server, which may be a package of this Python environment."""
    beside = Path(sys.executable).with_name(_PROGRAM)
    return str(beside) if beside.exists() else shutil.which(_PROGRAM)


def _connector(url: str, gateway: str) -> list[str]:
    options = ["--servers", url, "--user", _USER, "--stream", _STREAM, "--source", "bench", "--gateway", gateway]
    return ["-m", "headrace.cli", "connector", "run", "nats", *options]


def _environ(password: str) -> dict[str, str]:
    return {**os.environ, "HEADRACE_NATS_PASSWORD": password}


async def _ignored(_: Exception) -> None:
    """Lets NATS report nothing: the caller tries again."""

"""NATS as its other clients see it, what reads from it through a gateway, and servers that are not like the others."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import nats as nats_py
from nats.js import JetStreamContext, api
from nats.js.errors import ServerError
from scripts.brokers import Broker
from tests.gateway.wire import Engine

from headrace.protocol.v1.engine_pb2 import PlanResponse
from headrace.protocol.v1.frame_pb2 import Frame, Position
from headrace.sdk import AsyncSink, AsyncSource, Message, Settings, decode_frame, serve

DEADLINE = 90.0
PROGRAM = Path(sys.executable).with_name("nats-server")
_numbers = itertools.count()


class Broken(Exception):
    """What `serve` raised."""


def connection(broker: Broker, port: int | None = None) -> dict[str, Any]:
    """How connectors reach a broker, perhaps by way of another port."""
    return {
        "servers": f"nats://{broker.host}:{port or broker.port}",
        "user": broker.user,
        "password": broker.password,
    }


class Server:
    """Actions of others on a server."""

    def __init__(self, client: nats_py.NATS) -> None:
        self.client = client
        self.js: JetStreamContext = client.jetstream(timeout=90.0)

    async def stream(self, **config: Any) -> str:
        """Makes a stream that nobody else uses, of all subjects that begin with its name."""
        name = config.pop("name", None) or f"T{os.getpid()}-{next(_numbers)}"
        await self.js.add_stream(api.StreamConfig(name=name, **{"subjects": [f"{name}.>"], **config}))
        return name

    async def raw_stream(self, name: str, **config: Any) -> str:
        """Makes a stream with settings that nats-py does not know; returns its name. Durations are in nanoseconds."""
        given = {"name": name, "subjects": [f"{name}.>"], "retention": "limits", "storage": "file", "num_replicas": 1, **config}
        await self.ask(f"STREAM.CREATE.{name}", {"max_consumers": -1, "max_msgs": -1, "max_bytes": -1, **given})
        return name

    async def raw_consumer(self, stream: str, **config: Any) -> None:
        """Makes the durable consumer `c` with settings that nats-py does not know. Durations are in nanoseconds."""
        given = {"durable_name": "c", "ack_policy": "explicit", **config}
        await self.ask(f"CONSUMER.CREATE.{stream}.c", {"stream_name": stream, "config": {"name": "c", **given}})

    async def ask(self, request: str, body: object) -> None:
        """Makes a request of JetStream."""
        answer = json.loads((await self.client.request(f"$JS.API.{request}", json.dumps(body).encode(), timeout=DEADLINE)).data)
        assert "error" not in answer, answer

    async def anew(self, stream: str) -> None:
        """Deletes a stream, and makes it again: the server needs some time to be rid of it."""
        await self.js.delete_stream(stream)
        async with asyncio.timeout(DEADLINE):
            while True:
                with contextlib.suppress(ServerError):
                    await self.stream(name=stream)
                    return
                await asyncio.sleep(0.01)

    async def answers(self) -> None:
        """Waits until JetStream is there again, after the server was."""
        async with asyncio.timeout(DEADLINE):
            while True:
                with contextlib.suppress(nats_py.errors.Error):
                    await self.js.account_info()
                    return
                await asyncio.sleep(0.01)

    async def publish(self, subject: str, *values: bytes, **headers: str) -> None:
        """Stores messages, and waits until they are."""
        futures = [await self.js.publish_async(subject, value, headers=headers or None) for value in values]
        await asyncio.wait_for(asyncio.gather(*futures), DEADLINE)

    async def numbers(self, subject: str, count: int, first: int = 0) -> None:
        """Stores numbers."""
        await self.publish(subject, *(b"%d" % n for n in range(first, first + count)))

    async def stored(self, stream: str) -> list[Any]:
        """All messages of a stream, as an unchanged client gives them."""
        info = await self.js.stream_info(stream)
        messages: list[Any] = []
        subscription = await self.js.pull_subscribe("", stream=stream, config=api.ConsumerConfig(ack_policy=api.AckPolicy.NONE))
        while len(messages) < info.state.messages:
            messages += await subscription.fetch(1000, timeout=DEADLINE)
        await subscription.unsubscribe()
        return messages

    async def raw(self, *commands: bytes) -> None:
        """Sends what nats-py would not."""
        for command in commands:
            await self.client._send_command(command)
        await self.client.flush()


@asynccontextmanager
async def server(url: str, **options: Any) -> AsyncIterator[Server]:
    """A client of a server, which reconnects at once."""

    async def quiet(error: Exception) -> None:
        pass

    options = {"reconnect_time_wait": 0.05, "max_reconnect_attempts": -1, "error_cb": quiet, **options}
    client = await nats_py.connect(url, **options)
    try:
        yield Server(client)
    finally:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(client.close(), 2)


class Query:
    """A query that reads the source `s`, as the gateway sees it, with its checkpoint."""

    def __init__(
        self, address: str, name: str = "q", streams: str = "s/*", *, skip_lost: bool = False, available_now: bool = False
    ) -> None:
        self.engine = Engine(address, name, streams=streams, skip_lost=skip_lost)
        self._available_now = available_now
        self.committed: dict[str, Position] = {}
        self.exhausted = False
        self.frames: list[Frame] = []
        """The frames of which the last micro-batch had messages, the last of a stream perhaps not all."""
        self._read: dict[str, Position] = {}

    async def attach(self) -> None:
        """Begins, or continues after a restart of the gateway."""
        await self.engine.attach(dict(self.committed), available_now=self._available_now)

    async def read(self, count: int) -> list[Message]:
        """Runs micro-batches, committing each before the next, until it has read `count` messages; leaves the last one open."""
        messages: list[Message] = []
        async with asyncio.timeout(DEADLINE):
            while len(messages) < count:
                messages += await self.poll(wait_ms=200)
        return messages

    async def batch(self, count: int) -> list[Message]:
        """Commits what was read, and runs one micro-batch of at least `count` messages, which is not committed."""
        self.committed |= self._read
        async with asyncio.timeout(DEADLINE):
            while sum(planned.messages for planned in (await self._plan(wait_ms=200)).ranges) < count:
                pass
            return await self.poll()

    async def rest(self) -> list[Message]:
        """Runs micro-batches until a query that ends when it has caught up has done so."""
        messages: list[Message] = []
        async with asyncio.timeout(DEADLINE):
            while True:
                messages += await self.poll(wait_ms=200)
                if self.exhausted:
                    return messages

    async def poll(self, wait_ms: int = 50, **limits: int) -> list[Message]:
        """Commits what was read, and runs a micro-batch of all that arrived, within limits such as `max_messages`."""
        messages: list[Message] = []
        self.frames = []
        self.committed |= self._read
        for planned in (await self._plan(wait_ms, **limits)).ranges:
            if planned.start:
                self._read[planned.stream] = planned.end  # where the source begins
                continue
            start = self.committed.get(planned.stream)
            frames = await self.engine.fetch(planned.stream, start, planned.end)
            self.frames += frames
            new = start is None or start.epoch < planned.end.epoch
            read = [message for frame in frames for message in decode_frame(frame)]
            read = [message for message in read if (message.sequence or 0) <= planned.end.sequence]
            messages += [message for message in read if new or (message.sequence or 0) > start.sequence]
            self._read[planned.stream] = planned.end
        return messages

    async def _plan(self, wait_ms: int, **limits: int) -> PlanResponse:
        """The messages of the next micro-batch."""
        response = await self.engine.plan(self.committed, wait_ms=wait_ms, **limits)
        self.exhausted = response.exhausted
        return response

    async def commit(self) -> None:
        """The checkpoint contains now what was read, and the source acknowledges it."""
        self.committed |= self._read
        await self.engine.plan(self.committed, wait_ms=0)

    async def fails(self) -> str:
        """Why the query fails."""
        try:
            async with asyncio.timeout(DEADLINE):
                while True:
                    self.committed |= self._read
                    await self.engine.plan(self.committed, wait_ms=200)
        except Exception as error:
            return str(error)

    async def close(self) -> None:
        await self.engine.close()


class Running:
    """A connector that runs in this process."""

    def __init__(self, connector: AsyncSource | AsyncSink, address: str) -> None:
        self._stop = asyncio.Event()
        settings = Settings(stuck_seconds=0.5)
        self.task = asyncio.create_task(serve(connector, gateway=address, stop=self._stop, settings=settings))

    async def stop(self) -> None:
        """Stops it in good order."""
        self._stop.set()
        await asyncio.wait_for(self.task, DEADLINE)

    async def broken(self) -> Exception:
        """Why it has ended."""
        await asyncio.wait({self.task}, timeout=DEADLINE)
        error = self.task.exception()
        assert isinstance(error, Exception)
        return error

    async def close(self) -> None:
        """Ends it without waiting for acknowledgements, as where its session is lost."""
        self._stop.set()
        self.task.cancel()
        with contextlib.suppress(BaseException):
            await self.task


class Process:
    """A connector that is a process of its own."""

    def __init__(self, name: str, address: str, folder: Path, options: Mapping[str, Any]) -> None:
        path = folder / f"{name}.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in {"connector": name, **options}.items()]
        path.write_text("\n".join([*lines, "[gateway]", f"address = {json.dumps(address)}", ""]))
        self._command = [sys.executable, "-m", "headrace.cli", "connector", "run", "-c", str(path)]
        self._log = (folder / f"{name}.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log)

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, "it has ended by itself"
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._log.close()


@contextmanager
def special(folder: Path, config: str, greeting: bytes = b"INFO") -> Iterator[str]:
    """A server of its own, with another configuration; yields its host and port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = folder / "nats.conf"
    path.write_text(f'listen: "127.0.0.1:{port}"\njetstream: {{ store_dir: "{folder}/data" }}\n{config}')
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([PROGRAM, "--config", path], stdout=log, stderr=log)
    try:
        while not _listens(port, greeting):
            assert process.poll() is None, (folder / "log").read_text()
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _listens(port: int, greeting: bytes) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.1) as there:
            return there.recv(len(greeting)) == greeting
    except OSError:
        return False


def unused(prefix: str) -> str:
    """A name that nobody else uses."""
    return f"{prefix}{os.getpid()}-{next(_numbers)}"


def numbers(messages: list[Message]) -> list[int]:
    """What messages hold that hold numbers."""
    return [int(message.value or b"-1") for message in messages]


async def until(holds: Callable[[], Any]) -> None:
    """Waits until something holds; it may be asked for asynchronously."""
    async with asyncio.timeout(DEADLINE):
        while True:
            found = holds()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.01)

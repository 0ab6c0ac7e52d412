"""NATS, with nats-py: JetStream streams with limits retention and file storage."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import nats
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig
from nats.js.errors import BadRequestError, NotFoundError

from headrace.laboratory.bench.connectors.system import BODY, InvalidAddress, System, stamped

_FETCHED_AT_ONCE = 1_000


class Nats(System):
    """A server, given its URL, which may contain user and password."""

    name = "nats"
    keeps = True
    client = f"nats-py: pull consumer without acknowledgements, fetch({_FETCHED_AT_ONCE:,})"

    def __init__(self, url: str) -> None:
        """Splits the URL into the options of the connector."""
        super().__init__(url)
        parts = urlsplit(url)
        if parts.hostname is None:
            raise InvalidAddress("write the address of NATS as nats://HOST:PORT, or nats://USER:PASSWORD@HOST:PORT")
        self._server = f"{parts.scheme}://{parts.hostname}:{parts.port or 4222}"
        self._user, self._password = parts.username, parts.password

    def fill(self, place: str, messages: int) -> None:
        """Publishes ahead of acknowledgements, up to a limit."""

        async def fill() -> None:
            async with self._connected() as stream:
                await _make(stream, place)
                stored = (await stream.stream_info(place)).state.messages
                for _ in range(messages):
                    await stream.publish_async(f"{place}.m", BODY)
                await stream.publish_async_completed()
                found = (await stream.stream_info(place)).state.messages - stored
            if found != messages:
                raise RuntimeError(f"NATS stored {found} of {messages} messages")

        asyncio.run(fill())

    def drain(self, place: str, messages: int) -> float:
        """Fetches from an ephemeral consumer."""

        async def drain() -> float:
            begun, taken = time.perf_counter(), 0
            async with self._connected() as stream:
                config = ConsumerConfig(ack_policy=AckPolicy.NONE)
                consumer = await stream.pull_subscribe("", stream=place, config=config)
                while taken < messages:
                    taken += len(await consumer.fetch(min(_FETCHED_AT_ONCE, messages - taken)))
                return time.perf_counter() - begun

        return asyncio.run(drain())

    def publish(self, place: str, per_second: float, seconds: float) -> None:
        """Publishes, and waits for each acknowledgement."""

        async def publish() -> None:
            async with self._connected() as stream:
                await _make(stream, place)
                for messages in stamped(per_second, seconds):
                    for message in messages:
                        await stream._nc.publish(f"{place}.m", message)
                    await stream._nc.flush()

        asyncio.run(publish())

    def remove(self, place: str) -> None:
        """Deletes the stream."""

        async def remove() -> None:
            async with self._connected() as stream:
                with suppress(NotFoundError):
                    await stream.delete_stream(place)

        asyncio.run(remove())

    def source(self, place: str, name: str) -> Sequence[str]:
        """The connector `nats`."""
        user = ["--user", self._user] if self._user else []
        return ["nats", "--stream", place, "--source", name, "--servers", self._server, *user]

    def secrets(self) -> dict[str, str]:
        """Returns the password, if there is one."""
        return {"HEADRACE_NATS_PASSWORD": self._password} if self._password else {}

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[JetStreamContext]:
        client = await nats.connect(self._server, user=self._user, password=self._password)
        try:
            yield client.jetstream()
        finally:
            await client.close()


async def _make(stream: JetStreamContext, place: str) -> None:
    """Creates a stream, unless it exists."""
    with suppress(BadRequestError):
        await stream.add_stream(StreamConfig(name=place, subjects=[f"{place}.>"], storage=StorageType.FILE))

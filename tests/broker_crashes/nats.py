"""A stream with limits retention, and a durable consumer of a work queue, each with a stream for what comes of it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import nats
from nats.errors import Error
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StreamConfig
from scripts.brokers import Nats
from tests.broker_crashes.pairs import Pair, again_while
from tests.broker_crashes.workload import (
    Row,
    id_of,
    key_of,
    none_other,
    not_all_counted_once,
    not_at_least_once,
    value_of,
)

_DEADLINE_S = 120.0


class StreamPair(Pair):
    """`nats` and `nats-sink`."""

    name = "nats"
    system = "nats"
    sink = "nats-sink"
    retention: ClassVar[RetentionPolicy] = RetentionPolicy.LIMITS
    findings = staticmethod(not_at_least_once)

    def __init__(self, broker: Nats) -> None:
        self._broker = broker
        self._stream, self._results = f"CRASHES-{self.name}", f"CRASHES-{self.name}-RESULTS"

    @property
    def source_parameters(self) -> Mapping[str, Any]:
        return {**self._connection, "stream": self._stream, "key": "header:key"}

    @property
    def sink_parameters(self) -> Mapping[str, Any]:
        return {**self._connection, "stream": self._results, "subject": f"{self._results}.{{key}}"}

    @property
    def _connection(self) -> Mapping[str, Any]:
        broker = self._broker
        return {"servers": [f"nats://{broker.host}:{broker.port}"], "user": broker.user, "password": broker.password}

    def make(self) -> None:
        async def make() -> None:
            async with self._client() as stream:
                for name, retention in ((self._stream, self.retention), (self._results, RetentionPolicy.LIMITS)):
                    await stream.add_stream(StreamConfig(name=name, subjects=[f"{name}.>"], retention=retention))

        again_while((Error, OSError), lambda: asyncio.run(make()))

    def publish(self, numbers: range) -> None:
        async def publish() -> None:
            async with self._client() as stream:
                for number in numbers:
                    headers = {"Nats-Msg-Id": id_of(number), "key": key_of(number)}
                    await stream.publish(f"{self._stream}.{key_of(number)}", value_of(number), headers=headers)

        # The broker knows published messages by their ids.
        again_while((Error, OSError), lambda: asyncio.run(publish()))

    def rows(self) -> list[Row]:
        async def rows() -> list[Row]:
            async with self._client() as stream:
                count = (await stream.stream_info(self._results)).state.messages
                reader = await stream.pull_subscribe("", stream=self._results, config=ConsumerConfig(ack_policy=AckPolicy.NONE))
                found: list[Row] = []
                while len(found) < count:
                    found += [Row.decode(message.data) for message in await reader.fetch(1000, timeout=_DEADLINE_S)]
                await reader.unsubscribe()
                return found

        return again_while((Error, OSError), lambda: asyncio.run(rows()))

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[JetStreamContext]:
        async def quiet(error: Exception) -> None:
            pass

        client = await nats.connect(self._broker.url, allow_reconnect=False, error_cb=quiet)
        try:
            yield client.jetstream()
        finally:
            await client.close()


class CorePair(StreamPair):
    """`nats-core` and `nats-sink`: what is published while nobody listens is lost."""

    name = "nats-core"
    may_lose = True
    findings = staticmethod(none_other)

    @property
    def source_parameters(self) -> Mapping[str, Any]:
        return {**self._connection, "subjects": [self._subject], "key": "header:key"}

    @property
    def _subject(self) -> str:
        return f"crashes.{self.name}"

    def make(self) -> None:
        async def make() -> None:
            async with self._client() as stream:
                await stream.add_stream(StreamConfig(name=self._results, subjects=[f"{self._results}.>"]))

        again_while((Error, OSError), lambda: asyncio.run(make()))

    def publish(self, numbers: range) -> None:
        async def publish() -> None:
            client = await nats.connect(self._broker.url, allow_reconnect=False)
            for number in numbers:
                await client.publish(self._subject, value_of(number), headers={"key": key_of(number)})
            await client.drain()

        again_while((Error, OSError), lambda: asyncio.run(publish()))


class ConsumerPair(StreamPair):
    """`nats-consumer` and `nats-sink`."""

    name = "nats-consumer"
    deduplicates = True
    retention = RetentionPolicy.WORK_QUEUE
    findings = staticmethod(not_all_counted_once)

    @property
    def source_parameters(self) -> Mapping[str, Any]:
        return {**super().source_parameters, "consumer": "crashes", "ack_wait_seconds": 3.0}

    def left(self) -> str | None:
        async def left() -> int:
            async with self._client() as stream:
                return (await stream.stream_info(self._stream)).state.messages

        messages = again_while((Error, OSError), lambda: asyncio.run(left()))
        return f"{messages} messages in {self._stream}" if messages else None

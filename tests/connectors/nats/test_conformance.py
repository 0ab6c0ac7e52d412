"""The connectors for NATS pass the conformance kit."""

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest
from nats.js import api
from scripts.brokers import Nats
from tests.conformance.systems import judge, values
from tests.connectors.nats.rig import Server, connection
from tests.connectors.nats.rig import server as connected

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(2)]
LOST = 5
"""How many messages the stream loses."""


def stream_of(check: str) -> str:
    """The stream of a check; its subjects begin with this, too."""
    return f"conformance{os.getpid()}-{check}"


class Streams:
    """The streams of checks, on a server."""

    def __init__(self, nats: Nats) -> None:
        self._url = nats.url
        self.options = [f"--{key}={value}" for key, value in connection(nats).items()]

    def fill(self, check: str) -> None:
        """Makes a stream with 30 messages."""

        async def do(server: Server) -> None:
            await server.stream(name=stream_of(check))
            for number in range(30):
                await server.js.publish(f"{stream_of(check)}.a", b"m%d" % number)

        self._do(do)

    def produce(self, check: str, count: str, size: str) -> None:
        async def do(server: Server) -> None:
            for _ in range(int(count)):
                await server.js.publish(f"{stream_of(check)}.a", b"x" * int(size))

        self._do(do)

    def make(self, check: str) -> None:
        """Makes an empty stream."""

        async def do(server: Server) -> None:
            await server.stream(name=stream_of(check))

        self._do(do)

    def lose(self, check: str) -> None:
        async def do(server: Server) -> None:
            await server.js.purge_stream(stream_of(check), seq=LOST + 1)

        self._do(do)

    def read(self, check: str) -> str:
        found: list[bytes | None] = []

        async def do(server: Server) -> None:
            state = (await server.js.stream_info(stream_of(check))).state
            if not state.messages:
                return
            config = api.ConsumerConfig(max_ack_pending=-1)
            consumer = await server.js.pull_subscribe("", stream=stream_of(check), config=config)
            while left := state.messages - len(found):
                # The sink writes a null value as an empty payload.
                found.extend(message.data or None for message in await consumer.fetch(min(left, 500), timeout=60))

        self._do(do)
        return values(found)

    def _do(self, what: Callable[[Server], Awaitable[None]]) -> None:
        async def run() -> None:
            async with connected(self._url) as server:
                await what(server)

        asyncio.run(run())


@pytest.fixture
def streams(nats: Nats) -> Streams:
    return Streams(nats)


def test_the_source_passes(streams: Streams) -> None:
    command = ["nats", "--source=s", f"--stream={stream_of('{check}')}", *streams.options]
    commands = {"setup": streams.fill, "produce": streams.produce, "lose": streams.lose}
    verdict = judge("source", command, {"messages": 30}, commands)

    assert verdict.failed == set(), verdict.explained()
    assert {"resume", "replay", "crash", "position-lost", "largest-message"} <= verdict.named("passed")


def test_the_consumer_passes(streams: Streams) -> None:
    options = ["--consumer=c", "--create", "--ack-wait-seconds=3"]
    command = ["nats-consumer", "--source=s", f"--stream={stream_of('consumer-{check}')}", *options]
    commands: dict[str, Callable[..., str | None]] = {
        "setup": lambda check: streams.fill(f"consumer-{check}"),
        "produce": lambda check, count, size: streams.produce(f"consumer-{check}", count, size),
    }
    declared = {"kind": "redelivering", "messages": 30}
    verdict = judge("source", [*command, *streams.options], declared, commands)

    assert verdict.failed == set(), verdict.explained()
    assert {"redelivery", "epochs", "crash", "gateway-restart", "largest-message"} <= verdict.named("passed")


def test_the_source_of_core_nats_passes(streams: Streams) -> None:
    # Nothing waits for it when it is started, and what it has received is lost with it: best effort.
    command = ["nats-core", "--source=s", f"--subjects={stream_of('{check}')}", *streams.options]
    verdict = judge("source", command, {"kind": "redelivering"}, {})

    assert verdict.failed == set(), verdict.explained()
    assert verdict.named("passed") >= {"kind", "shutdown"}


def test_the_sink_passes(streams: Streams) -> None:
    subject = stream_of("sink-{check}")
    command = ["nats-sink", "--sink=s", f"--stream={subject}", f"--subject={subject}.a", *streams.options]
    commands = {"setup": lambda check: streams.make(f"sink-{check}"), "read": lambda check: streams.read(f"sink-{check}")}
    verdict = judge("sink", command, {"mode": "at-least-once"}, commands)

    assert verdict.failed == set(), verdict.explained()
    assert {"staged-survives", "visible", "large-part"} <= verdict.named("passed")

"""Faults of sources and of the network: each is named with its first cause, and is gone when it is repaired."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from scripts.brokers import Nats
from tests.brokers.network import FaultyNetwork
from tests.connectors.nats.rig import Server, connection, server
from tests.gateway.processes import headrace
from tests.gateway.wire import Engine
from tests.health.flows import One, connected, querying
from tests.health.site import DEADLINE_S, OwnSite, Site, site

from headrace.connectors.nats import NatsParameters, NatsRefused, NatsSource
from headrace.connectors.postgresql import PostgreSQLParameters, PostgreSQLSource
from headrace.connectors.rabbitmq import RabbitMQParameters, RabbitMQQueueSource
from headrace.machine.ports import free_address
from headrace.sdk import AsyncSource, Backlog, Message, Position, serve


def source(broker: Nats, name: str, stream: str, password: str | None = None) -> NatsSource:
    reached = {**connection(broker), **({"password": password} if password else {})}
    return NatsSource(NatsParameters.model_validate({"source": name, "stream": stream, **reached}))


UNKNOWN = "broker.invalid"
"""No server of names knows it, nor ever will: RFC 2606."""


def nats_source(name: str) -> AsyncSource:
    return NatsSource(NatsParameters.model_validate({"source": name, "stream": "s", "servers": [f"nats://{UNKNOWN}:4222"]}))


def postgresql_source(name: str) -> AsyncSource:
    url = f"postgresql://u@{UNKNOWN}:5432/d"
    given = {"source": name, "url": url, "table": "public.t", "sequence_column": "id"}
    return PostgreSQLSource(PostgreSQLParameters.model_validate(given))


def rabbitmq_source(name: str) -> AsyncSource:
    given = {"source": name, "url": f"amqp://{UNKNOWN}:5672", "queue": "q"}
    return RabbitMQQueueSource(RabbitMQParameters.model_validate(given))


async def filled(others: Server, **config: int) -> str:
    """A stream of the broker with one message."""
    stream = await others.stream(**config)
    await others.numbers(f"{stream}.x", 1)
    return stream


async def test_a_broker_that_is_stopped(nats: Nats, here: Site) -> None:
    async with server(nats.url) as others:
        stream = await filled(others)
    part, root = f"stream b/{stream}", "connector b"
    async with querying(here, "b"), connected(here, source(nats, "b", stream), f"b/{stream}"):
        await here.clears(part, root)
        await asyncio.to_thread(nats.stop)
        await here.names("connector-reports", part, str(nats.port), root=root)
        await asyncio.to_thread(nats.start)
        await here.clears(part, root)


@pytest.mark.parametrize(("make", "partition"), [(nats_source, "s"), (postgresql_source, "0"), (rabbitmq_source, "q")])
async def test_a_host_whose_name_no_server_knows(make: Callable[[str], AsyncSource], partition: str, here: Site) -> None:
    name = f"unknown-{make.__name__.partition('_')[0]}"
    async with querying(here, name):
        task = asyncio.create_task(serve(make(name), gateway=here.address))
        try:
            await here.names("connector-reports", f"connector {name}", UNKNOWN, waits=f"{name}/{partition}")
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        # A name that no server knows ever is repaired by another one.
        async with connected(here, One(name, partition), f"{name}/{partition}"):
            await here.clears(f"connector {name}")


async def test_a_host_whose_name_is_resolved_slowly(nats: Nats, here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connector waits for an answer of the server of names, and not for ever, and connects once there is one."""
    answers, real = threading.Event(), socket.getaddrinfo

    def resolve(host: Any, *arguments: Any, **named: Any) -> Any:
        if host == UNKNOWN:
            answers.wait(DEADLINE_S)
            host = "127.0.0.1"
        return real(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    async with server(nats.url) as others:
        stream = await filled(others)
    name = "slow-name"
    reached = {**connection(nats), "servers": [f"nats://{UNKNOWN}:{nats.port}"]}
    made = NatsSource(NatsParameters.model_validate({"source": name, "stream": stream, **reached}))
    async with querying(here, name):
        task = asyncio.create_task(serve(made, gateway=here.address))
        try:
            await here.names("connector-reports", f"connector {name}", UNKNOWN, waits=f"{name}/{stream}")
            answers.set()
            await here.clears(f"connector {name}")
        finally:
            answers.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_network_that_is_cut_between_connector_and_gateway(nats: Nats, here: Site) -> None:
    async with server(nats.url) as others:
        stream = await filled(others)
    part, root = f"stream n/{stream}", "connector n"
    with FaultyNetwork(int(here.address.rpartition(":")[2])) as network:
        async with querying(here, "n"), connected(here, source(nats, "n", stream), f"n/{stream}", network.address):
            await here.clears(part, root)
            network.cut()
            await here.names("connector-silent", part, "has sent nothing", root=root)
            network.restore()
            await here.clears(part, root)


class Forgetful(AsyncSource):
    """Ten messages in each of two partitions, one of which it stops reading although nothing is wrong."""

    name = "f"

    def __init__(self) -> None:
        self.read_on = asyncio.Event()
        self.left = {"0": 10, "1": 10}

    async def partitions(self) -> Sequence[str]:
        return tuple(self.left)

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | None]:
        for number in range(position.sequence if position else 0, 10):
            if partition == "1" and number == 3:
                await self.read_on.wait()
            self.left[partition] = 9 - number
            yield Message(b"%d" % number)
        while True:
            yield None

    async def backlog(self, partition: str) -> Backlog:
        return Backlog(messages=self.left[partition])


async def test_a_source_that_stops_reading_a_partition(here: Site) -> None:
    part, other = "stream f/1", "stream f/0"
    async with querying(here, "f"):
        made = Forgetful()
        async with connected(here, made, "f/1"):
            told = await here.names("source-stalled", part, ", and instance f, which has credit, sends nothing of it")
            assert "restart the connector" in told["remedy"]
            assert other not in await here.problems()
            made.read_on.set()
            await here.clears(part)


async def test_a_wrong_password(nats: Nats, here: Site) -> None:
    async with server(nats.url) as others:
        stream = await filled(others)
    part, root = f"stream w/{stream}", "connector w"
    async with querying(here, "w"):
        async with connected(here, source(nats, "w", stream), f"w/{stream}"):
            await here.clears(part, root)
        # Somebody has started it again with another password: it gives up.
        with pytest.raises(NatsRefused):
            await serve(source(nats, "w", stream, "guessed"), gateway=here.address)
        await here.names("connector-away", part, "password", root=root)
        async with connected(here, source(nats, "w", stream), f"w/{stream}"):
            await here.clears(part, root)


async def test_an_expired_position(nats: Nats, here: Site) -> None:
    async with server(nats.url) as others:
        stream = await filled(others, max_msgs=2)
        part, reader = f"stream e/{stream}", "pipeline reads-e"
        async with querying(here, "e") as query:
            async with connected(here, source(nats, "e", stream), f"e/{stream}"):
                await query.plan_until(f"e/{stream}", 1)
                await query.plan({f"e/{stream}": 1}, wait_ms=0)
            await others.numbers(f"{stream}.x", 9, first=1)
            task = asyncio.create_task(serve(source(nats, "e", stream), gateway=here.address))
            await here.names("position-lost", part, "no longer has messages 2 to 8")
            await here.names("position-lost", reader, "no longer has messages 2 to 8", root=part, waits=f"e/{stream}")
        # As the query does that somebody starts again with failOnDataLoss=false.
        async with querying(here, "e", skip_lost=True, run=2) as query:
            await query.plan_until(f"e/{stream}", 10)
            await here.clears(part, reader)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_a_paused_pipeline(nats: Nats, here: Site) -> None:
    async with server(nats.url) as others:
        stream = await filled(others)
    part = "pipeline reads-p"
    async with querying(here, "p"), connected(here, source(nats, "p", stream), f"p/{stream}"):
        await here.clears(part)
        is_paused = here.names("paused", part, "paused by", waits=f"p/{stream}")
        for command, seen in (("pause", is_paused), ("resume", here.clears(part))):
            done = await asyncio.to_thread(headrace, command, "pipeline", "reads-p", "--gateway", here.address)
            assert done.returncode == 0, done.stderr
            await seen


@pytest.mark.parametrize(("seconds", "way"), [(7_200, "forward"), (-7_200, "back")])
async def test_a_clock_that_is_set(here: OwnSite, seconds: int, way: str) -> None:
    here.shift.write_text(str(seconds))
    await here.names("clock-jumped", "gateway", f"was set {way} by 7200.", waits=None)
    here.shift.write_text("0")
    await here.clears("gateway")


async def test_a_gateway_that_is_restarted(nats: Nats, tmp_path: Path) -> None:
    async with server(nats.url) as others:
        stream = await filled(others)
        listen, http = free_address(), free_address()
        name, part = f"g/{stream}", f"stream g/{stream}"
        with site(tmp_path, listen, http, limits="drain_timeout_seconds = 600") as old:
            query = Engine(listen, "reads-g", streams="g/*")
            await query.attach()
            async with connected(old, source(nats, "g", stream), name):
                await query.plan_until(name, 1)
                # It stops, and waits until what it has received is committed.
                old.gateway.process.terminate()
                await old.names("stopping", "gateway", "the gateway is stopping", waits=None)
                await query.plan({name: 1}, wait_ms=0)
                await query.close()
                assert await asyncio.to_thread(old.gateway.wait) == 0
                with site(tmp_path, listen, http) as new:
                    query = Engine(listen, "reads-g", streams="g/*")
                    await query.attach({name: 1})
                    await new.clears("gateway", part, "source g", "connector g")
                    await others.numbers(f"{stream}.x", 1, first=1)
                    await query.plan_until(name, 2)
                    await query.close()

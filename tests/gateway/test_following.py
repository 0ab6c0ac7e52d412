"""A run in real-time mode follows its streams: it is sent what arrives, before it is planned."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
from tests.gateway.wire import DEADLINE_S, REDELIVERING, REPLAYABLE, Connector, Engine, numbered, positions, serve, values_of

from headrace.gateway.config import Token
from headrace.gateway.core import Gateway
from headrace.gateway.core.base import bounds
from headrace.gateway.identity import TokenRegistry
from headrace.protocol.v1 import engine_pb2
from headrace.protocol.v1.frame_pb2 import Frame

NEW_TOKENS = TokenRegistry([Token(name="clerk", sha256=("0" * 64,))])


class Following:
    """A call of an engine that follows streams."""

    def __init__(self, engine: Engine, at: Mapping[str, Any]) -> None:
        request = engine_pb2.FollowRequest(pipeline=engine.who, positions=positions(dict(at)))
        self._call = engine.stub.Follow(request)

    async def next(self) -> list[tuple[int, Frame]]:
        """The next frames, each with the index of its stream."""
        async with asyncio.timeout(DEADLINE_S):
            response = await self._call.read()
        assert isinstance(response, engine_pb2.FollowResponse), await self._call.code()
        return [(found.range, found.frame) for found in response.frames]

    async def until(self, value: bytes) -> list[bytes]:
        """The values up to one that arrives last."""
        found: list[bytes] = []
        while value not in found:
            found += values_of([frame for _, frame in await self.next()])
        return found

    async def code(self) -> tuple[grpc.StatusCode, str]:
        """How the call ends."""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(grpc.aio.AioRpcError):
                while await self._call.read() is not grpc.aio.EOF:
                    pass
            return await self._call.code(), await self._call.details()

    def cancel(self) -> None:
        """Ends the call."""
        self._call.cancel()


@asynccontextmanager
async def world(kind: Any = REPLAYABLE) -> AsyncIterator[tuple[Connector, Engine, str]]:
    """A source with `orders/0`, and a pipeline that reads it."""
    async with serve() as (_, address):
        engine, source = Engine(address), Connector(address)
        await engine.attach()
        await source.hello()
        await source.open(kind=kind)
        await source.expect("stream_opened")
        yield source, engine, address
        for client in (source, engine):
            await client.close()


async def test_what_arrives_is_sent_at_once_and_acknowledges_and_plans_nothing() -> None:
    async with world() as (source, engine, _):
        following = Following(engine, {"orders/0": None})
        for first in (1, 4, 7):
            await source.send(frame=numbered(1, first, 3))
            assert await following.until(b"%d" % (first + 2)) == [b"%d" % (first + n) for n in range(3)]
        (planned,) = (await engine.plan()).ranges
        assert (planned.end.sequence, planned.messages) == (9, 9)
        (status,) = (await engine.status()).streams
        assert not status.acknowledged.sequence


async def test_it_is_sent_what_follows_its_position() -> None:
    async with world() as (source, engine, _):
        await source.send(frame=numbered(1, 1, 5))
        await source.send(frame=numbered(1, 6, 5))
        await engine.plan_until("orders/0", 10)
        following = Following(engine, {"orders/0": 5})
        assert await following.until(b"10") == [b"%d" % n for n in range(6, 11)]


async def test_a_stream_that_appears_later_is_awaited() -> None:
    async with world() as (source, engine, _):
        following = Following(engine, {"orders/1": None, "orders/0": None})
        await source.open("orders/1", 2)
        await source.expect("stream_opened")
        await source.send(frame=numbered(2, 1, 1))
        assert [index for index, _ in await following.next()] == [0]
        await source.send(frame=numbered(1, 1, 1))
        assert [index for index, _ in await following.next()] == [1]


async def test_after_a_restart_a_source_that_sends_again_is_followed_from_where_the_run_was() -> None:
    async with serve() as (_, address):
        engine, source = Engine(address), Connector(address)
        await engine.attach(committed={"orders/0": 2})
        following = Following(engine, {"orders/0": 4})
        await source.hello()
        await source.open()
        assert (await source.expect("stream_opened")).resume.sequence == 2
        await source.send(frame=numbered(1, 3, 2))
        await source.send(frame=numbered(1, 5, 2))
        assert await following.until(b"6") == [b"5", b"6"]
        for client in (source, engine):
            await client.close()


async def test_only_a_run_that_is_attached_follows() -> None:
    async with world() as (_, _, address):
        stranger = Engine(address, "stranger")
        assert (await Following(stranger, {"orders/0": None}).code())[0] is grpc.StatusCode.NOT_FOUND
        await stranger.close()


async def test_it_may_follow_only_what_its_query_reads_and_each_stream_once() -> None:
    async with world() as (_, engine, _):
        assert (await Following(engine, {"payroll/0": None}).code())[0] is grpc.StatusCode.PERMISSION_DENIED
        assert (await Following(engine, {"orders/ü": None}).code())[0] is grpc.StatusCode.INVALID_ARGUMENT
        doubled = engine_pb2.FollowRequest(pipeline=engine.who, positions=positions({"orders/0": None}) * 2)
        call = engine.stub.Follow(doubled, timeout=DEADLINE_S)
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_newer_call_ends_the_older_one() -> None:
    async with world() as (source, engine, _):
        older = Following(engine, {"orders/0": None})
        await source.send(frame=numbered(1, 1, 1))
        await older.until(b"1")
        newer = Following(engine, {"orders/0": 1})
        assert (await older.code())[0] is grpc.StatusCode.ABORTED
        await source.send(frame=numbered(1, 2, 1))
        assert await newer.until(b"2") == [b"2"]


async def test_a_newer_run_ends_the_call_of_the_older_one() -> None:
    async with world() as (source, engine, address):
        older = Following(engine, {"orders/0": None})
        await source.send(frame=numbered(1, 1, 1))
        await older.until(b"1")
        later = Engine(address, run=2)
        await later.attach()
        assert (await older.code())[0] is grpc.StatusCode.ABORTED
        assert (await Following(engine, {"orders/0": None}).code())[0] is grpc.StatusCode.ABORTED
        await later.close()


async def test_a_redelivering_source_cannot_be_followed() -> None:
    async with world(REDELIVERING) as (source, engine, _):
        following = Following(engine, {"orders/0": None})
        await source.send(frame=numbered(1, 1, 1))
        code, details = await following.code()
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert "orders/0" in details


async def test_a_caller_that_reads_slowly_is_sent_everything_once() -> None:
    async with world() as (source, engine, _):
        following = Following(engine, {"orders/0": None})
        for first in range(1, 2001, 100):
            await source.send(frame=numbered(1, first, 100))
        await engine.plan_until("orders/0", 2000)
        assert await following.until(b"2000") == [b"%d" % n for n in range(1, 2001)]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda gateway: gateway.close(), grpc.StatusCode.UNAVAILABLE),
        (lambda gateway: gateway.end_revoked(NEW_TOKENS), grpc.StatusCode.UNAUTHENTICATED),
    ],
)
async def test_a_gateway_that_stops_and_a_token_that_is_revoked_end_the_call(
    end: Callable[[Gateway], object], code: grpc.StatusCode
) -> None:
    async with serve() as (gateway, address):
        engine = Engine(address)
        await engine.attach()
        following = Following(engine, {"orders/0": None})
        await engine.status_once(lambda _: gateway.pipelines[engine.who.name].follower is not None)
        end(gateway)
        assert (await following.code())[0] is code
        await engine.close()


async def test_a_connector_collects_messages_for_a_shorter_time_while_it_is_followed() -> None:
    async with world() as (source, engine, _):
        following = Following(engine, {"orders/0": None})
        assert [await pace_of(source), following.cancel(), await pace_of(source)] == [1, None, 5]


async def pace_of(source: Connector) -> int:
    """The next pace that a connector receives, in milliseconds."""
    while (response := await source.receive()).WhichOneof("message") != "pace":
        pass
    return response.pace.linger_ms


async def test_many_streams_in_one_call_and_long_names_are_refused() -> None:
    async with world() as (_, engine, _):
        many = positions({f"orders/{n}": None for n in range(bounds.MAX_POSITIONS + 1)})
        call = engine.stub.Follow(engine_pb2.FollowRequest(pipeline=engine.who, positions=many), timeout=DEADLINE_S)
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        long = engine_pb2.Pipeline(name="p" * 256, run=1, streams=["orders/*"])
        call = engine.stub.Follow(engine_pb2.FollowRequest(pipeline=long), timeout=DEADLINE_S)
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_run_that_has_detached_follows_nothing() -> None:
    async with world() as (_, engine, _):
        await engine.detach()
        assert (await Following(engine, {"orders/0": None}).code())[0] is grpc.StatusCode.NOT_FOUND

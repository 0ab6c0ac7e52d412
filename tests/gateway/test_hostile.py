"""Hostile and broken connectors: each gets a status of its own, others do not notice, and memory returns."""

import asyncio
import resource
import struct
from collections.abc import Callable
from contextlib import suppress

import grpc
import pytest
from tests.gateway.wire import Connector, Engine, frame, numbered, serve, values_of

from headrace.gateway.config import Limits
from headrace.protocol.v1 import source_pb2
from headrace.protocol.v1.frame_pb2 import Frame

MakeConnector = Callable[[], Connector]
MakeEngine = Callable[..., Engine]

SMALL = Limits(buffer_bytes=2**20, max_frame_bytes=2**16, max_frame_messages=1000, session_messages=2000, max_sessions=16)


def broken(**columns: object) -> Frame:
    """A good frame of two messages with some columns replaced."""
    good = frame(1, 10, [b"ab", b"c"])
    for name, value in columns.items():
        setattr(good, name, value)
    return good


BROKEN_FRAMES = {
    "no messages": (broken(count=0), grpc.StatusCode.INVALID_ARGUMENT, "count 0"),
    "values too short": (broken(values=b"a"), grpc.StatusCode.INVALID_ARGUMENT, "values"),
    "values too long": (broken(values=b"abcd"), grpc.StatusCode.INVALID_ARGUMENT, "values"),
    "too few lengths": (broken(value_lengths=b"\x01\0\0\0"), grpc.StatusCode.INVALID_ARGUMENT, "values"),
    "no lengths": (broken(value_lengths=b""), grpc.StatusCode.INVALID_ARGUMENT, "values"),
    "lengths that overflow": (broken(value_lengths=b"\xfe\xff\xff\xff" * 2), grpc.StatusCode.INVALID_ARGUMENT, "values"),
    "keys without lengths": (broken(keys=b"k"), grpc.StatusCode.INVALID_ARGUMENT, "keys"),
    "odd event times": (broken(event_times=b"\0" * 15), grpc.StatusCode.INVALID_ARGUMENT, "event_times"),
    "too few deltas": (broken(sequence_deltas=b"\0"), grpc.StatusCode.INVALID_ARGUMENT, "sequence_deltas"),
    "a delta of 0": (broken(sequence_deltas=b"\0\0\0\0"), grpc.StatusCode.INVALID_ARGUMENT, "sequence_deltas"),
    "headers without counts": (broken(header_names=b"h"), grpc.StatusCode.INVALID_ARGUMENT, "header_counts"),
    "a header without a name": (
        broken(header_counts=struct.pack("<2I", 1, 0), header_name_lengths=b"\xff" * 4, header_value_lengths=b"\0" * 4),
        grpc.StatusCode.INVALID_ARGUMENT,
        "header_names",
    ),
    "a huge cursor": (broken(cursor=b"c" * 33_000), grpc.StatusCode.INVALID_ARGUMENT, "cursor"),
    "a huge sequence": (broken(first_sequence=2**63 - 1), grpc.StatusCode.OUT_OF_RANGE, "2^63"),
    "too many bytes": (frame(1, 10, [b"v" * 2**17]), grpc.StatusCode.RESOURCE_EXHAUSTED, "max_frame_bytes is 65536"),
    "too many messages": (frame(1, 10, [b""] * 1001), grpc.StatusCode.RESOURCE_EXHAUSTED, "max_frame_messages is 1000"),
    "an unknown stream": (frame(99, 10, [b"v"]), grpc.StatusCode.NOT_FOUND, "99"),
}


@pytest.mark.parametrize("case", BROKEN_FRAMES)
async def test_a_broken_frame_ends_its_session_and_no_other(case: str) -> None:
    bad_frame, code, words = BROKEN_FRAMES[case]
    async with serve(SMALL) as (gateway, address):
        good, bad, pipeline = Connector(address), Connector(address), Engine(address)
        await pipeline.attach()
        for name, client in (("good", good), ("bad", bad)):
            await client.hello(name)
            await client.open(f"orders/{name}")
            await client.expect("stream_opened")
        await bad.send(frame=bad_frame)
        status, details = await bad.ended()
        assert status is code
        assert words in details
        await good.send(frame=numbered(1, 0, 10))
        planned = await pipeline.plan_until("orders/good", 9)
        assert len(values_of(await pipeline.fetch("orders/good", None, planned.end))) == 10
        assert gateway.rejected_sessions == {code.name: 1}
        for client in (good, bad, pipeline):
            await client.close()


async def test_a_sequence_that_steps_back_is_refused(connector: MakeConnector, engine: MakeEngine) -> None:
    source, pipeline = connector(), engine()
    await pipeline.attach()
    await source.hello()
    await source.open()
    await source.expect("stream_opened")
    await source.send(frame=numbered(1, 10, 10))
    await source.send(frame=numbered(1, 19, 2))
    status, details = await source.ended()
    assert status is grpc.StatusCode.OUT_OF_RANGE
    assert "orders/0" in details
    assert "19" in details


@pytest.mark.parametrize("version", [0, 2, 4_000_000_000])
async def test_a_wrong_version_is_told_the_right_one(connector: MakeConnector, version: int) -> None:
    source = connector()
    await source.send(hello=source_pb2.Hello(protocol_version=version, connector="c", instance="i"))
    status, details = await source.ended()
    assert status is grpc.StatusCode.FAILED_PRECONDITION
    assert "speaks 1" in details


@pytest.mark.parametrize(
    "message",
    [
        {"goodbye": source_pb2.Goodbye()},
        {"frame": numbered(1, 0, 1)},
        {"hello": source_pb2.Hello(protocol_version=1)},
        {},
    ],
    ids=["goodbye", "frame", "nameless", "empty"],
)
async def test_a_session_begins_with_a_whole_hello(connector: MakeConnector, message: dict[str, object]) -> None:
    source = connector()
    await source.send(**message)
    assert (await source.ended())[0] is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_silent_client_is_shown_out() -> None:
    async with serve(Limits(hello_timeout_seconds=0.05)) as (_, address):
        source = Connector(address)
        await source.call.wait_for_connection()
        assert (await source.ended())[0] is grpc.StatusCode.DEADLINE_EXCEEDED
        await source.close()


@pytest.mark.parametrize("name", ["", "orders", "orders/", "/0", "a/b/c", "orders/*", "orders/0 ", "o" * 254 + "/0", "ördér/0"])
async def test_a_bad_stream_name_is_refused(connector: MakeConnector, name: str) -> None:
    source = connector()
    await source.hello()
    await source.open(name)
    assert (await source.ended())[0] is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_frame_before_its_stream_is_open_is_refused(connector: MakeConnector) -> None:
    source = connector()
    await source.hello()
    await source.open()
    await source.send(frame=numbered(1, 0, 1))
    assert (await source.ended())[0] is grpc.StatusCode.FAILED_PRECONDITION


async def test_credit_is_enforced() -> None:
    async with serve(SMALL) as (gateway, address):
        source, pipeline = Connector(address), Engine(address)
        await pipeline.attach()
        welcome = await source.hello()
        await source.open()
        await source.expect("stream_opened")
        size = 40_000
        for n in range(welcome.credit.bytes // size + 1):
            await source.send(frame=frame(1, n, [b"v" * size]))
        status, details = await source.ended()
        assert status is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "credit overrun" in details
        held = sum(stream.held_bytes for stream in gateway.streams.values())
        assert held <= SMALL.buffer_bytes
        for client in (source, pipeline):
            await client.close()


async def test_credit_comes_back_with_the_commit_and_a_message_at_a_time_is_enough() -> None:
    limits = Limits(session_messages=1)
    async with serve(limits) as (_, address):
        source, pipeline = Connector(address), Engine(address)
        await pipeline.attach()
        assert (await source.hello()).credit.messages == 1
        await source.open()
        await source.expect("stream_opened")
        for n in range(20):
            await source.send(frame=numbered(1, n, 1))
            await pipeline.plan_until("orders/0", n)
            await pipeline.plan({"orders/0": n}, wait_ms=0)
            assert (await source.expect("ack")).credit.messages == 1
        for client in (source, pipeline):
            await client.close()


async def test_a_frame_larger_than_the_window_gets_its_credit_when_it_asks() -> None:
    limits = Limits(buffer_bytes=2**24, max_frame_bytes=2**22, max_sessions=4000)
    async with serve(limits) as (_, address):
        pipeline = Engine(address)
        await pipeline.attach()
        crowd = []
        for n in range(30):
            crowd.append(Connector(address))
            await crowd[-1].hello(f"i{n}")
        source = crowd[-1]
        assert source.welcome.credit.bytes < 2**20
        await source.open()
        await source.expect("stream_opened")
        for client in crowd[:-1]:
            await client.close()
        await source.send(credit_request=source_pb2.CreditRequest(bytes=2**20 + 100, messages=1, stream_id=1))
        credit = source.welcome.credit.bytes
        while credit < 2**20 + 100:
            credit += (await source.expect_credit()).bytes
        await source.send(frame=frame(1, 0, [b"v" * 2**20]))
        await pipeline.plan_until("orders/0", 0)
        for client in (source, pipeline):
            await client.close()


async def test_garbage_on_the_port_does_not_matter(address: str, connector: MakeConnector) -> None:
    host, port = address.split(":")
    for garbage in (
        b"\0" * 1000,
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 5000,
        bytes(range(256)) * 100,
    ):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(garbage)
        with suppress(ConnectionError, TimeoutError):
            await asyncio.wait_for(reader.read(), 5)
        writer.close()
    garbled = grpc.aio.insecure_channel(address)
    call = garbled.stream_stream("/headrace.protocol.v1.SourceService/Ingest")()
    await call.write(b"\xff\xff\xff\xff not protobuf")
    assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
    await garbled.close()
    assert (await connector().hello()).protocol_version == 1


async def test_a_client_that_never_reads_costs_a_bounded_amount(connector: MakeConnector, engine: MakeEngine) -> None:
    deaf, source, pipeline = connector(), connector(), engine()
    await pipeline.attach()
    for name, client in (("deaf", deaf), ("good", source)):
        await client.hello(name)
        await client.open(f"orders/{name}")
        await client.expect("stream_opened")
    for n in range(2000):
        await deaf.send(frame=numbered(1, n, 1))
        await pipeline.plan({"orders/deaf": n}, wait_ms=0)
    await source.send(frame=numbered(1, 0, 10))
    await pipeline.plan_until("orders/good", 9)


async def test_a_thousand_sessions_come_and_go_and_their_memory_with_them(address: str, engine: MakeEngine) -> None:
    pipeline = engine()
    await pipeline.attach()

    async def come_and_go(n: int) -> None:
        client = Connector(address)
        await client.hello(f"i{n}")
        await client.open(f"orders/{n % 7}-{n}")
        await client.expect("stream_opened")
        await client.send(frame=frame(1, 0, [b"v" * 1000]))
        await client.close()

    async def crowd() -> None:
        for begin in range(0, 1000, 50):
            await asyncio.gather(*(come_and_go(n) for n in range(begin, begin + 50)))

    async def nobody_left() -> None:
        async with asyncio.timeout(60):
            while (await pipeline.status()).sessions:
                pass

    await crowd()
    await nobody_left()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await crowd()
    await nobody_left()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 30_000, f"{(after - before) / 1000:.0f} MB more after a thousand sessions more"


async def test_more_sessions_than_allowed_are_refused_and_a_free_place_is_given_again() -> None:
    async with serve(Limits(max_sessions=1)) as (gateway, address):
        first, second, third = (Connector(address) for _ in range(3))
        await first.hello("first")
        await second.send(hello=source_pb2.Hello(protocol_version=1, connector="c", instance="second"))
        assert (await second.ended())[0] is grpc.StatusCode.UNAVAILABLE, "worth another try, later"
        await first.send(goodbye=source_pb2.Goodbye())
        await first.ended()
        await third.hello("third")
        assert len(gateway.sessions) == 1
        for client in (first, second, third):
            await client.close()

"""Every reason for which the gateway ends a session, said over the wire: status, reason and metadata."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

import grpc.aio
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status
from tests.gateway.sink_wire import AT_LEAST_ONCE, IDEMPOTENT, SinkClient, Writer, transaction
from tests.gateway.wire import DEADLINE_S, Connector, Engine, frame, numbered, serve

from headrace.contract.limits import PROTOCOL_VERSION
from headrace.gateway.config import Limits, Token
from headrace.gateway.core import VERSION, Gateway
from headrace.gateway.core.streams.frames import OVERHEAD_BYTES
from headrace.gateway.identity import TokenRegistry
from headrace.protocol.v1 import connector_pb2, sink_pb2, source_pb2, source_pb2_grpc

SECRET = "s-1"
CLERK = Token(name="clerk", sha256=(hashlib.sha256(SECRET.encode()).hexdigest(),), sinks=("theirs",))


@dataclass
class Stage:
    """A gateway, and its callers, which are closed at the end."""

    gateway: Gateway
    address: str
    stack: AsyncExitStack

    def connector(self) -> Connector:
        return self._kept(Connector(self.address))

    def sink(self) -> SinkClient:
        return self._kept(SinkClient(self.address))

    def writer(self) -> Writer:
        return self._kept(Writer(self.address))

    def engine(self) -> Engine:
        return self._kept(Engine(self.address))

    async def session(self, instance: str = "test-0") -> Connector:
        connector = self.connector()
        await connector.hello(instance)
        return connector

    async def opened(self, kind: source_pb2.SourceKind.ValueType = source_pb2.SOURCE_KIND_REPLAYABLE) -> Connector:
        """A session with the stream orders/0 open as id 1."""
        connector = await self.session()
        await connector.open(kind=kind)
        await self.engine().attach()
        await connector.expect("stream_opened")
        return connector

    def with_token(self, secret: str | None) -> Any:
        """A source's call with a token."""
        channel = grpc.aio.insecure_channel(self.address)
        self.stack.push_async_callback(channel.close)
        metadata = () if secret is None else (("authorization", f"Bearer {secret}"),)
        return source_pb2_grpc.SourceServiceStub(channel).Ingest(metadata=metadata)

    def _kept(self, client: Any) -> Any:
        self.stack.push_async_callback(client.close)
        return client


Play = Callable[[Stage], Awaitable[Any]]
"""Does what is wrong; returns the call that the gateway ends."""


async def a_frame_without_messages(stage: Stage) -> Any:
    connector = await stage.opened()
    await connector.send(frame=frame(1, 7, []))
    return connector.call


async def a_nameless_hello(stage: Stage) -> Any:
    connector = stage.connector()
    await connector.send(hello=source_pb2.Hello(protocol_version=1, instance="i"))
    return connector.call


async def bytes_that_are_no_message(stage: Stage) -> Any:
    channel = grpc.aio.insecure_channel(stage.address)
    stage.stack.push_async_callback(channel.close)
    call = channel.stream_stream("/headrace.protocol.v1.SourceService/Ingest")()
    await call.write(b"\xff\xff\xff")
    return call


async def refusals_out_of_order(stage: Stage) -> Any:
    sink = stage.sink()
    await sink.hello()
    stage.stack.push_async_callback(_cancel, stage.writer().deliver(3, [b"a", b"b"]))
    for kind in ("start_part", "frame", "end_part"):
        found = await sink.expect(kind)
    refused = [sink_pb2.Staged.Refused(sequence=n) for n in (1, 0)]
    await sink.send(staged=sink_pb2.Staged(id=found.id, refused=refused))
    return sink.call


async def a_newer_connector(stage: Stage) -> Any:
    connector = stage.connector()
    await connector.send(hello=source_pb2.Hello(protocol_version=2, connector="c", instance="i"))
    return connector.call


async def an_older_sink(stage: Stage) -> Any:
    sink = stage.sink()
    await sink.send(hello=sink_pb2.SinkHello(protocol_version=0, connector="c", instance="i", sink="out"))
    return sink.call


async def no_hello(stage: Stage) -> Any:
    connector = stage.connector()
    await connector.send(goodbye=source_pb2.Goodbye())
    return connector.call


async def two_hellos(stage: Stage) -> Any:
    connector = await stage.session()
    await connector.send(hello=source_pb2.Hello(protocol_version=1, connector="c", instance="i"))
    return connector.call


async def two_hellos_of_a_sink(stage: Stage) -> Any:
    sink = stage.sink()
    await sink.hello()
    await sink.send(hello=sink_pb2.SinkHello(protocol_version=1, connector="c", instance="i", sink="out"))
    return sink.call


async def a_frame_of_a_parked_stream(stage: Stage) -> Any:
    connector = await stage.session()
    await connector.open()
    await connector.send(frame=numbered(1, 1, 1))
    return connector.call


async def an_answer_to_nothing(stage: Stage) -> Any:
    sink = stage.sink()
    await sink.hello()
    await sink.send(staged=sink_pb2.Staged(id=4))
    return sink.call


async def an_empty_message(stage: Stage) -> Any:
    connector = await stage.session()
    await connector.send()
    return connector.call


async def an_empty_message_of_a_sink(stage: Stage) -> Any:
    sink = stage.sink()
    await sink.hello()
    await sink.send()
    return sink.call


async def a_frame_of_an_unknown_stream(stage: Stage) -> Any:
    connector = await stage.session()
    await connector.send(frame=numbered(9, 1, 1))
    return connector.call


async def a_credit_request_of_an_unknown_stream(stage: Stage) -> Any:
    connector = await stage.session()
    await connector.send(credit_request=source_pb2.CreditRequest(stream_id=9, bytes=1, messages=1))
    return connector.call


async def a_sequence_that_steps_back(stage: Stage) -> Any:
    connector = await stage.opened()
    await connector.send(frame=numbered(1, 5, 1))
    await connector.send(frame=numbered(1, 5, 1))
    return connector.call


async def a_sequence_beyond_63_bits(stage: Stage) -> Any:
    connector = await stage.opened()
    await connector.send(frame=numbered(1, 2**63, 1))
    return connector.call


async def a_frame_of_too_many_bytes(stage: Stage) -> Any:
    connector = await stage.opened()
    await connector.send(frame=frame(1, 1, [b"v" * 2000]))
    return connector.call


async def a_frame_of_too_many_messages(stage: Stage) -> Any:
    connector = await stage.opened()
    await connector.send(frame=frame(1, 1, [b"v"] * 11))
    return connector.call


async def a_request_for_too_many_messages(stage: Stage) -> Any:
    connector = await stage.opened()
    await connector.send(credit_request=source_pb2.CreditRequest(stream_id=1, bytes=1, messages=11))
    return connector.call


async def a_frame_without_credit(stage: Stage) -> Any:
    connector = await stage.opened()
    for first in (1, 3):
        await connector.send(frame=numbered(1, first, 2))
    return connector.call


async def one_stream_too_many(stage: Stage) -> Any:
    connector = await stage.session()
    for n in (1, 2):
        await connector.open(f"orders/{n}", n)
    return connector.call


async def one_session_too_many(stage: Stage) -> Any:
    await stage.session()
    connector = stage.connector()
    await connector.send(hello=source_pb2.Hello(protocol_version=1, connector="c", instance="other"))
    return connector.call


async def one_sink_too_many(stage: Stage) -> Any:
    stage.gateway.sinks.update({f"s{n}": stage.gateway.sink("first") for n in range(999)})
    sink = stage.sink()
    await sink.send(hello=sink_pb2.SinkHello(protocol_version=1, connector="c", instance="i", sink="new", mode=AT_LEAST_ONCE))
    return sink.call


async def a_long_list(stage: Stage) -> Any:
    sink = stage.sink()
    hello = sink_pb2.SinkHello(protocol_version=1, connector="c", instance="i", sink="out", mode=AT_LEAST_ONCE)
    hello.committed.extend(transaction(n) for n in range(20_001))
    await sink.send(hello=hello)
    return sink.call


async def silence(stage: Stage) -> Any:
    return stage.connector().call


async def a_sink_that_reads_nothing(stage: Stage) -> Any:
    sink, writer = stage.sink(), stage.writer()
    await sink.hello()
    deliveries = [writer.deliver(0, [b"v" * 2**20] * 3, partition=n) for n in range(8)]
    await asyncio.wait(deliveries)
    for delivery in deliveries:
        delivery.exception()
    return sink.call


async def no_token(stage: Stage) -> Any:
    return stage.with_token(None)


async def an_unknown_token(stage: Stage) -> Any:
    return stage.with_token("guessed")


async def a_token_without_the_right(stage: Stage) -> Any:
    return stage.with_token(SECRET)


async def a_sink_that_the_token_does_not_permit(stage: Stage) -> Any:
    sink = SinkClient(stage.address, token=SECRET)
    stage.stack.push_async_callback(sink.close)
    await sink.send(hello=sink_pb2.SinkHello(protocol_version=1, connector="c", instance="i", sink="ours", mode=AT_LEAST_ONCE))
    return sink.call


async def a_token_that_is_replaced(stage: Stage) -> Any:
    connector = await stage.session()
    assert stage.gateway.end_revoked(TokenRegistry([CLERK])) == 1
    return connector.call


async def a_newer_session(stage: Stage) -> Any:
    older = await stage.opened()
    newer = await stage.session()
    await newer.open()
    await newer.expect("stream_opened")
    return older.call


async def a_newer_session_of_a_sink(stage: Stage) -> Any:
    older, newer = stage.sink(), stage.sink()
    await older.hello()
    await newer.hello()
    return older.call


async def a_gateway_that_stops(stage: Stage) -> Any:
    connector = await stage.session()
    stage.gateway.close()
    return connector.call


async def a_sink_of_another_mode(stage: Stage) -> Any:
    await stage.sink().hello("one", mode=IDEMPOTENT)
    sink = stage.sink()
    await sink.send(hello=sink_pb2.SinkHello(protocol_version=1, connector="c", instance="two", sink="out", mode=AT_LEAST_ONCE))
    return sink.call


async def _cancel(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.wait({task})


SMALL = Limits(max_frame_bytes=1024, max_frame_messages=10)
VERSIONS = {"supported_versions": str(PROTOCOL_VERSION), "gateway_version": VERSION}
FRAME_BYTES = numbered(1, 1, 2).ByteSize() + OVERHEAD_BYTES
Case = tuple[Play, str, grpc.StatusCode, Mapping[str, str], Limits, tuple[Token, ...]]


def case(
    play: Play,
    reason: str,
    status: grpc.StatusCode,
    limits: Limits | None = None,
    tokens: tuple[Token, ...] = (),
    **metadata: str,
) -> Case:
    return play, reason, status, metadata, limits or Limits(), tokens


S = grpc.StatusCode
CASES = [
    case(a_frame_without_messages, "MALFORMED_MESSAGE", S.INVALID_ARGUMENT, stream="orders/0", sequence="7"),
    case(a_nameless_hello, "MESSAGE_OUT_OF_ORDER", S.FAILED_PRECONDITION),
    case(bytes_that_are_no_message, "MALFORMED_MESSAGE", S.INVALID_ARGUMENT),
    case(refusals_out_of_order, "MALFORMED_MESSAGE", S.INVALID_ARGUMENT, sink="out", pipeline="query", batch="3"),
    case(a_newer_connector, "PROTOCOL_VERSION_UNSUPPORTED", S.FAILED_PRECONDITION, version="2", upgrade="gateway", **VERSIONS),
    case(an_older_sink, "PROTOCOL_VERSION_UNSUPPORTED", S.FAILED_PRECONDITION, version="0", upgrade="connector", **VERSIONS),
    case(no_hello, "MESSAGE_OUT_OF_ORDER", S.FAILED_PRECONDITION),
    case(two_hellos, "MESSAGE_OUT_OF_ORDER", S.FAILED_PRECONDITION),
    case(two_hellos_of_a_sink, "MESSAGE_OUT_OF_ORDER", S.FAILED_PRECONDITION, sink="out"),
    case(a_frame_of_a_parked_stream, "MESSAGE_OUT_OF_ORDER", S.FAILED_PRECONDITION, stream="orders/0"),
    case(an_answer_to_nothing, "MESSAGE_OUT_OF_ORDER", S.FAILED_PRECONDITION, sink="out"),
    case(an_empty_message, "MESSAGE_UNKNOWN", S.FAILED_PRECONDITION),
    case(an_empty_message_of_a_sink, "MESSAGE_UNKNOWN", S.FAILED_PRECONDITION, sink="out"),
    case(a_frame_of_an_unknown_stream, "UNKNOWN_STREAM", S.NOT_FOUND, stream_id="9"),
    case(a_credit_request_of_an_unknown_stream, "UNKNOWN_STREAM", S.NOT_FOUND, stream_id="9"),
    case(a_sequence_that_steps_back, "SEQUENCE_OUT_OF_RANGE", S.OUT_OF_RANGE, stream="orders/0", sequence="5"),
    case(a_sequence_beyond_63_bits, "SEQUENCE_OUT_OF_RANGE", S.OUT_OF_RANGE, stream="orders/0", sequence=str(2**63)),
    case(
        a_frame_of_too_many_bytes,
        "FRAME_TOO_LARGE",
        S.RESOURCE_EXHAUSTED,
        SMALL,
        stream="orders/0",
        sequence="1",
        limit="max_frame_bytes",
        maximum="1024",
        actual=str(frame(1, 1, [b"v" * 2000]).ByteSize()),
    ),
    case(
        a_frame_of_too_many_messages,
        "FRAME_TOO_LARGE",
        S.RESOURCE_EXHAUSTED,
        SMALL,
        stream="orders/0",
        sequence="1",
        limit="max_frame_messages",
        maximum="10",
        actual="11",
    ),
    case(
        a_request_for_too_many_messages,
        "FRAME_TOO_LARGE",
        S.RESOURCE_EXHAUSTED,
        SMALL,
        limit="max_frame_messages",
        maximum="10",
        actual="11",
    ),
    case(
        a_frame_without_credit,
        "CREDIT_OVERRUN",
        S.RESOURCE_EXHAUSTED,
        Limits(session_messages=3),
        limit="messages",
        maximum="1",
        actual="2",
    ),
    case(
        one_stream_too_many,
        "TOO_MANY_STREAMS",
        S.RESOURCE_EXHAUSTED,
        Limits(max_streams_per_session=1),
        limit="max_streams_per_session",
        maximum="1",
    ),
    case(one_session_too_many, "TOO_MANY_SESSIONS", S.UNAVAILABLE, Limits(max_sessions=1), limit="max_sessions", maximum="1"),
    case(one_sink_too_many, "TOO_MANY_NAMES", S.RESOURCE_EXHAUSTED, limit="sinks", maximum="1000"),
    case(a_long_list, "LIST_TOO_LONG", S.RESOURCE_EXHAUSTED, limit="committed", maximum="20000", actual="20001", sink="out"),
    case(silence, "HELLO_TIMEOUT", S.DEADLINE_EXCEEDED, Limits(hello_timeout_seconds=0.05), timeout_ms="50"),
    case(a_sink_that_reads_nothing, "READ_TIMEOUT", S.DEADLINE_EXCEEDED, Limits(write_timeout_seconds=0.3), timeout_ms="300"),
    case(no_token, "UNAUTHENTICATED", S.UNAUTHENTICATED, tokens=(CLERK,)),
    case(an_unknown_token, "UNAUTHENTICATED", S.UNAUTHENTICATED, tokens=(CLERK,)),
    case(a_token_without_the_right, "NOT_PERMITTED", S.PERMISSION_DENIED, tokens=(CLERK,)),
    case(a_sink_that_the_token_does_not_permit, "NOT_PERMITTED", S.PERMISSION_DENIED, tokens=(CLERK,), sink="ours"),
    case(a_token_that_is_replaced, "TOKEN_REVOKED", S.UNAUTHENTICATED),
    case(a_newer_session, "TAKEN_OVER", S.ABORTED, instance="test-0"),
    case(a_newer_session_of_a_sink, "TAKEN_OVER", S.ABORTED, instance="i"),
    case(a_gateway_that_stops, "GATEWAY_STOPPING", S.UNAVAILABLE),
    case(
        a_sink_of_another_mode,
        "SINK_MODE_MISMATCH",
        S.FAILED_PRECONDITION,
        sink="out",
        mode="BATCH_IDEMPOTENT",
        actual="AT_LEAST_ONCE",
    ),
]


async def how_it_ended(call: Any) -> tuple[grpc.StatusCode, ErrorInfo]:
    """The status of a call that the gateway ends, and its reason."""
    async with asyncio.timeout(DEADLINE_S):
        with suppress(grpc.aio.AioRpcError):
            while await call.read() is not grpc.aio.EOF:
                pass
        status = await rpc_status.aio.from_call(call)
        code = await call.code()
    assert status is not None, f"no details: {code}, {await call.details()}"
    [detail] = status.details
    info = ErrorInfo()
    assert detail.Unpack(info)
    return code, info


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
async def test_a_session_ends_with_a_reason(case: Case, stack: AsyncExitStack) -> None:
    play, reason, status, metadata, limits, tokens = case
    async with serve(limits, tokens=tokens) as (gateway, address), stack:
        code, info = await how_it_ended(await play(Stage(gateway, address, stack)))

    assert (code, info.domain, info.reason) == (status, "headrace", reason)
    told = dict(info.metadata)
    if reason == "TAKEN_OVER":
        assert told.pop("session")
    assert told == metadata


def test_every_reason_has_a_case() -> None:
    reasons = {name.removeprefix("ERROR_REASON_") for name in connector_pb2.ErrorReason.keys()} - {"UNSPECIFIED"}  # noqa: SIM118
    assert {reason for _, reason, *_ in CASES} == reasons


def test_a_reason_has_one_status() -> None:
    statuses = {(reason, status) for _, reason, status, *_ in CASES}
    assert len(statuses) == len({reason for reason, _ in statuses})

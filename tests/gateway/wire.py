"""A gateway in this process, and a connector and a pipeline that speak its protocol message by message."""

import asyncio
import itertools
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc.aio

from headrace.gateway.config import Http, Limits, StreamRule, Token
from headrace.gateway.core import Gateway
from headrace.gateway.core.housekeeping import run_housekeeping
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.listen import max_request_bytes
from headrace.gateway.observer import Observer
from headrace.gateway.services import add_services, interceptors
from headrace.protocol.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    engine_pb2,
    engine_pb2_grpc,
    source_pb2,
    source_pb2_grpc,
)
from headrace.protocol.v1.frame_pb2 import Frame, Position, StreamPosition

_PLANS = itertools.count(1)
DEADLINE_S = 150.0
REPLAYABLE = source_pb2.SOURCE_KIND_REPLAYABLE
REDELIVERING = source_pb2.SOURCE_KIND_REDELIVERING


@asynccontextmanager
async def serve(
    limits: Limits | None = None,
    rules: Sequence[StreamRule] = (),
    tokens: Sequence[Token] = (),
    *,
    port: int = 0,
    has_rounds: bool = True,
    more: Callable[[grpc.aio.Server], object] = lambda _: None,
) -> AsyncIterator[tuple[Gateway, str]]:
    """A gateway on this machine, on a free port if none is given, without configuration, TLS or signals.

    Args:
        limits: Its limits; by default the usual ones, but with leases that outlast a test, however busy the machine is.
        rules: Its rules for streams.
        tokens: Its tokens; none if it needs none.
        port: Its port.
        has_rounds: Whether it does its periodic work, or the test does that.
        more: Adds further services.
    """
    gateway = Gateway(limits or Limits(query_lease_seconds=600), rules)
    registry = TokenRegistry(tokens)
    server = grpc.aio.server(
        interceptors=interceptors(registry, gateway.open_calls, gateway.refusals),
        options=[("grpc.max_receive_message_length", max_request_bytes(gateway.limits))],
    )
    add_services(gateway, server, Observer(gateway, Http()))
    more(server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    housekeeping = asyncio.create_task(run_housekeeping(gateway) if has_rounds else asyncio.sleep(0))
    try:
        yield gateway, f"127.0.0.1:{port}"
    finally:
        housekeeping.cancel()
        gateway.close()
        await server.stop(0.2)


def frame(stream_id: int, first: int, values: Sequence[bytes], *, step: int = 1, cursor: bytes | None = None) -> Frame:
    """A frame of values without keys, whose sequences are `step` apart."""
    lengths = struct.pack(f"<{len(values)}I", *map(len, values))
    deltas = b"" if step == 1 else struct.pack(f"<{len(values) - 1}I", *[step] * (len(values) - 1))
    return Frame(
        stream_id=stream_id,
        first_sequence=first,
        count=len(values),
        sequence_deltas=deltas,
        values=b"".join(values),
        value_lengths=lengths,
        cursor=cursor,
    )


def numbered(stream_id: int, first: int, count: int) -> Frame:
    """A frame whose values are its sequences, with a cursor."""
    values = [b"%d" % n for n in range(first, first + count)]
    return frame(stream_id, first, values, cursor=b"%d" % (first + count))


def values_of(frames: Sequence[Frame]) -> list[bytes]:
    """All values of frames, in order."""
    found = []
    for f in frames:
        lengths = struct.unpack(f"<{f.count}I", f.value_lengths)
        ends = list(itertools.accumulate(lengths))
        found += [f.values[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    return found


class Call:
    """The call of a session, on a channel of its own."""

    call: Any
    _channel: grpc.aio.Channel

    async def ended(self) -> tuple[grpc.StatusCode, str]:
        """How the gateway ended the session."""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(grpc.aio.AioRpcError):
                while await self.call.read() is not grpc.aio.EOF:
                    pass
            return await self.call.code(), await self.call.details() or ""

    async def close(self) -> None:
        self.call.cancel()
        await self._channel.close()


class Connector(Call):
    """One session, as its connector sees it."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address, options=[("grpc.max_send_message_length", 64 * 2**20)])
        self.call = source_pb2_grpc.SourceServiceStub(self._channel).Ingest()
        self.welcome = source_pb2.Welcome()

    async def hello(
        self, instance: str = "test-0", connector: str = "test", version: int = 1, **fields: Any
    ) -> source_pb2.Welcome:
        await self.send(hello=source_pb2.Hello(protocol_version=version, connector=connector, instance=instance, **fields))
        self.welcome = await self.expect("welcome")
        return self.welcome

    async def send(self, **message: Any) -> None:
        await self.call.write(source_pb2.IngestRequest(**message))

    async def open(
        self, stream: str = "orders/0", stream_id: int = 1, kind: source_pb2.SourceKind.ValueType = REPLAYABLE
    ) -> None:
        await self.send(open_stream=source_pb2.OpenStream(stream_id=stream_id, stream=stream, kind=kind))

    async def receive(self) -> source_pb2.IngestResponse:
        async with asyncio.timeout(DEADLINE_S):
            response = await self.call.read()
        if response is grpc.aio.EOF:
            status = await self.call.code()
            raise AssertionError(f"the session ended with {status}: {await self.call.details()}")
        assert isinstance(response, source_pb2.IngestResponse)
        return response

    async def expect(self, kind: str) -> Any:
        """The next message of a kind; pace and credit in between are passed over."""
        while True:
            response = await self.receive()
            found = response.WhichOneof("message")
            if found == kind:
                return getattr(response, kind)
            assert found in ("pace", "credit"), f"expected {kind}, got {response}"

    async def expect_credit(self) -> source_pb2.Credit:
        """The next credit."""
        while True:
            response = await self.receive()
            if response.WhichOneof("message") == "credit":
                return response.credit
            if response.ack.HasField("credit"):
                return response.ack.credit


class Engine:
    """One run of a pipeline, as Spark's planner and executors see it."""

    def __init__(
        self,
        address: str,
        name: str = "p",
        run: int = 1,
        streams: str = "orders/*",
        *,
        skip_lost: bool = False,
        run_id: str = "",
        checkpoint: str = "",
        driver: str = "",
    ) -> None:
        self._channel = grpc.aio.insecure_channel(address, options=[("grpc.max_receive_message_length", 64 * 2**20)])
        self.stub = engine_pb2_grpc.EngineServiceStub(self._channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(self._channel)
        self.who = engine_pb2.Pipeline(
            name=name, run=run, streams=[streams], skip_lost=skip_lost, run_id=run_id, checkpoint=checkpoint, driver=driver
        )
        self.plans = 0
        """The number of the last plan that it has asked for. A planner that takes its place, of the same run, counts on."""

    async def attach(self, committed: dict[str, Any] | None = None, planned: dict[str, Any] | None = None, **flags: Any) -> None:
        request = engine_pb2.AttachRequest(
            pipeline=self.who, committed=positions(committed or {}), planned=positions(planned or {}), **flags
        )
        await self.stub.Attach(request, timeout=DEADLINE_S)

    async def plan(self, committed: dict[str, Any] | None = None, wait_ms: int = 5000, **limits: Any) -> engine_pb2.PlanResponse:
        self.plans = next(_PLANS)
        fields = {"number": self.plans, **limits}
        request = engine_pb2.PlanRequest(pipeline=self.who, committed=positions(committed or {}), wait_ms=wait_ms, **fields)
        response = await self.stub.Plan(request, timeout=DEADLINE_S)
        assert isinstance(response, engine_pb2.PlanResponse)
        return response

    async def plan_until(self, stream: str, sequence: int, **limits: Any) -> engine_pb2.PlannedRange:
        """Plans until a stream's range reaches a sequence."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for planned in (await self.plan(wait_ms=1000, **limits)).ranges:
                    if planned.stream == stream and planned.end.sequence >= sequence:
                        return planned

    async def fetch(
        self, stream: str, start: Any, end: Any, committed: Any = None, progress_timeout_ms: int | None = None
    ) -> list[Frame]:
        start = position(start)
        wanted = engine_pb2.Range(stream=stream, committed=position(committed) or start, start=start, end=position(end))
        request = engine_pb2.FetchRequest(pipeline=self.who, ranges=[wanted], progress_timeout_ms=progress_timeout_ms)
        responses = self.stub.Fetch(request, timeout=DEADLINE_S)
        return [found.frame async for response in responses for found in response.frames]

    async def detach(self) -> None:
        await self.stub.Detach(engine_pb2.DetachRequest(pipeline=self.who), timeout=DEADLINE_S)

    async def renew(self) -> engine_pb2.RenewResponse:
        return await self.stub.Renew(engine_pb2.RenewRequest(pipeline=self.who), timeout=DEADLINE_S)

    async def beat(self, driver: str) -> None:
        """As a driver, of this pipeline or another one."""
        await self.stub.Heartbeat(engine_pb2.HeartbeatRequest(driver=driver), timeout=DEADLINE_S)

    async def status_once(self, holds: Callable[[admin_pb2.GetStatusResponse], bool]) -> admin_pb2.GetStatusResponse:
        """The first status for which a condition holds."""
        async with asyncio.timeout(DEADLINE_S):
            while not holds(status := await self.status()):  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.01)
        return status

    async def status(self) -> admin_pb2.GetStatusResponse:
        return await self.admin.GetStatus(admin_pb2.GetStatusRequest(), timeout=DEADLINE_S)

    async def close(self) -> None:
        await self._channel.close()


async def until_gone(address: str, instance: str) -> None:
    """Waits until a gateway has noticed that an instance's session is lost: until then it serves what that has sent."""
    engine = Engine(address)
    try:
        async with asyncio.timeout(DEADLINE_S):
            while any(session.instance == instance for session in (await engine.status()).sessions):
                pass
    finally:
        await engine.close()


def position(value: Any) -> Position | None:
    """A position from a sequence, from (epoch, sequence), or as it is."""
    if value is None or isinstance(value, Position):
        return value
    epoch, sequence = value if isinstance(value, tuple) else (0, value)
    return Position(epoch=epoch, sequence=sequence)


def positions(by_stream: dict[str, Any]) -> list[StreamPosition]:
    return [StreamPosition(stream=stream, position=position(value)) for stream, value in by_stream.items()]

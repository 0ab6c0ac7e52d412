"""What one connection may do: ping, watch the gateway's health, and make many calls at a time."""

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import psutil
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.gateway.processes import GatewayProcess, gateway_process
from tests.gateway.wire import DEADLINE_S

from headrace.gateway.health import WATCHES_PER_CONNECTION
from headrace.gateway.listen import MAX_CALLS_PER_CONNECTION

SETTINGS, PING, GOAWAY = 4, 6, 7
ACK = 1
MAX_CONCURRENT_STREAMS = 3


class Http2:
    """A connection of HTTP/2 without any call on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, kind: int, payload: bytes, flags: int = 0) -> None:
        self._writer.write(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + b"\0\0\0\0" + payload)

    async def expect(self, kind: int, flags: int = 0) -> bytes:
        """The next frame of a kind; none may say that the connection ends."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                head = await self._reader.readexactly(9)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                assert head[3] != GOAWAY, payload
                if (head[3], head[4]) == (kind, flags):
                    return payload


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[tuple[Http2, bytes]]:
    """A connection, and the settings of the gateway."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    connection = Http2(reader, writer)
    connection.send(SETTINGS, b"")
    try:
        settings = await connection.expect(SETTINGS)
        connection.send(SETTINGS, b"", ACK)
        yield connection, settings
    finally:
        writer.close()


async def test_pings_every_second_are_no_abuse() -> None:
    with gateway_process() as gateway:
        async with connected(gateway.address) as (connection, _):
            for n in range(6):
                connection.send(PING, n.to_bytes(8, "big"))
                assert await connection.expect(PING, ACK) == n.to_bytes(8, "big")
                # The test is about the time between two pings.
                await asyncio.sleep(1.05)


async def test_the_gateway_says_how_many_calls_a_connection_may_carry() -> None:
    with gateway_process() as gateway:
        async with connected(gateway.address) as (_, settings):
            entries = dict(struct.iter_unpack(">HI", settings))
            assert entries[MAX_CONCURRENT_STREAMS] == MAX_CALLS_PER_CONNECTION


def resident(gateway: GatewayProcess) -> int:
    return sum(process.memory_info().rss for process in tree(gateway))


def tree(gateway: GatewayProcess) -> Sequence[psutil.Process]:
    process = psutil.Process(gateway.process.pid)
    return [process, *process.children(recursive=True)]


async def test_watches_of_health_cost_little_and_leave_room_for_others() -> None:
    with gateway_process() as gateway:
        async with grpc.aio.insecure_channel(gateway.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=DEADLINE_S)
            before = resident(gateway)
            watches = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(3000)]
            firsts = await asyncio.gather(*(asyncio.wait_for(first(watch), DEADLINE_S) for watch in watches))
            assert firsts.count(grpc.StatusCode.OK) == WATCHES_PER_CONNECTION
            refused = firsts.count(grpc.StatusCode.RESOURCE_EXHAUSTED)
            # A stream above the limit of the connection that the client took for free is reset, and counts as UNAVAILABLE.
            assert refused + firsts.count(grpc.StatusCode.UNAVAILABLE) == len(watches) - WATCHES_PER_CONNECTION
            assert refused
            assert resident(gateway) - before < 60 * 2**20
            async with grpc.aio.insecure_channel(gateway.address, options=[("grpc.use_local_subchannel_pool", 1)]) as other:
                watch = health_pb2_grpc.HealthStub(other).Watch(health_pb2.HealthCheckRequest())
                assert await asyncio.wait_for(first(watch), DEADLINE_S) is grpc.StatusCode.OK
            for watch in watches:
                watch.cancel()
            # Places are free again.
            async with asyncio.timeout(DEADLINE_S):
                while await first(stub.Watch(health_pb2.HealthCheckRequest())) is not grpc.StatusCode.OK:
                    pass


async def first(watch: "grpc.aio.UnaryStreamCall[object, object]") -> grpc.StatusCode:
    """OK where an answer has come, else how the call ended."""
    try:
        assert await watch.read() is not grpc.aio.EOF
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK

"""Connections of strangers are bounded by address and in all, and keep nobody away who has a token."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest
from tests.captured_logs import capture_logs
from tests.gateway.test_rights import bearer, token
from tests.gateway.wire import DEADLINE_S, serve
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway import connections
from headrace.gateway.connections import Connections, max_connections, peer_of
from headrace.gateway.core import Gateway
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc

ADMIN = token("admin", admin=True, supervise=True)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS, CONTINUATION = 4, 1, 9
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def http2(kind: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes([kind, 0]) + stream.to_bytes(4, "big") + payload


IDLE = PREFACE + http2(SETTINGS, 0, b"")
UNFINISHED = IDLE + http2(HEADERS, 1, b"\x83\x86\x84")


class Rig:
    """A gateway, and what bounds the connections to it."""

    def __init__(self, gateway: Gateway, address: str, most: int, max_of_address: int) -> None:
        self.gateway, self.address = gateway, address
        self.bounds = Connections("gRPC", int(address.rpartition(":")[2]), gateway.open_calls, most, max_of_address)
        self._open: list[asyncio.StreamWriter] = []

    async def strangers(self, count: int, sent: bytes = b"", of: str = "127.0.0.2") -> list[Stream]:
        """Connections of an address that send something, and then say nothing."""
        host, port = self.address.split(":")
        made = [await asyncio.open_connection(host, int(port), local_addr=(of, 0)) for _ in range(count)]
        for reader, writer in made:
            self._open.append(writer)
            writer.write(sent)
            if sent.startswith(PREFACE):
                assert await reader.read(1)
        await self.until_there(of, count)
        return made

    def there(self, of: str = "") -> int:
        """How many connections of an address, or of all, the process has."""
        return sum(connection.address == of or not of for connection in self.bounds._find())

    async def until_there(self, of: str, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while self.there(of) != count:  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.01)

    async def call(self, channel: grpc.aio.Channel) -> None:
        stub = admin_pb2_grpc.AdminServiceStub(channel)
        await stub.GetStatus(admin_pb2.GetStatusRequest(), metadata=bearer("admin"), timeout=DEADLINE_S)

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[grpc.aio.Channel]:
        """A connection of its own."""
        async with grpc.aio.insecure_channel(self.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            yield channel

    def close(self) -> None:
        for writer in self._open:
            writer.close()


@asynccontextmanager
async def rigged(most: int, max_of_address: int = 5) -> AsyncIterator[Rig]:
    async with serve(tokens=[ADMIN]) as (gateway, address):
        rig = Rig(gateway, address, most, max_of_address)
        try:
            yield rig
        finally:
            rig.close()


@pytest.mark.parametrize("sent", [b"", PREFACE[:10], IDLE, UNFINISHED], ids=["nothing", "half-a-preface", "idle", "unfinished"])
async def test_strangers_of_one_address_are_bounded_and_others_stay(sent: bytes) -> None:
    with clock.use(VirtualClock()) as now:
        await strangers_of_one_address_are_bounded(sent, now)


async def strangers_of_one_address_are_bounded(sent: bytes, now: VirtualClock) -> None:
    async with rigged(most=100) as rig, rig.channel() as channel:
        await rig.call(channel)
        await rig.strangers(20, sent)
        others = await rig.strangers(5, sent, of="127.0.0.3")
        with capture_logs() as logs:
            assert rig.bounds.look() == 0
            now.advance(3_600)
            assert rig.bounds.look() == 0, "the gateway was held up, and they may be served now"
            for _ in range(int(connections.PATIENCE_S / connections.INTERVAL_S) - 1):
                now.advance(connections.INTERVAL_S)
                assert rig.bounds.look() == 0, "their calls may wait for others"
            now.advance(connections.INTERVAL_S)
            assert rig.bounds.look() == 15
        assert [line["event"] for line in logs] == ["connection dropped"] * 15
        assert {line["peer"].rpartition(":")[0] for line in logs} == {"127.0.0.2"}
        await rig.until_there("127.0.0.2", 5)
        assert (rig.there("127.0.0.3"), rig.there("127.0.0.1") > 0) == (len(others), True)
        await rig.call(channel)


async def test_strangers_of_many_addresses_leave_half_to_known_callers() -> None:
    async with rigged(most=20) as rig, rig.channel() as channel:
        await rig.call(channel)
        for number in range(4):
            await rig.strangers(4, IDLE, of=f"127.0.1.{number}")
        rig.bounds.look()
        async with asyncio.timeout(DEADLINE_S):
            while rig.there() - rig.there("127.0.0.1") > 10:  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.01)
        assert [rig.there(f"127.0.1.{number}") for number in range(4)] == [2, 2, 3, 3]
        await rig.call(channel)


async def test_a_connection_with_a_call_stays_and_known_ones_without_make_room() -> None:
    async with rigged(most=8, max_of_address=8) as rig, rig.channel() as busy, rig.channel() as idle:
        call = admin_pb2_grpc.AdminServiceStub(busy).Supervise(metadata=bearer("admin"))
        hello = admin_pb2.SuperviseHello(deployment="deploy.toml", run="r1")
        await call.write(admin_pb2.SuperviseRequest(hello=hello))
        assert (await call.read()).HasField("welcome")  # type: ignore[union-attr]
        await rig.call(idle)
        rig.bounds.look()
        assert [connection.is_known for connection in rig.bounds._find()] == [True, True]
        known = {connection.peer: connection.is_used for connection in rig.bounds._find()}
        assert sorted(known.values()) == [False, True]
        async with rig.channel() as third:
            await rig.call(third)
            await rig.strangers(6)
            rig.bounds.look()
            rig.bounds.look()
            await rig.call(third)
        assert rig.gateway.deployments.by_name
        call.cancel()


async def test_a_stranger_whose_headers_do_not_end_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_STRANGER_BYTES", 100_000)
    async with rigged(most=100) as rig, rig.channel() as channel:
        await rig.call(channel)
        ((_, writer),) = await rig.strangers(1, UNFINISHED)
        header = b"\x00\x01a\x7f\x80\x07" + b"b" * 1151
        with capture_logs() as logs:
            async with asyncio.timeout(DEADLINE_S):
                while rig.there("127.0.0.2"):
                    try:
                        writer.write(http2(CONTINUATION, 1, header) * 10)
                        await writer.drain()
                    except ConnectionError:
                        break
                    rig.bounds.look()
        assert {line["event"] for line in logs} == {"connection dropped"}
        await rig.call(channel)


async def test_a_watch_ends_with_its_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE_S", 0.0)
    async with rigged(most=100) as rig:
        await rig.strangers(7)
        watching = asyncio.create_task(rig.bounds.watch())
        await rig.until_there("127.0.0.2", 5)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert rig.gateway.open_calls.peer_observers == []


@pytest.mark.parametrize(
    ("limits", "most"),
    [((256, 256), 64), ((1024, 1024), 768), ((1024, 2**20), 4096), ((1024, resource.RLIM_INFINITY), 4096), ((64, 300), 75)],
)
def test_descriptors_are_left_for_everything_else(limits: tuple[int, int], most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: asked.append(wanted))
    assert max_connections() == most
    assert all(limits[0] < wanted <= 65_536 for wanted, _ in asked)


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("ipv4:10.0.0.7:5", ("10.0.0.7", 5)),
        ("ipv6:%5B::1%5D:5", ("::1", 5)),
        ("ipv6:%5B::ffff:10.0.0.7%5D:5", ("10.0.0.7", 5)),
        ("[10.0.0.7]:5", ("10.0.0.7", 5)),
        ("unknown", ("", 0)),
    ],
)
def test_clients_are_recognised_by_whatever_name(text: str, peer: tuple[str, int]) -> None:
    assert peer_of(text) == peer

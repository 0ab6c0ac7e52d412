"""Faults that sources and sinks can have alike, by the name of the check that must catch them."""

import argparse
import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from tests.conformance.connector import POLL_S, REASONS, Connector, Ended

from headrace.conformance.core.relay import Http2Frames, until_one_ends
from headrace.protocol.v1 import connector_pb2
from headrace.protocol.v1.source_pb2 import Capability

OWN_PING, OWN_PONG = (bytes([0, 0, 8, 6, flags, 0, 0, 0, 0]) + b"too soon" for flags in (0, 1))


class ForgetsItsToken(Connector):
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return ()


class InsistsOnItsVersion(Connector):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) or error.code() is grpc.StatusCode.FAILED_PRECONDITION


class InsistsOnItsToken(Connector):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) or error.code() is grpc.StatusCode.UNAUTHENTICATED


class FightsForItsPlace(Connector):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) or error.code() is grpc.StatusCode.ABORTED


class GivesUpWhereTheGatewayIsSlow(Connector):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) and error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED


class LooksAtTheStatusFirst(Connector):
    """A status that says to reconnect is enough for it."""

    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) or self.transient_status(error)


class LooksForReasonsToGiveUp(Connector):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) and self.transient_status(error)


class GivesUpAfterAnUnknownReason(Connector):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        reason = self.reason(error)
        return super().transient(error) and (not reason or reason in REASONS)


class ReconnectsAtOnce(Connector):
    async def back_off(self, bound: float) -> float:
        await asyncio.sleep(0)
        return bound


class KeepsItsReasonToItself(Connector):
    def tell(self, error: grpc.aio.AioRpcError) -> None:
        print("the gateway has refused the session", file=self.log)


class EndsAtUnknownMessages(Connector):
    def unknown(self) -> None:
        raise Ended


class EndsAtUnknownCapabilities(Connector):
    def welcomed(self, response: Any) -> None:
        super().welcomed(response)  # type: ignore[safe-super]
        if not set(response.welcome.capabilities) <= set(Capability.values()):
            raise Ended


class HasANewNameEachTime(Connector):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.instance = f"raw-connector-{self.start_id}"


class IgnoresSigterm(Connector):
    def stop(self) -> None:
        if self.state != "serving":
            super().stop()


class WaitsForWelcome(Connector):
    def stop(self) -> None:
        if self.state != "greeting":
            super().stop()


class WaitsForTheGateway(Connector):
    def stop(self) -> None:
        if self.state != "away":
            super().stop()


class ReportsATimestamp(Connector):
    def report(self) -> connector_pb2.Report:
        return connector_pb2.Report(state=connector_pb2.CONNECTOR_STATE_RUNNING, state_age_ms=round(1000 * time.time()))


class SaysNothingWhileIdle(Connector):
    async def beat(self) -> None:
        return


class PingsTooOften(Connector):
    """gRPC does not do that: what it sends goes through a relay of its own, which adds pings between the frames."""

    async def session(self) -> None:
        if self.options.tls_ca is not None:
            return await super().session()
        gateway = self.options.gateway
        relay = await asyncio.start_server(self.relay_to(gateway), "127.0.0.1", 0)
        try:
            self.options.gateway = f"127.0.0.1:{relay.sockets[0].getsockname()[1]}"
            await super().session()
        finally:
            self.options.gateway = gateway
            relay.close()

    def relay_to(self, gateway: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        host, _, port = gateway.rpartition(":")

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                back, to = await asyncio.open_connection(host, int(port))
            except OSError:
                writer.close()
                return
            try:
                await until_one_ends(self.up(reader, to), self.down(back, writer), self.ping(to))
            finally:
                writer.close()
                to.close()

        return forward

    async def up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = Http2Frames()
        while data := await reader.read(65536):
            for frame in frames.feed(data):
                writer.write(frame)
            await writer.drain()

    async def down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            # The answers to its own pings are not for gRPC, which has not asked.
            writer.write(data.replace(OWN_PONG, b""))
            await writer.drain()

    async def ping(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await asyncio.sleep(0.3)
            if self.state == "serving":
                writer.write(OWN_PING)
                await writer.drain()


class IgnoresTls(Connector):
    def channel(self) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(self.options.gateway, options=self.channel_options())


class TrustsWhomeverItMeets(Connector):
    """It trusts the certificate that the gateway shows, as a client does that verifies nothing."""

    def trusted(self) -> bytes:
        host, _, port = self.options.gateway.rpartition(":")
        try:
            return ssl.get_server_certificate((host, int(port)), timeout=60).encode()
        except OSError:  # While the gateway is away, or requires a certificate.
            return super().trusted()


class PresentsNothing(Connector):
    def presented(self) -> tuple[bytes | None, bytes | None]:
        return None, None


class NeverCloses(Connector):
    def release(self, code: int) -> None:
        return


class ClosesTwice(Connector):
    def release(self, code: int) -> None:
        super().release(code)
        super().release(code)


class ClosesOnlyWhereTheGatewayIs(Connector):
    def release(self, code: int) -> None:
        if self.state != "away":
            super().release(code)


class ClosesOnlyIfNothingFailed(Connector):
    def release(self, code: int) -> None:
        if code == 0:
            super().release(code)


class ClosesTwiceIfSomethingFailed(Connector):
    def release(self, code: int) -> None:
        super().release(code)
        if code != 0:
            super().release(code)


class ClosesAfterTheFirstSession(Connector):
    closed = False

    def between_sessions(self) -> None:
        self.release(0)

    def release(self, code: int) -> None:
        if not self.closed:
            self.closed = True
            super().release(code)


class ClosesBeforeGoodbye(Connector):
    """It waits for acknowledgements after that, and processes them."""

    closed = False

    async def goodbye(self, reason: str) -> None:
        self.release(0)
        try:
            async with asyncio.timeout(60):
                while not self.settled():  # noqa: ASYNC110 - there is no event to wait on
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            pass
        await super().goodbye(reason)

    def release(self, code: int) -> None:
        if not self.closed:
            self.closed = True
            super().release(code)


SESSION_FAULTS: dict[str, type[Connector]] = {
    "token": ForgetsItsToken,
    "version-refused": InsistsOnItsVersion,
    "refused": InsistsOnItsToken,
    "taken-over": FightsForItsPlace,
    "reconnects": GivesUpWhereTheGatewayIsSlow,
    "reason-final": LooksAtTheStatusFirst,
    "reason-transient": LooksForReasonsToGiveUp,
    "reason-unknown": GivesUpAfterAnUnknownReason,
    "backoff": ReconnectsAtOnce,
    "refusal-told": KeepsItsReasonToItself,
    "unknown-message": EndsAtUnknownMessages,
    "unknown-capability": EndsAtUnknownCapabilities,
    "instance": HasANewNameEachTime,
    "shutdown": IgnoresSigterm,
    "shutdown-unwelcomed": WaitsForWelcome,
    "shutdown-gateway-away": WaitsForTheGateway,
    "close": ClosesTwice,
    "close-refused": ClosesOnlyIfNothingFailed,
    "close-last": ClosesAfterTheFirstSession,
    "report": ReportsATimestamp,
    "heartbeat": SaysNothingWhileIdle,
    "pings": PingsTooOften,
    "tls": IgnoresTls,
    "tls-untrusted": TrustsWhomeverItMeets,
    "mutual-tls": PresentsNothing,
}

SESSION_ALSO = {
    "tls": {"tls-untrusted", "mutual-tls"},
    "close": {"close-refused", "close-last"},
    "shutdown": {"close", "close-last"},
    "shutdown-unwelcomed": {"close", "close-last"},  # A SIGTERM may arrive before Welcome.
    "shutdown-gateway-away": {"close"},
    "idle-gateway": {"heartbeat"},
}
"""Faults that break the rule of another check, too: a source that does not connect with TLS has no certificate, either."""

CLOSE_FAULTS: dict[str, type[Connector]] = {
    "close/never": NeverCloses,
    "close/away": ClosesOnlyWhereTheGatewayIs,
    "close-refused/twice": ClosesTwiceIfSomethingFailed,
    "close-last/goodbye": ClosesBeforeGoodbye,
}
"""Further faults, after the name of the check that must catch it."""

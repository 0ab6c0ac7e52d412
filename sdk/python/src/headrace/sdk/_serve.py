"""Keeps a source connected to a gateway: one session after the other, until the source ends or the connector is stopped."""

import asyncio
import contextlib
import logging
import random
import time

import grpc.aio

from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.source_pb2_grpc import SourceServiceStub
from headrace.sdk._channel import call_ended, metadata, open_channel
from headrace.sdk._driver import Driver
from headrace.sdk._errors import GatewayRefused, GatewayUnavailable
from headrace.sdk._session import Ending, Read, Session, Write
from headrace.sdk._settings import Endpoint, Settings, Tls, endpoint, is_loopback
from headrace.sdk._source import AsyncSource, Source

log = logging.getLogger("headrace.sdk")

PROTOCOL_VERSION = 1
_STOOD_SECONDS = 2.0
_REPORT_SECONDS = 10.0


async def serve(
    source: Source | AsyncSource,
    *,
    gateway: str | None = None,
    instance: str | None = None,
    token: str | None = None,
    tls: Tls | None = None,
    settings: Settings | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Streams a source into a gateway until the source has ended and everything is acknowledged.

    A gateway that is away, or that restarts, is waited for without limit.

    Args:
        source: The source.
        gateway: Address of the gateway, `host:port`. Default: HEADRACE_GATEWAY, else 127.0.0.1:7433.
        instance: Which deployment of the connector this is, the same across its restarts: a newer session of an
            instance takes over the streams of the older one. Default: the source's name.
        token: What the gateway knows the connector by. Default: HEADRACE_TOKEN, else none.
        tls: Transport security; None connects in the clear.
        settings: What rarely needs a change.
        stop: Set it to stop: what was read is sent, acknowledgements are waited for up to `settings.drain_seconds`.

    Raises:
        InvalidSource: The source or a setting cannot be run.
        SourceFailed: The source raised.
        InvalidMessage: The source gave something that cannot be sent.
        GatewayRefused: The gateway refused, and would again; its subclasses say why.
    """
    driver = Driver(source)
    settings = settings or Settings()
    where = endpoint(gateway, token, tls)
    if where.token is not None and tls is None and not is_loopback(where.gateway):
        log.warning("the token goes to %s in the clear: use TLS", where.gateway)
    stop = stop or asyncio.Event()
    backoff = Backoff(settings.first_backoff_seconds, settings.max_backoff_seconds)
    reported_at = -_REPORT_SECONDS
    while not stop.is_set():
        began = time.monotonic()
        try:
            ending = await _attempt(driver, settings, where, instance or driver.name, stop)
            if ending is not Ending.DRAINED:
                return
        except GatewayUnavailable as error:
            if time.monotonic() - reported_at >= _REPORT_SECONDS:
                log.warning("%s; trying again", error)
                reported_at = time.monotonic()
        if time.monotonic() - began >= _STOOD_SECONDS:
            backoff.reset()
            reported_at = -_REPORT_SECONDS
        await _sleep(backoff.next(), stop)


class Backoff:
    """Exponential backoff with full jitter."""

    def __init__(self, first: float, longest: float) -> None:
        """Begins with waits of up to `first` seconds."""
        self._first = first
        self._longest = longest
        self._limit = first

    def next(self) -> float:
        """How long to wait now, in seconds."""
        wait = random.uniform(0, self._limit)
        self._limit = min(self._longest, self._limit * 2)
        return wait

    def reset(self) -> None:
        """Begins anew."""
        self._limit = self._first


async def _attempt(driver: Driver, settings: Settings, where: Endpoint, instance: str, stop: asyncio.Event) -> Ending:
    """Connects and runs one session."""
    async with open_channel(where) as channel:
        stub = SourceServiceStub(channel)
        call = stub.Ingest(metadata=metadata(where))

        async def read() -> pb.IngestResponse:
            response = await call.read()
            if isinstance(response, pb.IngestResponse):
                return response
            raise call_ended(where.gateway, await call.code(), await call.details() or "the gateway ended the session")

        async def write(request: pb.IngestRequest) -> None:
            try:
                await call.write(request)
            except asyncio.InvalidStateError:
                raise call_ended(where.gateway, await call.code(), await call.details()) from None

        try:
            welcome = await _hello(driver, settings, instance, write, read, stop)
            if welcome is None:
                return Ending.STOPPED
            log.info("connected to gateway %s %s as session %s", where.gateway, welcome.gateway_version, welcome.session)
            return await Session(driver, settings, welcome, write, read, stop).run()
        except grpc.aio.AioRpcError as error:
            raise call_ended(where.gateway, error.code(), error.details() or "") from error
        finally:
            call.cancel()


async def _hello(
    driver: Driver, settings: Settings, instance: str, write: Write, read: Read, stop: asyncio.Event
) -> pb.Welcome | None:
    """Greets the gateway; None where the connector was stopped meanwhile."""
    hello = pb.Hello(
        protocol_version=PROTOCOL_VERSION,
        connector=driver.connector,
        connector_version=driver.version,
        instance=instance,
        capabilities=[pb.CAPABILITY_PACE],
    )
    answer = asyncio.create_task(_greet(hello, write, read))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({answer, stopping}, timeout=settings.welcome_seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if stop.is_set():
            return None
        raise GatewayUnavailable(f"the gateway has not answered within {settings.welcome_seconds} s", "DEADLINE_EXCEEDED")
    finally:
        answer.cancel()
        stopping.cancel()
        await asyncio.gather(answer, stopping, return_exceptions=True)


async def _greet(hello: pb.Hello, write: Write, read: Read) -> pb.Welcome:
    """Sends Hello and takes Welcome."""
    await write(pb.IngestRequest(hello=hello))
    response = await read()
    if response.WhichOneof("message") != "welcome":
        raise GatewayRefused(f"the gateway answered Hello with {response.WhichOneof('message')}", "FAILED_PRECONDITION")
    return response.welcome


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    """Waits, or until the connector is stopped."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()

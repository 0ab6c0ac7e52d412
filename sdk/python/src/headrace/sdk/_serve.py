"""Keeps a connector connected to a gateway, reconnecting as needed, until its source ends or it is stopped."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from headrace.contract import clock
from headrace.contract.addresses import leads_here
from headrace.contract.backoff import Backoff
from headrace.logs.context import log_fields
from headrace.logs.repeats import Repeats
from headrace.protocol.v1 import sink_pb2, source_pb2
from headrace.sdk._errors import GatewayRefused, GatewayUnavailable, SinkFailed
from headrace.sdk._settings import Endpoint, Settings, Tls, endpoint
from headrace.sdk.closing import close_within
from headrace.sdk.sinks.driver import AnySink, SinkDriver
from headrace.sdk.sinks.session import SinkSession
from headrace.sdk.sinks.sink import SinkBase
from headrace.sdk.sources.driver import Driver
from headrace.sdk.sources.session import Session
from headrace.sdk.sources.source import AsyncSource, Source
from headrace.sdk.wire import (
    Call,
    Ending,
    InvalidCertificates,
    Reports,
    Transport,
    calling,
    over_grpc,
    unless_stopped,
    welcomed,
)

log = logging.getLogger("headrace.sdk")

_STOOD_S = 2.0
_AWAY, _UNUSABLE = "the gateway is away", "certificate files cannot be used"

_Attempt = Callable[[Endpoint], Awaitable[Ending]]
_UNAUTHENTICATED = "UNAUTHENTICATED"


async def serve(
    connector: Source | AsyncSource | AnySink,
    *,
    gateway: str | None = None,
    instance: str | None = None,
    token: str | None = None,
    token_file: Path | None = None,
    tls: Tls | None = None,
    settings: Settings | None = None,
    stop: asyncio.Event | None = None,
    transport: Transport = over_grpc,
) -> None:
    """Streams a source into a gateway until it has ended and everything is acknowledged, or serves a sink until it is stopped.

    If the gateway is unreachable or restarts, the SDK reconnects indefinitely. At the end, also after an error, it calls the
    connector's `close` once.

    Args:
        connector: The source or sink.
        gateway: Address of the gateway, `host:port`. Default: HEADRACE_GATEWAY, else 127.0.0.1:7433.
        instance: Identifies this deployment of the connector, and stays the same across its restarts. A newer session of an
            instance takes over the streams of the older one, or replaces it as a sink. Default: the connector's name.
        token: The connector's authentication token. Default: HEADRACE_TOKEN, else none.
        token_file: A file that contains the token, which is read again before each session. Default: HEADRACE_TOKEN_FILE, which
            precedes HEADRACE_TOKEN.
        tls: TLS settings. Default: from HEADRACE_TLS (1 for TLS), HEADRACE_TLS_CA, HEADRACE_TLS_CERT and HEADRACE_TLS_KEY
            (PEM files, each of which also enables TLS), else none: it connects without encryption.
        settings: Settings that rarely need to be changed.
        stop: Set this event to stop the connector. A source then sends what it has read, and waits up to
            `settings.drain_seconds` for acknowledgements; a sink finishes and answers what it has received, within that time.
        transport: How to reach the gateway. Only a simulation gives another one than gRPC.

    Raises:
        InvalidSource: The source or a setting is invalid.
        TokenFileError: The token file contains no token.
        InvalidSink: The sink is invalid.
        SourceFailed: A method of the source raised an exception.
        InvalidMessage: The source yielded something that cannot be sent.
        GatewayRefused: The gateway refused the session permanently; the subclass gives the reason.
    """
    settings = settings or Settings()
    stop = stop or asyncio.Event()
    where = endpoint(gateway, token, token_file, tls)
    if where.token is not None and where.tls is None and not leads_here(where.gateway):
        log.warning("the token goes to %s in the clear: use TLS", where.gateway)
    driver = SinkDriver(connector) if isinstance(connector, SinkBase) else Driver(connector)
    instance = instance or driver.name
    attempt = functools.partial(_attempt, driver, settings, transport, instance, stop)
    # In a simulation, time is not the one of threads.
    watched = driver.calls.watched(settings.stuck_seconds) if transport is over_grpc else contextlib.nullcontext()
    with log_fields(instance=instance, **driver.fields), watched:
        try:
            await _keep_connected(attempt, where, driver.reports, settings, stop)
        finally:
            try:
                kind = "sink" if isinstance(driver, SinkDriver) else "source"
                await close_within(settings.close_seconds, f"{kind} {driver.name}", driver)
            finally:
                if isinstance(driver, SinkDriver):
                    driver.caller.close()


async def _keep_connected(attempt: _Attempt, where: Endpoint, reports: Reports, settings: Settings, stop: asyncio.Event) -> None:
    """Reconnects, with backoff, until a session ends and none follows."""
    backoff = Backoff(settings.first_backoff_seconds, settings.max_backoff_seconds)
    repeats = Repeats()
    first = True
    while not stop.is_set():
        began = clock.monotonic()
        try:
            where = where.now()
            ending = await attempt(where)
            if ending is not Ending.DRAINED:
                return
        except (GatewayUnavailable, SinkFailed) as error:
            reports.add_error(f"{error}; trying again")
            if repeats.admit(_AWAY) is not None:
                log.warning("%s; trying again", error, extra={"error": str(error)})
        except InvalidCertificates as error:
            if first:
                raise
            # Files that were valid are being replaced, perhaps one after the other.
            reports.add_error(f"{error}; trying again")
            if repeats.admit(_UNUSABLE) is not None:
                log.warning("%s; trying again", error, extra={"error": str(error)})
        except GatewayRefused as error:
            if not _is_replaced(where, error):
                raise
            log.info("the gateway no longer takes the token, and its file has another one: connecting with that")
        if clock.monotonic() - began >= _STOOD_S:
            backoff.reset()
            repeats.forget(_AWAY)
            repeats.forget(_UNUSABLE)
        first = False
        await _sleep(backoff.next(), stop)


def _is_replaced(where: Endpoint, error: GatewayRefused) -> bool:
    """Returns whether the gateway does not know the token that it was sent, and the file of the token has another one by now."""
    return error.status == _UNAUTHENTICATED and where.now().token != where.token


async def _attempt(
    driver: Driver | SinkDriver, settings: Settings, transport: Transport, instance: str, stop: asyncio.Event, where: Endpoint
) -> Ending:
    """Connects, and runs one session.

    Raises:
        SessionEnded: The gateway is unreachable, or refused or ended the session.
        SinkFailed: The sink could not report its stored transactions.
    """
    hello = await (unless_stopped(driver.hello(instance), stop) if isinstance(driver, SinkDriver) else driver.hello(instance))
    if hello is None:
        return Ending.STOPPED
    async with transport(where) as connection:
        stream = driver.begin(connection)
        async with calling(stream, where.gateway):
            call = Call[Any, Any](stream, driver.response, where.gateway)
            welcome = await welcomed(_greet(call, hello), where.gateway, settings.welcome_seconds, stop)
            if welcome is None:
                return Ending.STOPPED
            with log_fields(session=welcome.session):
                log.info("connected to gateway %s %s as session %s", where.gateway, welcome.gateway_version, welcome.session)
                session: Session | SinkSession
                if isinstance(driver, SinkDriver):
                    session = SinkSession(driver, settings, welcome, call.write, call.read, stop)
                else:
                    session = Session(driver, settings, welcome, call.write, call.read, stop)
                return await session.run()


async def _greet(call: Call[Any, Any], hello: source_pb2.IngestRequest | sink_pb2.SinkServiceAttachRequest) -> Any:
    """Sends Hello, and returns Welcome.

    Raises:
        GatewayRefused: The gateway did not answer with Welcome.
    """
    await call.write(hello)
    response = await call.read()
    if response.WhichOneof("message") != "welcome":
        raise GatewayRefused(f"the gateway answered Hello with {response.WhichOneof('message')}", "FAILED_PRECONDITION")
    return response.welcome


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    """Waits for `seconds`, or until the connector is stopped."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()

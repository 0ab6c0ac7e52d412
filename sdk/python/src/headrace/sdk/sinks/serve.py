"""Connects a sink to a gateway, for one session."""

import asyncio
import logging

from headrace.logs.context import log_fields
from headrace.protocol.v1 import sink_pb2 as pb
from headrace.sdk._errors import GatewayRefused
from headrace.sdk._settings import Endpoint, Settings
from headrace.sdk.sinks.driver import SinkDriver
from headrace.sdk.sinks.session import SinkSession
from headrace.sdk.wire import Call, Ending, Transport, calling, unless_stopped, welcomed

log = logging.getLogger("headrace.sdk")

_Call = Call[pb.SinkServiceAttachRequest, pb.SinkServiceAttachResponse]


async def attach(
    driver: SinkDriver, settings: Settings, transport: Transport, instance: str, stop: asyncio.Event, where: Endpoint
) -> Ending:
    """Connects and runs one session.

    Raises:
        SessionEnded: The gateway is unreachable, or refused the session.
        SinkFailed: The sink could not report its stored transactions.
    """
    hello = await unless_stopped(driver.hello(instance), stop)
    if hello is None:
        return Ending.STOPPED
    async with transport(where) as connection:
        stream = connection.attach()
        async with calling(stream, where.gateway):
            call = _Call(stream, pb.SinkServiceAttachResponse, where.gateway)
            welcome = await welcomed(_greet(call, hello), where.gateway, settings.welcome_seconds, stop)
            if welcome is None:
                return Ending.STOPPED
            with log_fields(session=welcome.session, sink=hello.sink, instance=instance):
                log.info("connected to gateway %s %s as session %s", where.gateway, welcome.gateway_version, welcome.session)
                return await SinkSession(driver, settings, welcome, call.write, call.read, stop).run()


async def _greet(call: _Call, hello: pb.SinkHello) -> pb.SinkWelcome:
    """Sends Hello, and returns Welcome.

    Raises:
        GatewayRefused: The gateway did not answer with Welcome.
    """
    await call.write(pb.SinkServiceAttachRequest(hello=hello))
    response = await call.read()
    if not response.HasField("welcome"):
        raise GatewayRefused(f"the gateway answered Hello with {response.WhichOneof('message')}", "FAILED_PRECONDITION")
    return response.welcome

"""Runs a gateway: its services, its health service, and its signal handlers."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from headrace.gateway.config import Config
from headrace.gateway.core import Gateway, run_housekeeping
from headrace.gateway.health import Health
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.listen import exposure, listen, new_server
from headrace.gateway.reload import ConfigSource, follow
from headrace.gateway.services import add_services
from headrace.protocol.v1 import admin_pb2, engine_pb2, sink_pb2, source_pb2

_SERVICES = (
    source_pb2.DESCRIPTOR.services_by_name["SourceService"].full_name,
    sink_pb2.DESCRIPTOR.services_by_name["SinkService"].full_name,
    engine_pb2.DESCRIPTOR.services_by_name["EngineService"].full_name,
    admin_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name,
)
_STOP_GRACE_S = 1.0

_log = structlog.get_logger(__name__)


async def serve(config: Config, *, ready: Callable[[str], None] | None = None, source: ConfigSource | None = None) -> None:
    """Runs a gateway until SIGTERM or SIGINT, or until cancelled.

    The first signal drains: health reports NOT_SERVING, sessions are asked to finish, and messages in flight have
    `limits.drain_timeout_ms` to be acknowledged. A second signal ends the process immediately, with status 128 + its number.

    Args:
        config: the configuration.
        ready: called with the actual address once the gateway listens.
        source: the source of the configuration; changes to its tokens are applied without a restart.

    Raises:
        ListenError: the gateway cannot listen on its address.
    """
    gateway = Gateway(config.limits, config.streams)
    registry = TokenRegistry(config.tokens)
    server = new_server(config, registry)
    add_services(gateway, server)
    health_service = Health()
    health_pb2_grpc.add_HealthServicer_to_server(health_service, server)
    reflection.enable_server_reflection((*_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    tasks = [asyncio.create_task(run_housekeeping(gateway))]
    if source is not None:
        tasks.append(asyncio.create_task(follow(source, config, registry, gateway)))
    try:
        address = listen(server, config)
        with _stop_signals() as stop:
            await server.start()
            for service in _SERVICES:
                await health_service.set(service, health_pb2.HealthCheckResponse.SERVING)
            _announce(config, address)
            if ready is not None:
                ready(address)
            await stop.wait()
            _log.info("gateway drains", timeout_ms=config.limits.drain_timeout_ms)
            await health_service.enter_graceful_shutdown()
            await gateway.drain()
            gateway.close()
            await server.stop(_STOP_GRACE_S)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop(None)
    _log.info("gateway stopped")


def _announce(config: Config, address: str) -> None:
    security = "off" if config.tls is None else "mutual" if config.tls.client_ca else "on"
    _log.info("gateway listens", address=address, tls=security, tokens=len(config.tokens))
    if warning := exposure(config):
        _log.warning("gateway is open", reason=warning)


@contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """Provides an event that the first SIGTERM or SIGINT sets."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def stop_or_die(number: int) -> None:
        if stop.is_set():
            _log.warning("gateway ends at once", signal=signal.Signals(number).name)
            os._exit(128 + number)
        stop.set()

    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop_or_die, number)
    try:
        yield stop
    finally:
        for number in signals:
            loop.remove_signal_handler(number)

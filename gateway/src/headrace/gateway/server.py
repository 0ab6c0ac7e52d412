"""Runs a gateway: its services, its health service, its HTTP server, and its signal handlers."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from headrace.contract.addresses import is_loopback, joined_address
from headrace.contract.certificates import read_again
from headrace.contract.units import milliseconds
from headrace.gateway.background import lasting
from headrace.gateway.config import Config, split_address
from headrace.gateway.connections import Connections, max_connections
from headrace.gateway.core import Gateway, ProtocolError, run_housekeeping
from headrace.gateway.core.connections import ClientCertificates
from headrace.gateway.core.control import Caller, reload
from headrace.gateway.descriptor_watch import DescriptorWatch
from headrace.gateway.health import Health
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.listen import exposure, listen, listen_http, new_server
from headrace.gateway.observer import Observer, Recording
from headrace.gateway.reload import ConfigSource, Reloading
from headrace.gateway.services import add_services
from headrace.gateway.tls import server_context
from headrace.protocol.v1 import admin_pb2, engine_pb2, sink_pb2, source_pb2
from headrace.telemetry import export_endpoint

_SERVICES = (
    source_pb2.DESCRIPTOR.services_by_name["SourceService"].full_name,
    sink_pb2.DESCRIPTOR.services_by_name["SinkService"].full_name,
    engine_pb2.DESCRIPTOR.services_by_name["EngineService"].full_name,
    admin_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name,
)
_STOP_GRACE_S = 1.0

_log = logging.getLogger(__name__)


async def serve(config: Config, *, ready: Callable[[str], None] | None = None, source: ConfigSource | None = None) -> None:
    """Runs a gateway until SIGTERM or SIGINT, or until cancelled.

    The first signal drains: health reports NOT_SERVING, sessions are asked to finish, and messages in flight have
    `limits.drain_timeout_seconds` to be acknowledged. A second signal ends the process immediately, with status 128 + its number.

    Args:
        config: the configuration.
        ready: called with the actual address once the gateway listens.
        source: the source of the configuration; changes to its tokens are applied without a restart.

    Raises:
        ListenError: the gateway cannot listen on its address.
    """
    gateway = Gateway(config.limits, config.streams, config.paused, config.peek)
    registry = TokenRegistry(config.tokens)
    clients = None if config.tls is None or config.tls.client_ca is None else ClientCertificates()
    server = new_server(config, registry, gateway.open_calls, gateway.refusals, clients)
    observer = Observer(gateway, config.http)
    add_services(gateway, server, observer)
    health_service = Health()
    health_pb2_grpc.add_HealthServicer_to_server(health_service, server)
    reflection.enable_server_reflection((*_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    faults = gateway.own_faults
    tasks = [asyncio.create_task(lasting("housekeeping", lambda: run_housekeeping(gateway), faults))]
    tasks.append(asyncio.create_task(lasting("watching descriptors", DescriptorWatch(faults).watch, faults)))
    recording = Recording(gateway, observer)
    tasks.append(asyncio.create_task(lasting("recording the history", recording.run, faults)))
    if config.tls is not None:
        # Imported here: a gateway without TLS does not pay for it.
        from headrace.gateway.certificate_watch import CertificateWatch

        watch = CertificateWatch(config.tls, gateway, clients)
        tasks.append(asyncio.create_task(lasting("watching certificates", watch.watch, faults)))
    if source is not None:
        reloading = Reloading(source, config, registry, gateway)
        gateway.reload = reloading.reload
        tasks.append(asyncio.create_task(lasting("following the configuration", reloading.follow, faults)))
    tasks.append(asyncio.create_task(_report_drain(gateway, health_service)))
    try:
        address = listen(server, config)
        with _stop_signals() as stop, _reload_signal(gateway, reloads=source is not None):
            async with (
                _exporting(config, gateway, observer),
                _tracing(config, gateway),
                _serving_http(config, gateway, registry, address, observer, recording),
            ):
                await server.start()
                port = split_address(address)[1]
                connections = Connections("gRPC", port, gateway.open_calls, max_connections(), faults=faults)
                tasks.append(asyncio.create_task(lasting("bounding gRPC connections", connections.watch, faults)))
                for service in _SERVICES:
                    await health_service.set(service, health_pb2.HealthCheckResponse.SERVING)
                _announce(config, address)
                if ready is not None:
                    ready(address)
                await stop.wait()
                _log.info("gateway drains", extra={"timeout_ms": milliseconds(config.limits.drain_timeout_seconds)})
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


@asynccontextmanager
async def _serving_http(
    config: Config, gateway: Gateway, registry: TokenRegistry, address: str, observer: Observer, recording: Recording
) -> AsyncIterator[None]:
    """Serves HTTP, if the configuration wants it. Clients of this machine need no TLS: what they read does not leave it."""
    listeners = listen_http(config)
    if not listeners:
        yield
        return
    # Imported here: a gateway without HTTP does not pay for it.
    from headrace.gateway.http import http_server, new_app
    from headrace.gateway.http.server import MAX_CONNECTIONS

    places = [listener.getsockname()[:2] for listener in listeners]
    loopback = all(is_loopback(host) for host, _ in places)
    context = None if config.tls is None or loopback else server_context(config.tls)
    app = new_app(gateway, registry, config.http, address, loopback=loopback, observer=observer, recording=recording)
    connections = Connections("HTTP", places[0][1], gateway.open_calls, 2 * MAX_CONNECTIONS, MAX_CONNECTIONS)
    watching = asyncio.create_task(lasting("bounding HTTP connections", connections.watch, gateway.own_faults))
    try:
        async with http_server(app, listeners, context):
            scheme = "http" if context is None else "https"
            for place in places:
                _log.info("gateway serves HTTP", extra={"address": f"{scheme}://{joined_address(*place)}"})
            yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@asynccontextmanager
async def _tracing(config: Config, gateway: Gateway) -> AsyncIterator[None]:
    """Exports spans, if an endpoint is configured."""
    endpoint = export_endpoint("traces", config.telemetry.otlp_endpoint)
    if endpoint is None:
        yield
        return
    # Imported here: a gateway that exports nothing does not pay for it.
    from headrace.gateway.telemetry.tracing import exporting_spans

    async with exporting_spans(gateway, endpoint):
        yield


@asynccontextmanager
async def _exporting(config: Config, gateway: Gateway, observer: Observer) -> AsyncIterator[None]:
    """Exports the metrics, if an endpoint is configured."""
    endpoint = export_endpoint("metrics", config.telemetry.otlp_endpoint)
    if endpoint is None:
        yield
        return
    # Imported here: a gateway that exports nothing does not pay for it.
    from headrace.gateway.telemetry.export import exporting_metrics

    async with exporting_metrics(gateway, observer, endpoint, of_streams=config.http.stream_metrics):
        yield


def _announce(config: Config, address: str) -> None:
    security = "off" if config.tls is None else "mutual" if config.tls.client_ca else "on"
    _log.info("gateway listens", extra={"address": address, "tls": security, "tokens": len(config.tokens)})
    if warning := exposure(config):
        _log.warning("gateway is open", extra={"error": warning})


async def _report_drain(gateway: Gateway, health_service: Health) -> None:
    """Lets health report NOT_SERVING as soon as the gateway drains, for whatever reason."""
    await gateway.drain_begun.wait()
    await health_service.enter_graceful_shutdown()


@contextmanager
def _reload_signal(gateway: Gateway, *, reloads: bool) -> Iterator[None]:
    """Reloads the configuration, if there is a file, and the TLS files on SIGHUP, which does not end the process."""
    hung_up = False

    def reload_or_log() -> None:
        nonlocal hung_up
        hung_up = False
        read_again()
        if not reloads:
            _log.info("SIGHUP: there is no configuration file to reload")
            return
        # The log names each refusal.
        with suppress(ProtocolError):
            reload(gateway, Caller("SIGHUP", "this machine", sees_names=True))

    loop = asyncio.get_running_loop()

    def hang_up(*_: object) -> None:
        nonlocal hung_up
        if not hung_up:
            hung_up = True
            loop.call_soon_threadsafe(reload_or_log)

    # Not the loop's own handler: for a moment after that is removed, SIGHUP ends the process.
    before = signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """Provides an event that the first SIGTERM or SIGINT sets."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def stop_or_die(number: int) -> None:
        if stop.is_set():
            _log.warning("gateway ends at once", extra={"signal": signal.Signals(number).name})
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

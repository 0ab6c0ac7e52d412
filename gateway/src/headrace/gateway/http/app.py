"""The HTTP application: which path is answered by what."""

from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.gateway.config import Http
from headrace.gateway.core import VERSION, Gateway
from headrace.gateway.http import events
from headrace.gateway.http.api import API, api_endpoints
from headrace.gateway.http.callers import Callers
from headrace.gateway.http.changes import change_routes
from headrace.gateway.http.console import console_routes
from headrace.gateway.http.ending import EndRevoked
from headrace.gateway.http.guard import Bounds, Endpoint, guarded, http_error, may_see
from headrace.gateway.http.peeking import peek_endpoints
from headrace.gateway.http.recorded import recorded_endpoints
from headrace.gateway.http.signing import signing_routes
from headrace.gateway.http.status import Documents, is_degraded, json_response
from headrace.gateway.http.timeline import timeline_endpoints
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.observer import Observer, Recording
from headrace.gateway.rules import EVENTS
from headrace.gateway.telemetry.prometheus import Prometheus


def new_app(
    gateway: Gateway,
    registry: TokenRegistry,
    config: Http,
    address: str,
    *,
    loopback: bool,
    observer: Observer | None = None,
    recording: Recording | None = None,
) -> Starlette:
    """Creates the application of a gateway.

    Args:
        gateway: The gateway.
        registry: The tokens that callers need.
        config: The configuration of HTTP.
        address: The address of the gateway itself.
        loopback: Whether it listens where only this machine reaches it, and so is known by no other name.
        observer: Takes the snapshots; None for one of its own.
        recording: Has the history; None for one that is empty.
    """
    observer = observer or Observer(gateway, config)
    recording = recording or Recording(gateway, observer)
    documents, callers = Documents(observer, address), Callers(registry)
    published = events.Events(documents)
    metrics = Prometheus(gateway, observer, of_streams=config.stream_metrics)

    async def alive(request: Request) -> Response:
        return JSONResponse({"status": "alive", "version": VERSION})

    async def ready(request: Request) -> Response:
        # Anybody may learn whether something is wrong, but the names of what is wrong are part of the status.
        observed, text = await documents.health(with_problems=may_see(request, f"{API}/problems", callers))
        return json_response(text, 503 if is_degraded(observed) else 200)

    async def measure(request: Request) -> Response:
        text, content_type = await metrics.text(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    async def listen(request: Request) -> Response:
        return await events.answer(request, published, callers)

    endpoints: Mapping[str, Endpoint] = {
        "/healthz": alive,
        "/readyz": ready,
        "/metrics": measure,
        EVENTS: listen,
        **timeline_endpoints(gateway, observer),
        **recorded_endpoints(gateway, recording.history),
        **peek_endpoints(gateway, callers),
        **api_endpoints(documents),
    }
    app = Starlette(
        routes=[
            *change_routes(gateway, callers),
            *signing_routes(callers, config),
            *console_routes(callers),
            *(Route(path, guarded(path, endpoint, callers)) for path, endpoint in endpoints.items()),
        ],
        middleware=[Middleware(Bounds, loopback=loopback), Middleware(EndRevoked, calls=gateway.open_calls)],
        exception_handlers={HTTPException: http_error},
    )
    app.router.redirect_slashes = False
    return app

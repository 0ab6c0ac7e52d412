"""The paths of the API that show micro-batches, and where a message stands."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace.contract import clock
from headrace.contract.limits import MAX_BATCH_STREAMS, MAX_BATCHES, MAX_SEQUENCE
from headrace.contract.names import nearest
from headrace.gateway.core import Gateway
from headrace.gateway.core.status import list_batches, locate, missing
from headrace.gateway.http.guard import Endpoint, problem
from headrace.gateway.http.status import encoded, json_response
from headrace.gateway.observer import Observer
from headrace.gateway_status import message_document, oldest_unacknowledged, timeline_document

MAX_KEPT = 32
"""How many answers with micro-batches are kept for others that ask the same."""
_FRESH_S = 1.0
_T = TypeVar("_T")


def timeline_endpoints(gateway: Gateway, observer: Observer) -> Mapping[str, Endpoint]:
    """Returns the endpoints by path; they must come before the paths of single parts.

    Args:
        gateway: The gateway.
        observer: Knows what is wrong in it.
    """
    kept = _Texts()

    async def batches(request: Request) -> Response:
        name, limit = request.path_params["name"], query_number(request, "limit", 1, MAX_BATCHES, MAX_BATCHES)
        number = query_number(request, "batch", 0, MAX_SEQUENCE) if "batch" in request.query_params else None
        streams = query_number(request, "streams", 0, MAX_BATCH_STREAMS, MAX_BATCH_STREAMS)
        pipeline = gateway.pipelines.get(name)
        if pipeline is None:
            near = nearest(name, gateway.pipelines)
            return problem(404, f"there is no pipeline {name[:80]!r}; /api/v1/pipelines lists all{near}")
        asked = (pipeline, limit, number, streams)
        return json_response(await kept.of(asked, lambda: list_batches(pipeline, limit, number, streams), timeline_document))

    async def unacknowledged(request: Request) -> Response:
        name = request.query_params.get("stream", "")
        observed = await observer.observe()
        if "sequence" in request.query_params or "epoch" in request.query_params:
            sequence = query_number(request, "sequence", 0, MAX_SEQUENCE)
            epoch = query_number(request, "epoch", 0, MAX_SEQUENCE) if "epoch" in request.query_params else None
        else:
            epoch, sequence = oldest_unacknowledged(observed.status, name)
        stream = gateway.streams.get(name)
        if stream is None:
            near, waits = nearest(name, gateway.streams), missing(observed.status, name)
            return problem(404, f"there is no stream {name[:80]!r}; /api/v1/streams lists all{near}{waits}")
        return JSONResponse(message_document(locate(gateway, stream, epoch, sequence, observed.status.problems)))

    return {"/api/v1/pipelines/{name:path}/batches": batches, "/api/v1/unacknowledged": unacknowledged}


class _Texts:
    """Answers that are less than a second old: pages that show the same pipeline cost the gateway as much as one of them."""

    def __init__(self) -> None:
        self._texts: dict[Hashable, tuple[float, bytes]] = {}
        self._lock = asyncio.Lock()

    async def of(
        self, question: Hashable, read: Callable[[], Awaitable[_T]], convert: Callable[[_T], Mapping[str, Any]]
    ) -> bytes:
        """Returns the answer to a question, and reads and converts it if there is none of the last second."""
        async with self._lock:
            now = clock.monotonic()
            self._texts = {key: kept for key, kept in self._texts.items() if now - kept[0] < _FRESH_S}
            if question in self._texts:
                return self._texts[question][1]
            found = await read()
            # Hundreds of micro-batches are converted in a thread, so that sessions do not wait.
            text = await asyncio.to_thread(lambda: encoded(convert(found)))
            if len(self._texts) < MAX_KEPT:
                self._texts[question] = now, text
            return text


def query_number(request: Request, name: str, least: int, most: int, default: int | None = None) -> int:
    """Returns a parameter of a query.

    Raises:
        HTTPException: it is missing and has no default, or is not a number in the range.
    """
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 20 or not least <= int(text) <= most:
        given = "is missing" if text is None else f"is {text[:40]!r}"
        raise HTTPException(400, f"the parameter {name} {given}; want a number from {least} to {most}")
    return int(text)

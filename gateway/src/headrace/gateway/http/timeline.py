"""The paths of the API that show micro-batches, and where a message stands."""

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace.contract.limits import MAX_BATCHES, MAX_SEQUENCE
from headrace.gateway.core import Gateway
from headrace.gateway.core.batch_status import list_batches
from headrace.gateway.core.locating import locate
from headrace.gateway.http.guard import Endpoint, problem
from headrace.gateway.observer import Observer
from headrace.gateway_status import message_document, timeline_document


def timeline_endpoints(gateway: Gateway, observer: Observer) -> Mapping[str, Endpoint]:
    """Returns the endpoints by path; they must come before those of single parts.

    Args:
        gateway: The gateway.
        observer: Knows what is wrong in it.
    """

    async def batches(request: Request) -> Response:
        limit, name = _number(request, "limit", 1, MAX_BATCHES, MAX_BATCHES), request.path_params["name"]
        pipeline = gateway.pipelines.get(name)
        if pipeline is None:
            return problem(404, f"there is no pipeline {name[:80]!r}; /api/v1/pipelines lists those that there are")
        return JSONResponse(timeline_document(list_batches(pipeline, limit)))

    async def unacknowledged(request: Request) -> Response:
        name = request.query_params.get("stream", "")
        sequence = _number(request, "sequence", 0, MAX_SEQUENCE)
        epoch = _number(request, "epoch", 0, MAX_SEQUENCE) if "epoch" in request.query_params else None
        observed = await observer.observe()
        stream = gateway.streams.get(name)
        if stream is None:
            return problem(404, f"there is no stream {name[:80]!r}; /api/v1/streams lists those that there are")
        return JSONResponse(message_document(locate(gateway, stream, sequence, epoch, observed.status.problems)))

    return {"/api/v1/pipelines/{name:path}/batches": batches, "/api/v1/unacknowledged": unacknowledged}


def _number(request: Request, name: str, least: int, most: int, default: int | None = None) -> int:
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

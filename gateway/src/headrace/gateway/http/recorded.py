"""The paths of the API that show what was: the history of a part, and the events."""

import math
from collections.abc import Mapping, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from typing_extensions import TypedDict

from headrace.contract.limits import MAX_EVENTS, MAX_SEQUENCE
from headrace.gateway.core import Gateway
from headrace.gateway.core.status import FIELDS, HISTORY_S, INTERVAL_S, History, list_events
from headrace.gateway.http.guard import Endpoint, problem
from headrace.gateway.http.timeline import query_number
from headrace.gateway.rules import EVENT_LOG, HISTORY
from headrace.gateway_status import event_log_document

_DIGITS = 3
"""Decimals of a value: more are noise."""


class HistoryDocument(TypedDict):
    """The values of a part at the last moments, oldest first. One that there was not is null.

    The fields depend on the kind of part. Their names end with their units.
    """

    kind: str
    name: str
    interval_ms: int
    times_ms: list[int]
    values: dict[str, list[float | None]]


def recorded_endpoints(gateway: Gateway, history: History) -> Mapping[str, Endpoint]:
    """Returns the endpoints by path.

    Args:
        gateway: The gateway.
        history: Its history.
    """

    async def events(request: Request) -> Response:
        limit = query_number(request, "limit", 1, MAX_EVENTS, MAX_EVENTS)
        after = query_number(request, "after", 0, MAX_SEQUENCE, 0)
        return JSONResponse(event_log_document(list_events(gateway.event_log, limit, after)))

    async def values(request: Request) -> Response:
        kind, name = request.query_params.get("kind", "gateway"), request.query_params.get("name", "")
        if kind not in FIELDS:
            raise HTTPException(400, f"the parameter kind is {kind[:40]!r}; want one of {', '.join(FIELDS)}")
        seconds = query_number(request, "seconds", 1, HISTORY_S, HISTORY_S)
        found = history.read(kind, name, seconds)
        if found is None:
            return problem(404, f"there is no history of {kind} {name[:80]!r}; it begins within {INTERVAL_S:.0f} s")
        document: HistoryDocument = {
            "kind": kind,
            "name": name,
            "interval_ms": round(INTERVAL_S * 1000),
            "times_ms": [round(time * 1000) for time in found.times],
            "values": {field: _rounded(each) for field, each in found.values.items()},
        }
        return JSONResponse(document)

    return {EVENT_LOG: events, HISTORY: values}


def _rounded(values: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(value) else round(value, _DIGITS) for value in values]

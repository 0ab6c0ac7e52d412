"""The OpenAPI document: the paths in `rules.PATHS`, and the schemas of the documents, made from their types."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from headrace.contract.limits import MAX_BATCH_STREAMS, MAX_BATCHES, MAX_DEAD_LETTERS, MAX_EVENTS, MAX_PEEK, MAX_SEQUENCE
from headrace.gateway.core import VERSION
from headrace.gateway.core.status import FIELDS, HISTORY_S
from headrace.gateway.http.callers import COOKIE
from headrace.gateway.http.changes import CHANGES_MADE
from headrace.gateway.http.recorded import HistoryDocument
from headrace.gateway.http.signing import MeDocument, SignInRequest
from headrace.gateway.http.status import HealthDocument
from headrace.gateway.rules import CHANGES, DEAD_LETTERS, EVENT_LOG, EVENTS, HISTORY, ME, PATHS, PEEK, RESTART, SIGN_IN, SIGN_OUT
from headrace.gateway_status import (
    DeadLettersDocument,
    EventLogDocument,
    GatewayDocument,
    MessageDocument,
    PeekDocument,
    PipelineDocument,
    SessionDocument,
    SinkDocument,
    SinkSessionDocument,
    StatusDocument,
    StreamDocument,
    TimelineDocument,
)

_DOCUMENTS: tuple[Any, ...] = (
    DeadLettersDocument,
    EventLogDocument,
    GatewayDocument,
    HealthDocument,
    HistoryDocument,
    MeDocument,
    MessageDocument,
    PeekDocument,
    PipelineDocument,
    SessionDocument,
    SinkDocument,
    SinkSessionDocument,
    StatusDocument,
    StreamDocument,
    TimelineDocument,
)
_PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class _Operation:
    """The answer of a path.

    Attributes:
        summary: Its meaning.
        schema: The name of the document that it answers with; for a list, of each element. None for text.
        list_name: The field that has the list; empty if the document itself is the answer.
    """

    summary: str
    schema: str | None
    list_name: str = ""


_OPERATIONS = {
    "/healthz": _Operation("Whether the process is alive.", None),
    "/readyz": _Operation("Whether all is well, and what is not.", "HealthDocument"),
    "/metrics": _Operation("Metrics in the format of Prometheus.", None),
    "/api/v1/openapi.json": _Operation("This document.", None),
    "/api/v1/problems": _Operation("What is wrong.", "HealthDocument"),
    "/api/v1/status": _Operation("Everything that the gateway knows.", "StatusDocument"),
    EVENTS: _Operation("The status, and then what changes in it, as server-sent events.", None),
    "/api/v1/gateway": _Operation("The gateway itself.", "GatewayDocument"),
    "/api/v1/streams": _Operation("All streams.", "StreamDocument", "streams"),
    PEEK: _Operation("A sample of a stream's messages, as server-sent events.", "PeekDocument"),
    "/api/v1/streams/{name:path}": _Operation("One stream.", "StreamDocument"),
    "/api/v1/sessions": _Operation("The sessions of sources.", "SessionDocument", "sessions"),
    "/api/v1/pipelines": _Operation("All pipelines.", "PipelineDocument", "pipelines"),
    "/api/v1/pipelines/{name:path}/batches": _Operation("The last micro-batches of a pipeline.", "TimelineDocument"),
    "/api/v1/pipelines/{name:path}": _Operation("One pipeline.", "PipelineDocument"),
    "/api/v1/sinks": _Operation("All sinks.", "SinkDocument", "sinks"),
    "/api/v1/sinks/{name:path}": _Operation("One sink.", "SinkDocument"),
    "/api/v1/sink-sessions": _Operation("The sessions of sinks.", "SinkSessionDocument", "sink_sessions"),
    EVENT_LOG: _Operation("What happened: the last events.", "EventLogDocument"),
    HISTORY: _Operation("The values of a part in the last hour, every five seconds.", "HistoryDocument"),
    DEAD_LETTERS: _Operation("The last dead letters of each sink.", "DeadLettersDocument"),
    "/api/v1/unacknowledged": _Operation("Where a message stands on its way to its acknowledgement.", "MessageDocument"),
}

_EVENTS = frozenset({EVENTS, PEEK})
"""The paths that answer with events; the schema describes their data."""
_SEQUENCE = {"type": "integer", "minimum": 0, "maximum": MAX_SEQUENCE}
_PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "/api/v1/pipelines/{name:path}/batches": [
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": MAX_BATCHES}},
        {"name": "batch", "in": "query", "schema": _SEQUENCE},
        {"name": "streams", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": MAX_BATCH_STREAMS}},
    ],
    "/api/v1/unacknowledged": [
        {"name": "stream", "in": "query", "required": True, "schema": {"type": "string"}},
        {"name": "sequence", "in": "query", "schema": _SEQUENCE},
        {"name": "epoch", "in": "query", "schema": _SEQUENCE},
    ],
    EVENT_LOG: [
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": MAX_EVENTS}},
        {"name": "after", "in": "query", "schema": _SEQUENCE},
    ],
    HISTORY: [
        {"name": "kind", "in": "query", "schema": {"type": "string", "enum": list(FIELDS)}},
        {"name": "name", "in": "query", "schema": {"type": "string"}},
        {"name": "seconds", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": HISTORY_S}},
    ],
    DEAD_LETTERS: [
        {"name": "sink", "in": "query", "schema": {"type": "string"}},
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": MAX_DEAD_LETTERS}},
    ],
    PEEK: [
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": MAX_PEEK}},
    ],
}
"""The parameters of queries, by path."""


@cache
def openapi_document() -> dict[str, Any]:
    """Returns the OpenAPI document of this version."""
    adapters = [(document.__name__, "serialization", TypeAdapter(document)) for document in _DOCUMENTS]
    adapters += [(change.answer.__name__, "serialization", TypeAdapter(change.answer)) for change in CHANGES_MADE.values()]
    adapters += [(change.request.__name__, "validation", TypeAdapter(change.request)) for change in CHANGES_MADE.values()]
    adapters.append((SignInRequest.__name__, "validation", TypeAdapter(SignInRequest)))
    adapters = list({key[:2]: key for key in adapters}.values())
    _, schemas = TypeAdapter.json_schemas(adapters, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace gateway",
            "version": VERSION,
            "description": "The status of a gateway, at most a second old. Sizes are in bytes, and times in milliseconds.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "externalDocs": {"url": "https://github.com/headrace/headrace/blob/main/docs/reference/status.md"},
        "paths": {
            **{path.replace(":path", ""): {"get": _operation(path)} for path in PATHS},
            **{path: {"post": _change(path)} for path in CHANGES},
            **_signing(),
        },
        "components": {
            "schemas": {**schemas["$defs"], "Problem": _problem_schema()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


def _operation(path: str) -> dict[str, Any]:
    operation = _OPERATIONS[path]
    responses = {"200": _response("The answer.", _schema(operation), is_text=path == "/metrics", is_events=path in _EVENTS)}
    if path == "/readyz":
        responses["503"] = _response("Something is wrong.", _schema(operation))
    parameters = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}] if "{" in path else []
    parameters += _PARAMETERS.get(path, [])
    if parameters:
        responses["404"] = _error("There is none of that name.")
    if path == PEEK:
        responses["409"] = _error("The configuration does not enable it.")
        responses["429"] = _error("Too many listen already.")
    if path in _PARAMETERS:
        responses["400"] = _error("A parameter is missing or invalid.")
    if PATHS[path]:
        responses["401"] = _error("The token is missing or not known.")
        responses["403"] = _error(f"The token lacks a right: {', '.join(sorted(right.value for right in PATHS[path]))}.")
    found: dict[str, Any] = {
        "operationId": _identifier(path),
        "summary": operation.summary,
        "security": [{"token": []}, {"cookie": []}] if PATHS[path] else [],
        "responses": responses,
    }
    if parameters:
        found["parameters"] = parameters
    return found


def _change(path: str) -> dict[str, Any]:
    change = CHANGES_MADE[path]
    request = {"$ref": f"#/components/schemas/{change.request.__name__}"}
    return {
        "operationId": f"post_{_identifier(path)}",
        "summary": change.summary,
        "security": [{"token": []}, {"cookie": []}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": _response("The change is made.", {"$ref": f"#/components/schemas/{change.answer.__name__}"}),
            "400": _error("The body is not valid."),
            "401": _error("The token is missing or not known."),
            "403": _error(f"The token lacks a right: {', '.join(sorted(right.value for right in CHANGES[path]))}."),
            "404": _error("There is none of that name."),
            "409": _error("The state of the part does not allow it."),
            "411": _error("The length of the body is not stated."),
            "413": _error("The body is too large."),
            "415": _error("The body is not declared as JSON."),
            **(_RESTART_ERRORS if path == RESTART else {}),
        },
    }


def _signing() -> dict[str, Any]:
    """Returns the paths by which somebody signs in and out in a browser."""
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/SignInRequest"}}}}
    refused = {"403": _error("The request comes from a page of another origin.")}
    sign_in = {
        "204": {"description": "Signed in: the response sets a cookie."},
        "400": _error("The body is not valid."),
        "401": _error("The token is not known."),
        **refused,
        "411": _error("The length of the body is not stated."),
        "413": _error("The body is too large."),
        "415": _error("The body is not declared as JSON."),
    }
    sign_out = {"204": {"description": "Signed out: the cookie is no longer valid."}, **refused}
    me = {"200": _response("The answer.", {"$ref": "#/components/schemas/MeDocument"})}
    return {
        SIGN_IN: {"post": {**_open("sign_in", "Signs in.", sign_in), "requestBody": body}},
        SIGN_OUT: {"post": _open("sign_out", "Signs out.", sign_out)},
        ME: {"get": _open("me", "Who calls, and what it may do.", me)},
    }


def _open(name: str, summary: str, responses: dict[str, Any]) -> dict[str, Any]:
    """Returns an operation that needs no token."""
    return {"operationId": name, "summary": summary, "security": [], "responses": responses}


def _identifier(path: str) -> str:
    return re.sub(r"\W+", "_", path.replace(":path", "")).strip("_")


def _schema(operation: _Operation) -> dict[str, Any]:
    if operation.schema is None:
        return {}
    one = {"$ref": f"#/components/schemas/{operation.schema}"}
    if not operation.list_name:
        return one
    many = {operation.list_name: {"type": "array", "items": one}}
    return {"type": "object", "required": [operation.list_name], "properties": many}


def _response(description: str, schema: dict[str, Any], *, is_text: bool = False, is_events: bool = False) -> dict[str, Any]:
    media_type = "text/event-stream" if is_events else "text/plain" if is_text else "application/json"
    return {"description": description, "content": {media_type: {"schema": schema}}}


def _error(description: str) -> dict[str, Any]:
    return {"description": description, "content": {_PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}}


_RESTART_ERRORS = {
    "429": _error("Too many restarts are in progress."),
    "503": _error("The deployment has left before it answered."),
    "504": _error("There was no answer in time; the restart continues."),
}


def _problem_schema() -> dict[str, Any]:
    fields = {"type": "string", "title": "string", "status": "integer", "detail": "string"}
    properties = {name: {"type": kind} for name, kind in fields.items()}
    return {"type": "object", "description": "An error (RFC 9457).", "required": list(fields), "properties": properties}

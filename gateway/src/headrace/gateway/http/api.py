"""The API: the status of the gateway and its parts, as `headrace status --json` prints it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace.contract.names import nearest
from headrace.gateway.http.guard import Endpoint, problem
from headrace.gateway.http.openapi import openapi_document
from headrace.gateway.http.status import Documents, json_response
from headrace.gateway_status import StatusDocument

API = "/api/v1"


def api_endpoints(documents: Documents) -> Mapping[str, Endpoint]:
    """Returns the endpoints of the API by path.

    Args:
        documents: The status.
    """

    def of_status(read: Callable[[StatusDocument], Mapping[str, Any]]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            return await documents.part(request.url.path, read)

        return endpoint

    def of_one(kind: str, read: Callable[[StatusDocument], Iterable[Mapping[str, Any]]]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            name = request.path_params["name"]
            known = {document[kind]: document for document in read(await documents.status())}
            if name in known:
                return JSONResponse(known[name])
            return problem(404, f"there is no {kind} {name!r}; {API}/{kind}s lists all{nearest(name, known)}")

        return endpoint

    async def problems(request: Request) -> Response:
        return json_response((await documents.health(with_problems=True))[1])

    async def openapi(request: Request) -> Response:
        return JSONResponse(openapi_document())

    return {
        f"{API}/openapi.json": openapi,
        f"{API}/problems": problems,
        f"{API}/status": of_status(lambda status: status),
        f"{API}/gateway": of_status(lambda status: status["gateway"]),
        f"{API}/streams": of_status(lambda status: {"streams": status["streams"]}),
        f"{API}/streams/{{name:path}}": of_one("stream", lambda status: status["streams"]),
        f"{API}/sessions": of_status(lambda status: {"sessions": status["sessions"]}),
        f"{API}/pipelines": of_status(lambda status: {"pipelines": status["pipelines"]}),
        f"{API}/pipelines/{{name:path}}": of_one("pipeline", lambda status: status["pipelines"]),
        f"{API}/sinks": of_status(lambda status: {"sinks": status["sinks"]}),
        f"{API}/sinks/{{name:path}}": of_one("sink", lambda status: status["sinks"]),
        f"{API}/sink-sessions": of_status(lambda status: {"sink_sessions": status["sink_sessions"]}),
    }

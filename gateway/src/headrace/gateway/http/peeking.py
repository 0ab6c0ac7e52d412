"""The paths of the API that show messages: messages of a stream, as server-sent events, and dead letters."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from headrace.contract.counts import counted
from headrace.contract.limits import MAX_DEAD_LETTERS, MAX_PEEK
from headrace.gateway.core import Gateway, ProtocolError
from headrace.gateway.core.status import begin_peek, list_dead_letters, peek
from headrace.gateway.http.callers import Callers
from headrace.gateway.http.events import EventStream, event, while_permitted
from headrace.gateway.http.guard import Endpoint, caller_of, refusal_of
from headrace.gateway.http.status import encoded, json_response
from headrace.gateway.http.timeline import query_number
from headrace.gateway.rules import DEAD_LETTERS, PEEK
from headrace.gateway_status import dead_letters_document, peek_document


def peek_endpoints(gateway: Gateway, callers: Callers) -> Mapping[str, Endpoint]:
    """Returns the endpoints by path; they must come before the paths of single parts.

    Args:
        gateway: The gateway.
        callers: Who may call.
    """

    async def listen(request: Request) -> Response:
        limit, identity = query_number(request, "limit", 0, MAX_PEEK, 0), callers.authenticate(request)
        try:
            stream = begin_peek(gateway, caller_of(request, identity), identity, request.path_params["name"])
        except ProtocolError as error:
            return refusal_of(error)

        async def events() -> AsyncGenerator[bytes]:
            number, reason = 0, f"{counted(limit, 'message', 'was')} shown"
            try:
                async with aclosing(peek(gateway, identity, stream, limit)) as samples:
                    async for sample in samples:
                        number += 1
                        yield event("sample", number, peek_document(sample))
            except ProtocolError as error:
                reason = str(error)
            # Without it, a browser would connect again.
            yield event("end", number + 1, {"reason": reason})

        return EventStream(while_permitted(request, PEEK, callers, events()))

    async def dead_letters(request: Request) -> Response:
        limit, identity = query_number(request, "limit", 0, MAX_DEAD_LETTERS, 0), callers.authenticate(request)
        try:
            caller, sink = caller_of(request, identity), request.query_params.get("sink", "")
            found = await list_dead_letters(gateway, caller, identity, sink, limit)
            # Those of many sinks are converted in a thread, so that sessions do not wait.
            return json_response(await asyncio.to_thread(lambda: encoded(dead_letters_document(found))))
        except ProtocolError as error:
            return refusal_of(error)

    return {PEEK: listen, DEAD_LETTERS: dead_letters}

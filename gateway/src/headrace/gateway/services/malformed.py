"""Ends calls with requests that cannot be parsed, or must not be, because of how much is in them.

gRPC itself would report an internal error of the gateway.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from headrace.gateway.core import ProtocolError
from headrace.gateway.services.calls import end_call
from headrace.gateway.services.entries import check_entries
from headrace.gateway.statuses import Context, abort
from headrace.protocol.v1 import connector_pb2

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


METHOD_KINDS = {
    (False, False): ("unary_unary", grpc.unary_unary_rpc_method_handler),
    (False, True): ("unary_stream", grpc.unary_stream_rpc_method_handler),
    (True, False): ("stream_unary", grpc.stream_unary_rpc_method_handler),
    (True, True): ("stream_stream", grpc.stream_stream_rpc_method_handler),
}
"""The attribute and the factory of gRPC's method handlers, by whether requests and responses are streams."""
_SESSIONS = ("/Ingest", "/Attach")
"""The methods of connector sessions, which handle unparseable requests themselves."""


class RejectMalformed(grpc.aio.ServerInterceptor):
    """Ends each call that sends such a request, of whatever service, before its method sees the request."""

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Wraps the call's handler with the check."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_deserializer is None:
            return handler
        streams = handler.request_streaming
        name, make = METHOD_KINDS[streams, handler.response_streaming]
        behaviour, deserialize = getattr(handler, name), _bounded(handler_call_details.method, handler.request_deserializer)
        if not (streams and _is_session(handler_call_details)):
            behaviour, deserialize = _checked(behaviour, _whole if streams else _one), _reading(deserialize)
        return make(behaviour, deserialize, handler.response_serializer)


def _is_session(details: grpc.HandlerCallDetails) -> bool:
    return details.method.endswith(_SESSIONS)


def _bounded(method: str, deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Returns a deserializer that first looks at how much there is."""
    kind = _request_of(method)

    def read(data: bytes) -> Any:
        check_entries(data, kind)
        return deserialize(data)

    return read


@cache
def _request_of(method: str) -> Descriptor:
    return descriptor_pool.Default().FindMethodByName(method.removeprefix("/").replace("/", ".")).input_type


def _reading(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Returns a deserializer that returns errors: gRPC would report a raised one as a failure of the method."""

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except (DecodeError, ProtocolError) as error:
            return error

    return read


def _checked(behaviour: Callable[[Any, Context], Any], look: Callable[[Any, Context], Awaitable[Any]]) -> Callable[..., Any]:
    """Wraps a method, unary or streaming, to receive only checked requests."""
    if inspect.isasyncgenfunction(behaviour):

        async def generate(request: Any, context: Context) -> AsyncIterator[Any]:
            async for response in behaviour(await look(request, context), context):
                yield response

        return generate

    async def answer(request: Any, context: Context) -> Any:
        return await behaviour(await look(request, context), context)

    return answer


async def _one(request: Any, context: Context) -> Any:
    """Returns a request; ends the call if it is an error."""
    if isinstance(request, ProtocolError):
        await end_call(context, request)
        # The call has its status: its method must not begin.
        raise asyncio.CancelledError
    if isinstance(request, DecodeError):
        text, reason = f"not a valid request for this method: {request}", connector_pb2.ERROR_REASON_MALFORMED_MESSAGE
        await abort(context, grpc.StatusCode.INVALID_ARGUMENT, text, reason)
    return request


async def _whole(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
    """Wraps a stream of requests to check each one when it is read."""

    async def each() -> AsyncIterator[Any]:
        async for request in requests:
            yield await _one(request, context)

    return each()

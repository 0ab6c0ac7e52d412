"""Ends calls with unparseable requests with INVALID_ARGUMENT; gRPC itself would report an internal error of the gateway."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from headrace.gateway.statuses import abort
from headrace.protocol.v1 import connector_pb2

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

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
    """Ends each call that sends an unparseable request, before its method sees the request."""

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Wraps the call's handler with the check."""
        handler = await continuation(handler_call_details)
        streams = handler is not None and handler.request_streaming
        if handler is None or handler.request_deserializer is None or (streams and _is_session(handler_call_details)):
            return handler
        name, make = METHOD_KINDS[handler.request_streaming, handler.response_streaming]
        behaviour = _checked(getattr(handler, name), _whole if streams else _one)
        return make(behaviour, _reading(handler.request_deserializer), handler.response_serializer)


def _is_session(details: grpc.HandlerCallDetails) -> bool:
    return details.method.endswith(_SESSIONS)


def _reading(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Returns a deserializer that returns errors: gRPC would report a raised one as a failure of the method."""

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as error:
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
    """Returns a request; ends the call if it is a parse error."""
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

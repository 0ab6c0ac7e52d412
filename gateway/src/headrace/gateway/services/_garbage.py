"""Ends calls whose bytes are no message with INVALID_ARGUMENT: gRPC alone would call that the gateway's own failure."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_MAKE = {
    (False, False): ("unary_unary", grpc.unary_unary_rpc_method_handler),
    (False, True): ("unary_stream", grpc.unary_stream_rpc_method_handler),
    (True, False): ("stream_unary", grpc.stream_unary_rpc_method_handler),
    (True, True): ("stream_stream", grpc.stream_stream_rpc_method_handler),
}
_SESSIONS = ("/Ingest", "/Attach")
"""Sessions of connectors look at what they read themselves."""


class RefuseGarbage(grpc.aio.ServerInterceptor):
    """Checks the bytes of each request before its method sees it."""

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Puts the check before the call's handler."""
        handler = await continuation(handler_call_details)
        streams = handler is not None and handler.request_streaming
        if handler is None or handler.request_deserializer is None or (streams and _is_session(handler_call_details)):
            return handler
        name, make = _MAKE[handler.request_streaming, handler.response_streaming]
        behaviour = _checked(getattr(handler, name), _whole if streams else _one)
        return make(behaviour, _reading(handler.request_deserializer), handler.response_serializer)


def _is_session(details: grpc.HandlerCallDetails) -> bool:
    return details.method.endswith(_SESSIONS)


def _reading(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Has garbage come as the error that it is: what a deserializer raises, gRPC takes for a failure of the method."""

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as error:
            return error

    return read


def _checked(behaviour: Callable[[Any, Context], Any], look: Callable[[Any, Context], Awaitable[Any]]) -> Callable[..., Any]:
    """The method, of the same kind as before, called with what was looked at."""
    if inspect.isasyncgenfunction(behaviour):

        async def generate(request: Any, context: Context) -> AsyncIterator[Any]:
            async for response in behaviour(await look(request, context), context):
                yield response

        return generate

    async def answer(request: Any, context: Context) -> Any:
        return await behaviour(await look(request, context), context)

    return answer


async def _one(request: Any, context: Context) -> Any:
    """A single request."""
    if isinstance(request, DecodeError):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a request of this method: {request}")
    return request


async def _whole(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
    """A stream of requests, each looked at as it is read."""

    async def each() -> AsyncIterator[Any]:
        async for request in requests:
            yield await _one(request, context)

    return each()

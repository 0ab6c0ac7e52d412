"""Ends calls whose token is revoked while they are served, of whatever method."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, TypeAlias

import grpc
import grpc.aio

from headrace.gateway.core.base.errors import LimitExceeded, OutOfTurn
from headrace.gateway.core.connections import ClientCertificates, OpenCall, OpenCalls
from headrace.gateway.identity import NOBODY, current_identity
from headrace.gateway.services.calls import begin_call, end_call
from headrace.gateway.services.malformed import METHOD_KINDS

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Serve: TypeAlias = Callable[[Any, Context], Awaitable[None]]


MAX_WAITING = 1_000
"""How many calls of methods that need no token may wait for their request. A call costs about 20 kB."""


class EndRevoked(grpc.aio.ServerInterceptor):
    """Adds each call to the open calls, and ends it with the error that ends it there.

    It comes after the interceptor that finds out who calls. A call of a method that needs no token, such as a probe's, is not
    added. It has to send its request while there are few such calls: the one that waits longest makes room for a new one.
    """

    def __init__(self, calls: OpenCalls, clients: ClientCertificates | None = None) -> None:
        self._calls = calls
        self._clients = clients
        self._waiting = OpenCalls()
        """The calls without a token whose request is not there yet."""

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Adds the call, and wraps its handler."""
        identity = current_identity()
        is_known = identity is not NOBODY
        calls = self._calls if is_known else self._waiting
        # From here on, not from the first request on: a client may take its time to send that.
        call = calls.begin(identity)
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: calls.finish(call))
        if len(self._waiting) > MAX_WAITING:
            self._make_room()
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        name, _ = METHOD_KINDS[handler.request_streaming, handler.response_streaming]
        behaviour = getattr(handler, name)
        answer = _writing(behaviour) if handler.response_streaming else _answering(behaviour)
        serving = answer if is_known else self._until_request(call, answer)
        serve = self._ending(call, serving if handler.request_streaming else _of_one(serving))
        # Of this kind for every method: gRPC would wait for the only request of a call by itself, and cannot be interrupted.
        return grpc.stream_stream_rpc_method_handler(serve, handler.request_deserializer, handler.response_serializer)

    def _make_room(self) -> None:
        """Ends the call that waits longest for its request, unless enough are about to end."""
        waiting = [call for call in self._waiting if call.failure is None]
        if len(waiting) > MAX_WAITING:
            text = f"more than {MAX_WAITING} calls without a token wait for their request; send it with the call"
            waiting[0].end(LimitExceeded(text, limit="calls without a token", maximum=MAX_WAITING))

    def _until_request(self, call: OpenCall, answer: Serve) -> Serve:
        async def serve(request: Any, context: Context) -> None:
            self._waiting.finish(call)
            await answer(request, context)

        return serve

    def _ending(self, call: OpenCall, serve: Serve) -> Serve:
        async def serve_until_ended(requests: Any, context: Context) -> None:
            if call in self._calls:
                peer = context.peer()
                self._calls.serve(call, peer)
                if self._clients is not None:
                    self._clients.note(peer, partial(_certificate, context))
            call.is_served = True
            try:
                if call.failure is not None:
                    await end_call(context, call.failure)
                else:
                    await serve(requests, context)
            except asyncio.CancelledError:
                if not call.was_cancelled_by_end():
                    raise
                assert call.failure is not None
                # It may already have begun to end with an error of its own.
                with suppress(grpc.aio.UsageError):
                    await end_call(context, call.failure)
            finally:
                # An answer is sent, even if the token is revoked meanwhile.
                self._calls.finish(call)

        return serve_until_ended


def _certificate(context: Context) -> bytes | None:
    """Returns the certificate that the client presents, in PEM format."""
    return next(iter(context.auth_context().get("x509_pem_cert", ())), None)


def _of_one(answer: Serve) -> Serve:
    """Returns the method of a stream of requests that answers its only one."""

    async def serve(requests: AsyncIterator[Any], context: Context) -> None:
        nothing = object()
        request = await anext(requests, nothing)
        if request is nothing:
            await end_call(context, OutOfTurn("the call ended without a request; send one"))
        else:
            await answer(request, context)

    return serve


def _answering(behaviour: Callable[[Any, Context], Awaitable[Any]]) -> Serve:
    """Returns a method that writes its only response."""

    async def serve(request: Any, context: Context) -> None:
        response = await behaviour(request, context)
        await begin_call(context)
        await context.write(response)

    return serve


def _writing(behaviour: Callable[[Any, Context], Any]) -> Serve:
    """Returns a method that writes its responses, which gRPC would otherwise do where nothing ends it."""
    if not inspect.isasyncgenfunction(behaviour):
        return behaviour

    async def serve(request: Any, context: Context) -> None:
        async with aclosing(behaviour(request, context)) as responses:
            has_begun = False
            async for response in responses:
                if not has_begun:
                    await begin_call(context)
                    has_begun = True
                await context.write(response)

    return serve

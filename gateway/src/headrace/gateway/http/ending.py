"""Ends requests whose token is revoked while they are answered: requests that wait, and streams of events."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.gateway.core.connections import OpenCall, OpenCalls
from headrace.gateway.http.guard import refusal_of
from headrace.gateway.identity import Identity


class EndRevoked:
    """Ends each request with the error that ends its call.

    The guard adds the request to the open calls, once it knows who makes it, with `begin_call` in the request's state.
    """

    def __init__(self, app: ASGIApp, calls: OpenCalls) -> None:
        self._app = app
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        call: OpenCall | None = None
        has_begun = False

        def begin(identity: Identity) -> None:
            nonlocal call
            call = self._calls.begin(identity)
            host, port = scope["client"] or ("", 0)
            self._calls.serve(call, f"[{host}]:{port}")
            scope["state"]["is_known"] = True

        async def send_noting(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                if call is not None and not scope["state"].get("is_stream"):
                    # Answers are sent.
                    self._calls.finish(call)
            await send(message)

        scope.setdefault("state", {})["begin_call"] = begin
        try:
            await self._app(scope, receive, send_noting)
        except asyncio.CancelledError:
            if call is None or not call.was_cancelled_by_end():
                raise
            assert call.failure is not None
            if has_begun:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await refusal_of(call.failure)(scope, receive, send)
        finally:
            if call is not None:
                self._calls.finish(call)

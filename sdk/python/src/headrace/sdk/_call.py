"""A connector's call to a gateway: its messages, its errors, and how it begins."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Generic, TypeVar

import grpc.aio

from headrace.sdk._channel import call_ended
from headrace.sdk._errors import GatewayUnavailable

Request = TypeVar("Request")
Response = TypeVar("Response")
Welcome = TypeVar("Welcome")


class Call(Generic[Request, Response]):
    """What goes either way."""

    def __init__(self, call: Any, response: type[Response], gateway: str) -> None:
        """Speaks through a call of gRPC, whose answers are of type `response`."""
        self._call = call
        self._response = response
        self._gateway = gateway

    async def read(self) -> Response:
        """The next message of the gateway.

        Raises:
            SessionEnded: The gateway ended the call.
            grpc.aio.AioRpcError: The call broke.
        """
        response = await self._call.read()
        if isinstance(response, self._response):
            return response
        details = await self._call.details() or "the gateway ended the session"
        raise call_ended(self._gateway, await self._call.code(), details)

    async def write(self, request: Request) -> None:
        """Sends a message; waits where the gateway is behind.

        Raises:
            SessionEnded: The gateway ended the call.
            grpc.aio.AioRpcError: The call broke.
        """
        try:
            await self._call.write(request)
        except asyncio.InvalidStateError:
            raise call_ended(self._gateway, await self._call.code(), await self._call.details()) from None


@contextlib.asynccontextmanager
async def calling(call: Any, gateway: str) -> AsyncIterator[None]:
    """Ends a call at the end, and turns what gRPC raised into what it means."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise call_ended(gateway, error.code(), error.details() or "") from error
    finally:
        call.cancel()


async def welcomed(greeting: Coroutine[Any, Any, Welcome], seconds: float, stop: asyncio.Event) -> Welcome | None:
    """Greets the gateway; None where the connector was stopped meanwhile.

    Raises:
        GatewayUnavailable: No answer came in time.
    """
    answer = asyncio.create_task(greeting)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({answer, stopping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if stop.is_set():
            return None
        raise GatewayUnavailable(f"the gateway has not answered within {seconds} s", "DEADLINE_EXCEEDED")
    finally:
        answer.cancel()
        stopping.cancel()
        await asyncio.gather(answer, stopping, return_exceptions=True)

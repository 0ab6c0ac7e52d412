"""A connector's call to a gateway: the handshake, messages in both directions, and errors."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from enum import Enum
from typing import Any, Generic, TypeVar

import grpc.aio

from headrace.contract.proxies import through
from headrace.sdk._errors import GatewayUnavailable
from headrace.sdk.wire._ended import call_broke, call_ended
from headrace.sdk.wire._internals import keep_status
from headrace.sdk.wire._transport import Stream

Request = TypeVar("Request")
Response = TypeVar("Response")
Result = TypeVar("Result")


class Ending(Enum):
    """Why a session ended cleanly."""

    SOURCE_ENDED = "the source has ended"
    STOPPED = "the connector stops"
    DRAINED = "the gateway asked to reconnect"


class Call(Generic[Request, Response]):
    """Reads and writes the messages of a gRPC call."""

    def __init__(self, call: Stream[Request], response: type[Response], gateway: str) -> None:
        """Wraps a gRPC call whose responses are of type `response`."""
        keep_status(call)
        self._call = call
        self._response = response
        self._gateway = gateway

    async def read(self) -> Response:
        """Returns the gateway's next message.

        Raises:
            SessionEnded: The gateway ended the call.
            grpc.aio.AioRpcError: The call broke.
        """
        response = await self._call.read()
        if isinstance(response, self._response):
            return response
        raise await call_ended(self._gateway, self._call)

    async def write(self, request: Request) -> None:
        """Sends a message; waits while the gateway applies backpressure.

        Raises:
            SessionEnded: The gateway ended the call.
            grpc.aio.AioRpcError: The call broke.
        """
        try:
            await self._call.write(request)
        except asyncio.InvalidStateError:
            raise await call_ended(self._gateway, self._call) from None


@contextlib.asynccontextmanager
async def calling(call: Stream[Any], gateway: str) -> AsyncIterator[None]:
    """Cancels the call on exit, and translates gRPC errors into `SessionEnded` and its subclasses."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise call_broke(gateway, error) from error
    finally:
        call.cancel()


async def welcomed(greeting: Coroutine[Any, Any, Result], gateway: str, seconds: float, stop: asyncio.Event) -> Result | None:
    """Awaits the handshake; returns None if the connector was stopped first.

    Raises:
        GatewayUnavailable: The gateway did not answer within `seconds`.
    """
    try:
        async with asyncio.timeout(seconds):
            return await unless_stopped(greeting, stop)
    except TimeoutError:
        text = f"the gateway {gateway} has not answered within {seconds} s{through(gateway)}"
        raise GatewayUnavailable(text, "DEADLINE_EXCEEDED") from None


async def unless_stopped(work: Coroutine[Any, Any, Result], stop: asyncio.Event) -> Result | None:
    """Awaits a result; returns None if the connector was stopped first."""
    result = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({result, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return result.result() if result.done() else None
    finally:
        result.cancel()
        stopping.cancel()
        await asyncio.gather(result, stopping, return_exceptions=True)

"""How sessions begin, and how they and other calls end."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

import grpc.aio

from headrace.gateway.core import VERSION, ProtocolError
from headrace.gateway.core._bounds import check_length
from headrace.gateway.core._errors import OutOfTurn, TooSlow

PROTOCOL_VERSION = 1
LAST_WORD_S = 2.0
"""How long a client may take to read why its call has ended."""
REASON = "headrace-reason"
"""The trailing metadata that has an error's reason."""


async def first_hello(coming: Awaitable[Any], timeout_ms: int) -> Any:
    """The Hello with which a session begins; `coming` is its first message, or None where there is none.

    Raises:
        TooSlow: nothing came in time.
        OutOfTurn: it is something else, of another protocol version, or does not say who the connector is.
        MalformedMessage: a name in it is too long.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            first = await coming
    except TimeoutError:
        raise TooSlow(f"no Hello within {timeout_ms} ms; send it first") from None
    if first is None or first.WhichOneof("message") != "hello":
        raise OutOfTurn("the first message of a session must be Hello")
    hello = first.hello
    if hello.protocol_version != PROTOCOL_VERSION:
        raise OutOfTurn(
            f"protocol version {hello.protocol_version}: this gateway ({VERSION}) speaks {PROTOCOL_VERSION}; "
            "use a connector built for it"
        )
    if not hello.connector or not hello.instance:
        raise OutOfTurn("Hello without a connector name or without an instance; both are needed")
    for field in ("connector", "connector_version", "instance"):
        check_length(f"{field} in Hello", getattr(hello, field))
    return hello


async def first_to_end(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Runs all until the first ends, and cancels the others; raises what that one raised."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def begin_call(context: "grpc.aio.ServicerContext[Any, Any]") -> None:
    """Sends the metadata of a session: with its first message they would go out twice where the call ends meanwhile."""
    await context.send_initial_metadata(())


async def end_call(context: "grpc.aio.ServicerContext[Any, Any]", error: ProtocolError) -> None:
    """Ends a call with an error; what the handler returns then goes nowhere.

    A client that reads nothing is not told: what waits for it is let go of, and the call is reset.
    """
    try:
        async with asyncio.timeout(LAST_WORD_S):
            await context.abort(error.status, str(error), ((REASON, error.reason),) if error.reason else ())
    except TimeoutError:
        raise asyncio.CancelledError from None
    except grpc.aio.AbortError as aborted:
        # gRPC keeps it as long as the call, and in its traceback are the call and its messages: only a garbage collection, which
        # may be long in coming, would free them.
        aborted.with_traceback(None).__context__ = None
    finally:
        error.with_traceback(None).__context__ = error.__cause__ = None

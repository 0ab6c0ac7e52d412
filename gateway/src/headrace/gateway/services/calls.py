"""The first message of a session, and the end of a call with an error."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

import grpc.aio

from headrace.contract.limits import PROTOCOL_VERSION
from headrace.gateway.core import VERSION, ProtocolError
from headrace.gateway.core.bounds import check_length
from headrace.gateway.core.errors import OutOfTurn, TooSlow

ABORT_TIMEOUT_S = 2.0
"""How long a client may take to read its call's final status, in seconds."""
REASON = "headrace-reason"
"""The key of the trailing metadata entry that contains an error's reason."""


async def first_hello(coming: Awaitable[Any], timeout_ms: int) -> Any:
    """Returns the Hello that begins a session.

    Args:
        coming: The session's first message; None if the stream ends without one.
        timeout_ms: How long to wait for it, in milliseconds.

    Raises:
        TooSlow: nothing arrived in time.
        OutOfTurn: the message is not Hello, has an unsupported protocol version, or lacks a connector or instance name.
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
            "use a connector built for that version"
        )
    if not hello.connector or not hello.instance:
        raise OutOfTurn("Hello without a connector name or without an instance; both are needed")
    for field in ("connector", "connector_version", "instance"):
        check_length(f"{field} in Hello", getattr(hello, field))
    return hello


async def first_to_end(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Runs all coroutines until the first one ends, then cancels the others. Raises the error of the first one, if any."""
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
    """Sends a session's initial metadata immediately: if a call ended during its first write, gRPC would send them twice."""
    await context.send_initial_metadata(())


async def end_call(context: "grpc.aio.ServicerContext[Any, Any]", error: ProtocolError) -> None:
    """Ends a call with an error; gRPC discards the handler's return value.

    If the client does not read the status in time, its queued messages are dropped and the call is reset.
    """
    try:
        async with asyncio.timeout(ABORT_TIMEOUT_S):
            await context.abort(error.status, str(error), ((REASON, error.reason),) if error.reason else ())
    except TimeoutError:
        raise asyncio.CancelledError from None
    except grpc.aio.AbortError as aborted:
        # gRPC keeps the error as long as the call, and its traceback references the call and its messages. Only a garbage
        # collection, perhaps much later, would free them.
        aborted.with_traceback(None).__context__ = None
    finally:
        error.with_traceback(None).__context__ = error.__cause__ = None

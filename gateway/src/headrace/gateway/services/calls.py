"""The first message of a call, writes to clients that may not read, and the end of a call with an error."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

import grpc.aio

from headrace.contract.limits import PROTOCOL_VERSION
from headrace.gateway.core import VERSION, ProtocolError
from headrace.gateway.core.base.bounds import MAX_CAPABILITIES, check_count, check_length
from headrace.gateway.core.base.errors import HelloTimeout, NotPermitted, OutOfTurn, ReadTimeout, VersionUnsupported
from headrace.gateway.identity import identity_of, method_of
from headrace.gateway.refusals import log_refusal
from headrace.gateway.statuses import abort

ABORT_TIMEOUT_S = 2.0
"""How long a client may take to read its call's final status, in seconds."""
REASON = "headrace-reason"
"""The key of the trailing metadata that holds an error's reason for engines."""
UNKNOWN_MESSAGE = (
    f"a message without content, or of a kind that this gateway ({VERSION}) does not know; "
    "upgrade the gateway, or send only what its Welcome lists as capabilities"
)


def check_of_session(hello: Any) -> None:
    """Checks what the Hellos of sources and of sinks share.

    Raises:
        OutOfTurn: it lacks a connector or instance name.
        VersionUnsupported: it has another protocol version.
        MalformedMessage: a name in it is too long.
        ListTooLong: it has too many capabilities.
    """
    _check_version(hello.protocol_version)
    if not hello.connector or not hello.instance:
        raise OutOfTurn("Hello without a connector name or without an instance; both are needed")
    for field in ("connector", "connector_version", "instance"):
        check_length(f"{field} in Hello", getattr(hello, field))
    for field in ("name", "version", "language"):
        check_length(f"sdk.{field} in Hello", getattr(hello.sdk, field))
    check_count("capabilities", hello.capabilities, MAX_CAPABILITIES)


async def first_of(coming: Awaitable[Any], timeout_ms: int, whose: str, hello: str) -> Any:
    """Returns the hello of a call, unchecked.

    Args:
        coming: The call's first message; None if the stream ends without one.
        timeout_ms: How long to wait for it, in milliseconds.
        whose: What must begin with it, for the error.
        hello: The name of its message, for the error.

    Raises:
        HelloTimeout: nothing arrived in time.
        OutOfTurn: the message is another one.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            first = await coming
    except TimeoutError:
        raise HelloTimeout(f"no {hello} within {timeout_ms} ms; send it first", timeout_ms=timeout_ms) from None
    if first is None or first.WhichOneof("message") != "hello":
        raise OutOfTurn(f"the first message of a {whose} must be {hello}")
    return first.hello


async def write_in_time(
    context: "grpc.aio.ServicerContext[Any, Any]", response: Any, timeout_ms: int, reader: str, advice: str = "keep reading"
) -> None:
    """Sends a message, and waits until the client reads.

    Args:
        context: The call.
        response: The message.
        timeout_ms: How long the client may read nothing, in milliseconds.
        reader: The client, for the error.
        advice: The remedy, for the error.

    Raises:
        ReadTimeout: the client has read nothing in time.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await context.write(response)
    except TimeoutError:
        text = f"the {reader} has read nothing for {timeout_ms} ms; {advice}"
        raise ReadTimeout(text, timeout_ms=timeout_ms) from None


def _check_version(spoken: int) -> None:
    """Checks the protocol version in a Hello.

    Raises:
        VersionUnsupported: this gateway does not speak it.
    """
    if spoken == PROTOCOL_VERSION:
        return
    side = "gateway" if spoken > PROTOCOL_VERSION else "connector"
    newer = "the gateway to a version that speaks" if spoken > PROTOCOL_VERSION else "the connector's SDK to one that speaks"
    raise VersionUnsupported(
        f"protocol version {spoken}: this gateway ({VERSION}) speaks {PROTOCOL_VERSION}; "
        f"upgrade {newer} {max(spoken, PROTOCOL_VERSION)}",
        version=spoken,
        supported_versions=PROTOCOL_VERSION,
        gateway_version=VERSION,
        upgrade=side,
    )


async def first_to_end(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Runs all coroutines until the first one ends, then cancels the others. Raises the error of the first one, if any."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    # Every session waits here as long as it lasts: asyncio.wait would keep 1 kB for it.
    first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(_: object) -> None:
        if not first.done():
            first.set_result(None)

    for task in tasks:
        task.add_done_callback(end)
    try:
        await first
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def begin_call(context: "grpc.aio.ServicerContext[Any, Any]") -> None:
    """Sends a call's initial metadata, before its first message, to the end even if it is cancelled meanwhile.

    gRPC sends them with the first message or the status, unless it knows that they were sent. Of a write that is cancelled it
    does not know this: it would send them a second time with the status, fail, and leave the client without an end of its call.
    """
    sending = asyncio.ensure_future(context.send_initial_metadata(()))
    try:
        await asyncio.shield(sending)
    except asyncio.CancelledError:
        await asyncio.wait([sending], timeout=ABORT_TIMEOUT_S)
        sending.cancel()
        raise


async def end_call(context: "grpc.aio.ServicerContext[Any, Any]", error: ProtocolError) -> None:
    """Ends a call with an error, and logs it if the caller lacks a right; gRPC discards the handler's return value.

    If the client does not read the status in time, its queued messages are dropped and the call is reset.
    """
    if isinstance(error, NotPermitted):
        log_refusal(method_of(context), context.peer(), str(error), identity_of(context).name)
    try:
        async with asyncio.timeout(ABORT_TIMEOUT_S):
            trailing = ((REASON, error.engine_reason),) if error.engine_reason else ()
            await abort(context, error.status, str(error), error.reason, error.metadata, trailing)
    except (TimeoutError, grpc.aio.InternalError):
        # A call without an end would hold its client: it is reset.
        raise asyncio.CancelledError from None
    except grpc.aio.AbortError as aborted:
        # gRPC keeps the error as long as the call, and its traceback references the call and its messages. Only a garbage
        # collection, perhaps much later, would free them.
        aborted.with_traceback(None).__context__ = None
    finally:
        error.with_traceback(None).__context__ = error.__cause__ = None

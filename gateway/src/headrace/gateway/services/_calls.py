"""What the sessions of sources and of sinks have in common: how they begin, and how they end."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from headrace.gateway.core import VERSION
from headrace.gateway.core._errors import OutOfTurn, TooSlow

PROTOCOL_VERSION = 1


async def first_hello(requests: AsyncIterator[Any], timeout_ms: int) -> Any:
    """The Hello with which a session begins.

    Raises:
        TooSlow: nothing came in time.
        OutOfTurn: it is something else, of another protocol version, or does not say who the connector is.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            first = await anext(requests, None)
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

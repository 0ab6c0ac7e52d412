"""Ends a connector: waits for its methods, and then calls its `close`."""

import asyncio
import logging
from typing import Protocol

log = logging.getLogger("headrace.sdk")


class Closing(Protocol):
    """A connector that no session uses."""

    @property
    def closes(self) -> bool:
        """Whether it has a `close` of its own."""

    async def idle(self) -> None:
        """Returns once none of its methods runs."""

    async def close(self) -> None:
        """Calls its `close`."""


async def close_within(seconds: float, name: str, connector: Closing) -> None:
    """Calls the connector's `close`, if it has one, once none of its methods runs.

    It logs what fails or takes longer than `seconds`, and never raises.

    Args:
        seconds: How long to wait for the methods and for `close`, together.
        name: The connector's name in the log.
        connector: The connector.
    """
    if not connector.closes:
        return
    calls_close = False

    async def end() -> None:
        nonlocal calls_close
        await connector.idle()
        calls_close = True
        await connector.close()

    ending = asyncio.create_task(end(), name=f"headrace close of {name}")
    try:
        await asyncio.wait({ending}, timeout=seconds)
    finally:
        # Does nothing if it has ended.
        ending.cancel()
    if not ending.done():
        said = "has not returned" if calls_close else "is not called, because another method has not returned,"
        log.error("%s: close() %s after %g s (close_seconds); the connector ends without it", name, said, seconds)
    elif ending.cancelled():
        log.error("%s: close() was cancelled", name)
    elif (error := ending.exception()) is not None:
        log.error("%s: close() raised %s: %s", name, type(error).__name__, error, exc_info=error)

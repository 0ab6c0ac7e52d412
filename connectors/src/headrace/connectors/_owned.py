"""Servers and connections that live as long as the event loop: the SDK does not tell a connector that it ends."""

import asyncio
from collections.abc import Awaitable, Callable

# The loop itself would let go of tasks that nobody holds.
_waiting: set[asyncio.Task[None]] = set()


def close_with_loop(close: Callable[[], Awaitable[object]]) -> None:
    """Calls `close` when the loop ends, which cancels all tasks."""

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await close()

    task = asyncio.create_task(wait(), name="headrace closes with the loop")
    _waiting.add(task)
    task.add_done_callback(_waiting.discard)

"""Closes servers and connections when the event loop ends, because the SDK does not notify a connector of its end."""

import asyncio
from collections.abc import Awaitable, Callable

# The event loop holds only weak references to tasks.
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

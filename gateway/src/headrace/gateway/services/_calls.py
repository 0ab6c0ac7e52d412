"""What every bidirectional call needs."""

import asyncio
from collections.abc import Coroutine
from typing import Any


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

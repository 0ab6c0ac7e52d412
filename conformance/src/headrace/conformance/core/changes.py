"""Waiting for something that anything may bring about: a message, the end of a call, the end of a process."""

import asyncio
from collections.abc import Callable


class Changes:
    """Wakes whoever waits for a condition each time something has happened."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        """Something has happened."""
        self._next.set()
        self._next = asyncio.Event()

    async def next(self, seconds: float) -> bool:
        """Waits for the next thing to happen; returns whether it did, within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._next.wait()
        except TimeoutError:
            return False
        return True

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Waits for a condition; returns whether it holds, at the latest after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await self._next.wait()
        except TimeoutError:
            return condition()
        return True

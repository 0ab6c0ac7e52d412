"""Wakes whoever waits for something to change."""

import asyncio


class Signal:
    """A condition without a lock, for one event loop: waiters look at the state again after each notice."""

    def __init__(self) -> None:
        self._notice: asyncio.Future[None] | None = None
        self.waiters = 0
        """How many wait."""

    def notify(self) -> None:
        """Wakes every waiter."""
        if self._notice is not None:
            self._notice.set_result(None)
            self._notice = None

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the next notice; False where the time passed first."""
        if self._notice is None:
            self._notice = asyncio.get_running_loop().create_future()
        self.waiters += 1
        try:
            done, _ = await asyncio.wait({self._notice}, timeout=timeout_s)
        finally:
            self.waiters -= 1
        return bool(done)

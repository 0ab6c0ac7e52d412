"""Notifies tasks that wait for a change."""

import asyncio


class Signal:
    """A condition variable without a lock, for one event loop: waiters check the state again after each notification."""

    def __init__(self) -> None:
        self._notice: asyncio.Future[None] | None = None
        self.waiters = 0
        """The number of waiting tasks."""

    def notify(self) -> None:
        """Wakes all waiting tasks."""
        if self._notice is not None:
            self._notice.set_result(None)
            self._notice = None

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the next notification; returns False if `timeout_s` seconds pass first."""
        if self._notice is None:
            self._notice = asyncio.get_running_loop().create_future()
        self.waiters += 1
        try:
            done, _ = await asyncio.wait({self._notice}, timeout=timeout_s)
        finally:
            self.waiters -= 1
        return bool(done)

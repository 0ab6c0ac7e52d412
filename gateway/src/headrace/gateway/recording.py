"""Records the history of a gateway, and when faults begin and end, as long as the gateway runs."""

import asyncio

from headrace.contract import clock
from headrace.gateway.core import Gateway
from headrace.gateway.core.status import INTERVAL_S, FaultWatch, History
from headrace.gateway.observer import Observer


class Recording:
    """The record of one gateway."""

    def __init__(self, gateway: Gateway, observer: Observer) -> None:
        self.history = History(gateway)
        self._observer = observer
        self._watch = FaultWatch(gateway.event_log)

    async def run(self) -> None:
        """Records until cancelled."""
        took_s = 0.0
        while True:
            # Of very many parts, a moment takes long: the gateway must have time for other things.
            await asyncio.sleep(max(INTERVAL_S, 10 * took_s))
            began = clock.monotonic()
            await self.take()
            took_s = clock.monotonic() - began

    async def take(self) -> None:
        """Records this moment."""
        observed = await self._observer.observe()
        self._watch.look(observed.problems)
        await self.history.take(sum(problem.is_fault for problem in observed.problems))

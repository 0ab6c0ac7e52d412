"""Watches the descriptors of the gateway: each connection and each file takes one."""

import asyncio
from collections.abc import Callable

from headrace.gateway.own_faults import OwnFaultKind, OwnFaults
from headrace.machine.resources import REMEDY, in_use, limit

INTERVAL_S = 1.0
MAX_FEW = 128
"""As many are enough for the moment, whatever the limit is."""
_PART = "descriptors"
_OF_DESCRIPTORS = f"{REMEDY} and restart the gateway, or end what connects again and again; what is connected continues"


class DescriptorWatch:
    """The descriptors of this process."""

    def __init__(self, faults: OwnFaults, in_use: Callable[[], int] = in_use, limit: Callable[[], int | None] = limit) -> None:
        self._faults = faults
        self._in_use = in_use
        self._limit = limit

    async def watch(self) -> None:
        """Looks once a second, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(INTERVAL_S)

    def look(self) -> None:
        """Notes that less than a tenth of the descriptors is left, until that is twice as much."""
        most = self._limit()
        if most is None:
            self._faults.end(_PART, OwnFaultKind.DESCRIPTORS_EXHAUSTED)
            return
        used, few = self._in_use(), min(max(1, most // 10), MAX_FEW)
        if most - used < few:
            cause = f"{used} of {most} descriptors of the gateway are in use: it cannot take further connections or open files"
            self._faults.note(_PART, OwnFaultKind.DESCRIPTORS_EXHAUSTED, cause, _OF_DESCRIPTORS)
        elif most - used >= 2 * few:
            self._faults.end(_PART, OwnFaultKind.DESCRIPTORS_EXHAUSTED)

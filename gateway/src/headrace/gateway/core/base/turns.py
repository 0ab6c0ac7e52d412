"""Turns of tasks on the event loop: tasks that wait for a change, and long work that is divided into slices."""

import asyncio
import heapq
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeVar


class Signal:
    """A condition variable without a lock, for one event loop: waiters check the state again after each notification."""

    __slots__ = ("_futures", "waiters")

    def __init__(self) -> None:
        # One for each waiter: asyncio.wait for a shared one costs several times the time and the memory.
        self._futures: dict[asyncio.Future[bool], None] = {}
        self.waiters = 0
        """The number of waiting tasks."""

    def notify(self) -> None:
        """Wakes all waiting tasks."""
        if self._futures:
            futures, self._futures = self._futures, {}
            for future in futures:
                _end(future, True)

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the next notification; returns False if `timeout_s` seconds pass first."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        self._futures[future] = None
        timer = None if timeout_s is None else loop.call_later(timeout_s, _end, future, False)
        self.waiters += 1
        try:
            return await future
        finally:
            self.waiters -= 1
            self._futures.pop(future, None)
            if timer is not None:
                timer.cancel()


def _end(future: "asyncio.Future[bool]", is_notified: bool) -> None:
    # It is done if the timeout, or the end of the task that waits, came first.
    if not future.done():
        future.set_result(is_notified)


ENTRIES_OF_SLICE = 500
"""After how many entries others have their turn. An entry, such as a stream of a micro-batch, takes about 10 us."""
_SORTED_AT_ONCE = 5_000

_T = TypeVar("_T")


async def in_slices(steps: Iterator[int]) -> None:
    """Takes all steps. Short work is one slice, and so sees one state of the gateway.

    Args:
        steps: Each yields how many entries it took.
    """
    entries = 0
    for taken in steps:
        entries += taken
        if entries >= ENTRIES_OF_SLICE:
            entries = 0
            await asyncio.sleep(0)


def sorted_items(by_name: Mapping[str, _T]) -> Iterator[tuple[str, _T]]:
    """Yields the items of a mapping, as they are now, by name. Of many, a part is sorted whenever the next one is needed."""
    items = list(by_name.items())
    parts = [items[first : first + _SORTED_AT_ONCE] for first in range(0, len(items), _SORTED_AT_ONCE)]
    return heapq.merge(*(_sorted(part) for part in parts), key=lambda item: item[0])


def _sorted(items: list[tuple[str, _T]]) -> Iterator[tuple[str, _T]]:
    yield from sorted(items, key=lambda item: item[0])


def parts_of(items: Iterator[_T], size: int = ENTRIES_OF_SLICE) -> Iterator[list[_T]]:
    """Yields items in lists of a size; the last one may be shorter."""
    while part := list(islice(items, size)):
        yield part

"""`--shuffle SEED`: tests run on event loops that let tasks wait for a turn of the loop, as a busy machine and other timing do.

Whoever relies on the order in which two tasks wake up relies on timing. All other callbacks keep their order, and a task has one
wakeup at a time.
"""

import asyncio
import random
from collections import deque

import pytest

SHARE = 0.3
"""The probability that a task that is ready waits for another turn."""


class ShuffledLoop(asyncio.SelectorEventLoop):
    """A loop on which each task that is ready waits for other turns at random."""

    def __init__(self, source: random.Random) -> None:
        super().__init__()
        self._source = source

    def _run_once(self) -> None:
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        held = list[asyncio.Handle]()
        for _ in range(len(ready)):
            handle = ready.popleft()
            is_task = isinstance(getattr(getattr(handle, "_callback", None), "__self__", None), asyncio.Task)
            (held if is_task and self._source.random() < SHARE else ready).append(handle)
        if not ready:
            # With nothing to do, the loop would sleep.
            ready.extend(held)
            held = []
        super()._run_once()  # type: ignore[misc]
        ready.extend(held)


class ShuffledPolicy(asyncio.DefaultEventLoopPolicy):
    """Makes such loops."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._source = random.Random(seed)

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return ShuffledLoop(self._source)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="let tasks of asyncio wake up in another order, by this seed")


def pytest_configure(config: pytest.Config) -> None:
    seed = config.getoption("shuffle")
    if seed is not None:
        asyncio.set_event_loop_policy(ShuffledPolicy(seed))


def pytest_report_header(config: pytest.Config) -> str | None:
    """The seed, with which the same run can be had again."""
    seed = config.getoption("shuffle")
    return None if seed is None else f"--shuffle {seed}"

"""The baseline: a plain loop that calls the same functions in one thread."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.engine.codec import Columns
from headrace.laboratory.bench.pipelines.apps import App
from headrace.laboratory.bench.pipelines.feed import Feed, frames

_Run = tuple[Callable[[bytes], Any], list[bytes], list[bytes]]
"""Messages of one stream: their decoder, keys and payloads."""


@dataclass(frozen=True)
class Loop:
    """The outcome of a loop.

    Attributes:
        rate: Messages per second.
        results: Its results.
    """

    rate: float
    results: Sequence[bytes]

    @property
    def each_us(self) -> float:
        """The cost of the functions per message, in microseconds."""
        return 1e6 / self.rate


def plain_loop(app: App, feed: Feed, messages: int) -> Loop:
    """Runs the functions of an application on messages in lists, and returns the faster of two runs."""
    runs = [_run(app, frame) for frame in frames(feed, 0, messages)]
    first, second = _timed(app, runs), _timed(app, runs)
    return max(first, second, key=lambda loop: loop.rate)


def check(feed: Feed, loop: Loop, messages: int) -> None:
    """Checks that a feed predicts the number of results correctly.

    Raises:
        RuntimeError: It does not.
    """
    if len(loop.results) != feed.results(messages):
        raise RuntimeError(f"a loop over {messages} messages gives {len(loop.results)} results, not {feed.results(messages)}")


def _timed(app: App, runs: Sequence[_Run]) -> Loop:
    states: dict[bytes, Any] = {}
    results: list[bytes] = []
    function, make, encode = app.function, app.state, app.encode
    begun = time.perf_counter()
    for decode, keys, values in runs:
        for key, value in zip(keys, values, strict=True):
            try:
                state = states[key]
            except KeyError:
                state = states[key] = make()
            result = function(decode(value), state)
            if result is not None:
                results.append(encode(result))
    took = time.perf_counter() - begun
    return Loop(sum(len(keys) for _, keys, _ in runs) / took, results)


def _run(app: App, frame: Columns) -> _Run:
    return app.decoders[frame.stream], _cut(frame.keys, frame.rows), _cut(frame.values, frame.rows)


def _cut(column: bytes, count: int) -> list[bytes]:
    size = len(column) // count
    return [column[n * size : (n + 1) * size] for n in range(count)]

"""Sends messages of 61 bytes: `python -m headrace.laboratory.bench.sdks.numbers COUNT [RATE] [--batches]`.

The programs of the other languages do the same. Without a rate, it sends them as fast as they are accepted. At the end, it
prints one JSON object with what it measured.
"""

import argparse
import json
import time
from array import array
from collections.abc import Iterator

from headrace.laboratory.bench.sources import MESSAGE_BYTES, packed
from headrace.sdk import Batch, Message, Position, Source, run

VALUE = b"m" * MESSAGE_BYTES
KEPT = 8192
"""The number of messages of which the times are kept."""
_BATCH = 10_000


class Numbers(Source):
    """Sends the messages 1 to `count`, one by one; `rate` of them per second, or as many as are accepted if it is 0."""

    name = "numbers-python"
    idle_seconds = 0.001

    def __init__(self, count: int, rate: float) -> None:
        self.count = count
        self.rate = rate
        self.began = 0.0
        self.settled = 0
        self.sent = array("d", bytes(8 * KEPT))
        self.latencies = array("d", bytes(8 * KEPT))

    def read(self, partition: str, position: Position | None) -> Iterator[Message | Batch | None]:
        """Yields the messages."""
        first = position.sequence + 1 if position else 1
        self.began = time.perf_counter()
        for number in range(first, self.count + 1):
            if self.rate:
                while time.perf_counter() < self.began + (number - first) / self.rate:
                    yield None
                self.sent[number % KEPT] = time.perf_counter()
            yield Message(VALUE, sequence=number)

    def acknowledged(self, partition: str, position: Position) -> None:
        """Notes how long the messages took."""
        now = time.perf_counter()
        while self.rate and self.settled < position.sequence:
            self.settled += 1
            self.latencies[self.settled % KEPT] = now - self.sent[self.settled % KEPT]

    def measured(self) -> dict[str, float]:
        """Returns what was measured."""
        seconds = time.perf_counter() - self.began
        latencies = sorted(self.latencies[: self.count])
        measured = {"messages": self.count, "seconds": seconds}
        return {**measured, "ack_p50_ms": latencies[len(latencies) // 2] * 1000} if self.rate else measured


class Batches(Numbers):
    """Sends the same in batches."""

    def read(self, partition: str, position: Position | None) -> Iterator[Message | Batch | None]:
        """Yields the batches."""
        self.began = time.perf_counter()
        values = packed(_BATCH)
        for first in range(position.sequence + 1 if position else 1, self.count + 1, _BATCH):
            end = min(first + _BATCH, self.count + 1)
            yield Batch(values if end - first == _BATCH else packed(end - first), sequences=range(first, end))


def main() -> None:
    """Runs the connector, and prints what it measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("rate", type=float, nargs="?", default=0)
    parser.add_argument("--batches", action="store_true")
    arguments = parser.parse_args()
    numbers = (Batches if arguments.batches else Numbers)(arguments.count, arguments.rate)
    run(numbers)
    print(json.dumps(numbers.measured()))


if __name__ == "__main__":
    main()

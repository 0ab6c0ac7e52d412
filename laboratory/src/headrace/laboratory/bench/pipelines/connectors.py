"""The connectors of the pipelines benchmark: `python -m headrace.laboratory.bench.pipelines.connectors KIND ...`.

When it ends, a connector prints one JSON object with its measurements.
"""

import argparse
import asyncio
import json
import sys
import threading
import time
from array import array
from collections.abc import AsyncIterator, Iterator, Sequence

import numpy as np

from headrace.engine.codec import Columns
from headrace.laboratory.bench.pipelines.feed import FRAME, Feed, MarketFeed, Words, spelled
from headrace.laboratory.bench.schedule import Schedule
from headrace.laboratory.bench.sources import MESSAGE_BYTES, Acknowledgements, packed
from headrace.sdk import AsyncSource, Batch, Message, Packed, Position, Source, run

TICK_S = 0.001
"""How often messages that are due are sent, in seconds: half of it is part of each latency."""
OPENING = 350
"""Orders start once this many quotes are committed, since two streams have no common order."""


class FeedSource(Source):
    """Sends the messages of a feed, as fast as they are accepted."""

    def __init__(self, feed: Feed, messages: int) -> None:
        self.streams = {stream.name.partition("/")[2]: stream for stream in feed.streams}
        self.name = feed.streams[0].name.partition("/")[0]
        self.each = messages // len(self.streams)
        self.done = dict.fromkeys(self.streams, 0)
        self.opened = threading.Event()
        self.acknowledgements = Acknowledgements()

    def partitions(self) -> Sequence[str]:
        """Returns all streams, from the start."""
        return list(self.streams)

    def read(self, partition: str, position: Position | None) -> Iterator[Message | Batch | None]:
        """Yields the frames of a stream."""
        while partition == "orders" and not self.opened.is_set():
            yield None
        self.acknowledgements.begin()
        begin = position.sequence + 1 if position else 0
        for frame in self.streams[partition].frames(begin, self.each):
            yield batch(frame)

    def acknowledged(self, partition: str, position: Position) -> None:
        """Counts acknowledged messages."""
        self.done[partition] = position.sequence + 1
        if partition == "nbbo" and self.done[partition] >= OPENING:
            self.opened.set()
        self.acknowledgements.note(sum(self.done.values()))


class Stamps(AsyncSource):
    """Sends a message for each of many keys, as fast as they are accepted, and then messages at a steady rate.

    Each contains its due time as text; 0 for the first ones. The keys of the others are random. They are due by the schedule,
    which begins at `begun`, by the wall clock.
    """

    name = "stamps"

    def __init__(self, keys: int, schedule: Schedule) -> None:
        self.words = Words(keys, keys)
        self.keys = keys
        self.loaded = asyncio.Event()
        self.schedule = schedule
        self.total = keys + schedule.total
        self.begun = 0.0
        self.acknowledgements = Acknowledgements()

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | None]:
        """Yields the messages that are due, by the wall clock."""
        at = position.sequence + 1 if position else 0
        while at < self.keys:
            end = min(at + FRAME, self.keys)
            yield self._batch(at, end, f"{0.0:<{MESSAGE_BYTES}}" * (end - at))
            at = end
        if position is None or position.sequence + 1 < self.keys:
            await self.loaded.wait()
        paced = at
        begun = self.begun = time.time()
        while at < self.total:
            due = min(paced + self.schedule.due(time.time() - begun), self.total)
            if due > at:
                moments = begun + self.schedule.moments(np.arange(at + 1 - paced, due + 1 - paced))
                yield self._batch(at, due, "".join(f"{moment:<{MESSAGE_BYTES}.6f}" for moment in moments.tolist()))
                at = due
            following = float(self.schedule.moments(np.array([at + 1 - paced]))[0])
            await asyncio.sleep(max(TICK_S, begun + following - time.time()))

    async def acknowledged(self, partition: str, position: Position) -> None:
        """Lets the steady rate start once all keys are committed, and counts acknowledged messages."""
        self.acknowledgements.note(position.sequence + 1)
        if position.sequence + 1 >= self.keys:
            self.loaded.set()

    def _batch(self, begin: int, end: int, text: str) -> Batch:
        count = end - begin
        keys = spelled(self.words.numbers(begin, end))
        values = Packed(text.encode(), packed(count).lengths)
        return Batch(values, Packed(keys, packed(count, len(keys) // count).lengths), sequences=range(begin, end))


def batch(frame: Columns) -> Batch:
    """Converts a frame to what a connector sends."""
    values, keys = (Packed(data, _u32(n)) for data, n in ((frame.values, frame.value_lengths), (frame.keys, frame.key_lengths)))
    return Batch(values, keys, sequences=range(frame.first, frame.last + 1))


def _u32(data: bytes) -> "array[int]":
    found = array("I")
    found.frombytes(data)
    return found


def main() -> None:
    """Runs a connector, and prints its measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["market", "words", "stamps"])
    parser.add_argument("--gateway", required=True)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=350)
    parser.add_argument("--rate", type=float, default=10_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--burst-at", type=float)
    given = parser.parse_args()
    if given.kind == "stamps":
        stamps = Stamps(given.keys, Schedule(given.rate, given.seconds, given.burst_at))
        run(stamps, gateway=given.gateway)
        json.dump({"begun": stamps.begun, "acknowledged": stamps.acknowledgements.moments}, sys.stdout)
        return
    source = FeedSource(MarketFeed() if given.kind == "market" else Words(given.keys), given.messages)
    run(source, gateway=given.gateway)
    json.dump({"acknowledged": source.acknowledgements.moments}, sys.stdout)


if __name__ == "__main__":
    main()

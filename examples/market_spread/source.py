"""Streams the market into a gateway, as `market/nbbo` and `market/orders`: `python source.py --messages 1000000`."""

import argparse
import sys
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from feed import BLOCK, Block, Feed, read_opening

from headrace.sdk import Backlog, Batch, Message, Packed, Position, Source, run


class Market(Source):
    """A number of quotes, and as many orders, which start once the opening quotes are committed."""

    name = "market"

    def __init__(self, feed: Feed, messages: int) -> None:
        self.feed = feed
        self.total = messages
        self.opened = threading.Event()
        self.given = {"nbbo": 0, "orders": 0}

    def partitions(self) -> Sequence[str]:
        """Returns both streams."""
        return list(self.given)

    def read(self, partition: str, position: Position | None) -> Iterator[Message | Batch | None]:
        """Yields blocks, the first one from the position on."""
        while partition == "orders" and not self.opened.is_set():
            yield None
        blocks: Callable[[int], Block] = self.feed.nbbo if partition == "nbbo" else self.feed.orders
        at = position.sequence + 1 if position else 0
        while at < self.total:
            number, begin = divmod(at, BLOCK)
            end = min(BLOCK, self.total - number * BLOCK)
            yield batch(blocks(number), number * BLOCK, begin, end)
            at = self.given[partition] = number * BLOCK + end

    def acknowledged(self, partition: str, position: Position) -> None:
        """Lets the orders start once the opening quotes are committed."""
        if partition == "nbbo" and position.sequence + 1 >= min(len(self.feed.opening), self.total):
            self.opened.set()

    def backlog(self, partition: str) -> Backlog:
        """Returns what is still to be sent."""
        return Backlog(messages=self.total - self.given[partition])


def batch(block: Block, first: int, begin: int, end: int) -> Batch:
    """Returns a part of a block whose first message has sequence `first`."""
    values, keys = _part(block.values, block.count, begin, end), _part(block.keys, block.count, begin, end)
    return Batch(values, keys, sequences=range(first + begin, first + end))


def _part(column: bytes, count: int, begin: int, end: int) -> Packed:
    size = len(column) // count
    return Packed(column[begin * size : end * size], array("I", [size]) * (end - begin))


def main() -> int:
    """Runs until everything is committed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway", help="default: HEADRACE_GATEWAY, else 127.0.0.1:7433")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of each stream (default: %(default)s)")
    parser.add_argument("--opening", type=Path, help="a file of opening quotes (default: 350 synthetic symbols)")
    options = parser.parse_args()
    feed = Feed(read_opening(options.opening) if options.opening else ())
    return run(Market(feed, options.messages), gateway=options.gateway)


if __name__ == "__main__":
    sys.exit(main())

"""The connector of a soak.

`python -m headrace.laboratory.soak.source` sends messages of a fixed set of keys until it is stopped.
"""

import argparse
import asyncio
import sys
import time
from array import array
from collections.abc import AsyncIterator
from dataclasses import dataclass

from headrace.sdk import AsyncSource, Batch, Message, Packed, Position, Settings, run

MESSAGE_BYTES = 61
_KEY_BYTES = 8
_TICK_S = 0.02
_MAX_AT_ONCE = 10_000
DRAINS_WITHIN_S = 60.0
"""How long it waits for its acknowledgements when it is stopped, in seconds."""


@dataclass
class Steady(AsyncSource):
    """Sends `rate` messages per second, with the keys in turn."""

    rate: float
    keys: int
    name = "soak"

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | None]:
        """Yields the messages that are due; after a time without credit, all that became due meanwhile."""
        at = position.sequence + 1 if position else 0
        begun = time.monotonic() - at / self.rate
        while True:
            due = min(int((time.monotonic() - begun) * self.rate), at + _MAX_AT_ONCE)
            if due > at:
                yield self._batch(at, due)
                at = due
            await asyncio.sleep(_TICK_S)

    def _batch(self, start: int, end: int) -> Batch:
        count = end - start
        keys = b"".join(b"%0*d" % (_KEY_BYTES, number % self.keys) for number in range(start, end))
        values = Packed(b"m" * (count * MESSAGE_BYTES), array("I", [MESSAGE_BYTES]) * count)
        return Batch(values, sequences=range(start, end), keys=Packed(keys, array("I", [_KEY_BYTES]) * count))


def main() -> None:
    """Runs the connector until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway", required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--keys", type=int, required=True)
    given = parser.parse_args()
    sys.exit(run(Steady(given.rate, given.keys), gateway=given.gateway, settings=Settings(drain_seconds=DRAINS_WITHIN_S)))


if __name__ == "__main__":
    main()

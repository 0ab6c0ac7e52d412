"""Payments of a few cards, and the verdicts on them, 40 payments later: `python feed.py > cards.jsonl`."""

import random
import sys
from collections import deque
from collections.abc import Iterator

from msgspec.json import encode
from payments import Payment, Verdict

_CARDS = 40
_FRAUDS = 0.03
_VERDICT_AFTER = 40
"""In payments of the same card."""


def events(count: int, seed: int = 1) -> Iterator[Payment | Verdict]:
    """Yields payments of cards at random. A card is stolen from time to time: far away, often at night, for larger amounts."""
    choose = random.Random(seed)
    usual = [(choose.uniform(10, 200), choose.uniform(2, 30)) for _ in range(_CARDS)]
    waiting: list[deque[Verdict]] = [deque() for _ in range(_CARDS)]
    for number in range(count):
        card = choose.randrange(_CARDS)
        amount, km = usual[card]
        fraud = choose.random() < _FRAUDS
        hour = choose.randrange(6) if choose.random() < (0.6 if fraud else 0.03) else choose.randrange(6, 24)
        spent = amount * choose.lognormvariate(0.8 if fraud else 0.0, 0.6)
        distance = km * choose.lognormvariate(1.6 if fraud else 0.0, 0.7)
        yield Payment(number, f"card-{card}", round(spent, 2), round(distance, 1), hour)
        waiting[card].append(Verdict(number, f"card-{card}", fraud))
        if len(waiting[card]) > _VERDICT_AFTER:
            yield waiting[card].popleft()


def lines(count: int) -> list[str]:
    """Returns the events as lines of JSON."""
    return [encode(event).decode() for event in events(count)]


if __name__ == "__main__":
    print("\n".join(lines(int(sys.argv[1]) if len(sys.argv) > 1 else 40_000)))

"""Reproducible votes: `python feed.py > votes.txt`."""

import random
import sys

_CANDIDATES = ("ada", "barbara", "edsger", "grace", "john", "leslie", "niklaus")


def lines(count: int, seed: int = 1) -> list[str]:
    """Returns votes, a few of which have no voter."""
    choose = random.Random(seed)
    return [f"{choose.choice(_CANDIDATES)} {_voter(choose)}".strip() for _ in range(count)]


def _voter(choose: random.Random) -> str:
    return "" if choose.random() < 0.01 else f"voter-{choose.randrange(1_000_000)}"


if __name__ == "__main__":
    print("\n".join(lines(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)))

"""Votes for letters, as length-prefixed records: `python feed.py > votes.msg`."""

import random
import sys
from string import ascii_lowercase
from struct import pack


def records(count: int, seed: int = 1) -> list[bytes]:
    """Returns records with 1 to 1000 votes for random letters."""
    choose = random.Random(seed)
    return [pack(">cI", choose.choice(ascii_lowercase).encode(), choose.randint(1, 1000)) for _ in range(count)]


if __name__ == "__main__":
    for record in records(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000):
        sys.stdout.buffer.write(pack(">I", len(record)) + record)

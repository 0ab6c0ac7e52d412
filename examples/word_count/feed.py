"""Reproducible lines of invented words: `python feed.py > lines.txt`."""

import random
import sys

_SYLLABLES = ("mi", "ll", "ra", "ce", "wa", "ter", "whe", "el", "sluice", "lock")
_WORDS_PER_LINE = 8


def lines(count: int, seed: int = 1) -> list[str]:
    """Returns lines in which short words are frequent and long ones are rare."""
    choose = random.Random(seed)
    return [" ".join(_word(choose) for _ in range(_WORDS_PER_LINE)).capitalize() + "." for _ in range(count)]


def _word(choose: random.Random) -> str:
    length = 1
    while choose.random() < 0.5:
        length += 1
    return "".join(choose.choice(_SYLLABLES) for _ in range(length))


if __name__ == "__main__":
    print("\n".join(lines(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)))

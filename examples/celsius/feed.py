"""Temperatures in Celsius, one per line: `python feed.py > celsius.txt`."""

import sys


def lines(count: int) -> list[str]:
    """Returns temperatures from -40 to 120 degrees in steps of a tenth, repeatedly."""
    return [f"{n % 1601 / 10 - 40:.1f}" for n in range(count)]


if __name__ == "__main__":
    print("\n".join(lines(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)))

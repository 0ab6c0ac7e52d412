"""Prints what the sessions of a run have left out, by folder, with the reason and the command that runs it.

`python -m tests.selection.left_out SEED FILE...`: the seed of the sample, and the files of `--left-out`.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.selection.choice import TABLE, gone, read_costs

ROOT = TABLE.parents[2]


def describe(seed: str, left_out: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The lines: for each reason how many tests, and of which folders."""
    reasons: Mapping[str, Counter[str]] = defaultdict(Counter)
    for test, reason in left_out:
        reasons[reason]["/".join(test.partition("::")[0].split("/")[:2])] += 1
    for reason, folders in sorted(reasons.items(), key=lambda each: (each[0] != "heavy", each[0])):
        yield f"left out: {folders.total():,} tests: {_words(reason, seed)}"
        yield "  " + ", ".join(f"{folder} {count}" for folder, count in sorted(folders.items()))


def _words(reason: str, seed: str) -> str:
    words = {
        "heavy": f"they are heavy, and this run took a sample, again with make test SEED={seed}; all of them: make test-all",
        "in turn": "they come in turn, and each run of make test-all has some of them; all of them: make test ARGS='-m in_turn'",
    }
    return words.get(reason, reason)


if __name__ == "__main__":
    lines = [line for path in sys.argv[2:] if Path(path).exists() for line in Path(path).read_text().splitlines()]
    for line in describe(sys.argv[1], [(test, reason) for test, reason in map(json.loads, lines)]):
        print(line)
    if missing := gone(read_costs(TABLE.read_text()), ROOT):
        print(f"{TABLE.relative_to(ROOT)} names tests that are gone: {', '.join(missing)}")

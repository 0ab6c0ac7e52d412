"""Prints the processor time of a run by folder, and which dear tests have no line in `costs.txt`.

`python -m tests.selection.spent FILE...`: the files of `--spent`. The time of Spark's JVM, and of brokers, counts for the tests
during which it passes.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.selection.choice import TABLE, cost_of, read_costs

Spent = tuple[str, float]
"""A test, and its processor seconds."""
BESIDE = "before and after tests"
"""Stands for a test in what a session has spent on none: to collect them, and to end."""
DEAR_S = 5.0
"""A test that is to be sampled; what costs less may be a machine that is busy."""


def describe(spent: Iterable[Spent], costs: Mapping[str, float]) -> Iterator[str]:
    """The lines: all folders, the dearest first; and tests that lack a line, as it would be."""
    folders: dict[str, float] = defaultdict(float)
    lacking: list[Spent] = []
    for test, seconds in spent:
        folders["/".join(test.partition("::")[0].split("/")[:2])] += seconds
        if test != BESIDE and seconds >= DEAR_S and cost_of(test, costs) is None:
            lacking.append((test, seconds))
    dearest = sorted(folders.items(), key=lambda each: -each[1])
    yield f"processor time: {sum(folders.values()):,.0f} s, with what tests have started"
    yield "  " + ", ".join(f"{folder} {seconds:.0f}" for folder, seconds in dearest if seconds >= 1)
    if lacking:
        yield f"{TABLE.name} lacks these, unless they paid for what others use, too:"
        yield from (f"{seconds:.1f} {test}" for test, seconds in lacking)


if __name__ == "__main__":
    lines = [line for path in sys.argv[1:] if Path(path).exists() for line in Path(path).read_text().splitlines()]
    for line in describe([(test, seconds) for test, seconds in map(json.loads, lines)], read_costs(TABLE.read_text())):
        print(line)

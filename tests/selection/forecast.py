"""Prints what runs of all tests will cost by `costs.txt`: `python -m tests.selection.forecast SEED...`.

A seed chooses which tests come in their turn, and which cases of matrices run. Light tests, and collecting them, cost about
a sixth more.
"""

import contextlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import pytest
from tests.selection.choice import TABLE, cost_of, read_costs
from tests.selection.plugin import has_its_turn, left_out_cases


class Collected:
    """Keeps the tests that pytest has collected."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Takes them before any is left out."""
        self.items = list(items)


def chosen(items: list[pytest.Item], seed: str) -> Iterator[str]:
    """Yields the names of the tests that a run of all tests with this seed runs."""
    left_out = left_out_cases(items, seed)
    yield from (item.nodeid for item in items if item not in left_out and has_its_turn(item, seed))


def forecast(seed: str, tests: Iterable[str], costs: Mapping[str, float]) -> str:
    """The line for a seed: the processor seconds of its heavy tests, in all and by folder, the dearest first."""
    folders: dict[str, float] = defaultdict(float)
    for test in tests:
        folders["/".join(test.partition("::")[0].split("/")[1:2])] += cost_of(test, costs) or 0.0
    dearest = sorted(folders.items(), key=lambda each: -each[1])
    return f"{seed}: {sum(folders.values()):,.0f} s: " + ", ".join(f"{name} {cost:.0f}" for name, cost in dearest if cost >= 1)


def main(seeds: list[str]) -> int:
    """Collects all tests, and prints a line for each seed."""
    collected = Collected()
    with contextlib.redirect_stdout(sys.stderr):
        status = pytest.main(["--collect-only", "-qqq", "-p", "no:cacheprovider", "tests"], plugins=[collected])
    if status != 0:
        return int(status)
    costs = read_costs(TABLE.read_text())
    for seed in seeds:
        print(forecast(seed, chosen(collected.items, seed), costs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

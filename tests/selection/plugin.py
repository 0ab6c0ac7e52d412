"""`--heavy`: which of the heavy tests a session runs; and at its end, what it has left out, with the reason.

`all` is the default: who names tests wants them all. `sample` runs all light tests and a sample of the heavy ones, which
`--kill-seed` decides, and `I/N` the I-th of N shares of the heavy tests that this sample leaves out. With `--left-out FILE`,
the session also writes what it has left out to a file, for `left_out.py`, and with `--spent FILE` the processor time of each
test, for `spent.py`.

With `--in-turn`, a session runs a part of the tests with the mark `in_turn`, chosen by `--kill-seed`: a third, unless the
mark says which other part.

Of a test with the mark `each_value`, a session runs cases that have each value of each parameter, by `--kill-seed`; all of its
cases with `--every-pair`.
"""

import json
from collections import defaultdict
from collections.abc import Hashable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.selection.choice import (
    TABLE,
    TURNS,
    Heavy,
    Share,
    cost_of,
    each_value,
    parse_share,
    read_costs,
    sample,
    subject_of,
    turn_of,
)
from tests.selection.processor_time import Group, of_children_s, own_group
from tests.selection.spent import BESIDE, Spent

KINDS = frozenset({"hdfs", "s3", "registry", "catalog", "nats_cluster"})
"""The fixtures that are kinds of their own: each run has a test of each store, of a registry and of a catalog, and of a
cluster of brokers.

Each single broker has light tests, which every run has.
"""
_left_out = pytest.StashKey[list[tuple[str, str]]]()
_spent = pytest.StashKey[list[Spent]]()
_group = pytest.StashKey[Group | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--heavy", type=_choice, default="all", metavar="all|sample|I/N", help="which heavy tests to run, see tests/selection"
    )
    parser.addoption("--in-turn", action="store_true", help="of the tests with the mark in_turn, run those whose turn it is")
    parser.addoption("--costs", type=Path, default=TABLE, metavar="FILE", help="which tests are heavy")
    parser.addoption("--left-out", type=Path, metavar="FILE", help="where to write which tests were left out, and why")
    parser.addoption("--spent", type=Path, metavar="FILE", help="where to write the processor time of each test")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_left_out] = []
    config.stash[_spent] = []
    config.stash[_group] = None
    config.addinivalue_line("markers", f"in_turn(turn, of={TURNS}): with --in-turn, run it in one of these runs, by --kill-seed")
    config.addinivalue_line(
        "markers", "each_value: of its cases, run some that have each value of each parameter, by --kill-seed"
    )
    if config.getoption("spent") is not None and (parent := own_group()) is not None:
        with suppress(OSError):
            config.stash[_group] = Group(parent)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("every_pair"):
        _take(config, items, set(items) - left_out_cases(items, str(config.getoption("kill_seed"))))
    if config.getoption("in_turn"):
        seed = str(config.getoption("kill_seed"))
        waiting = _take(config, items, {item for item in items if has_its_turn(item, seed)})
        config.stash[_left_out] += [(item.nodeid, "in turn") for item in waiting]
    heavy: str | Share = config.getoption("heavy")
    if heavy == "all":
        return
    costs = read_costs(config.getoption("costs").read_text())
    tests = [test for item in items if (test := _heavy(item, costs)) is not None]
    names = {test.name for test in tests}
    chosen = sample(tests, str(config.getoption("kill_seed")))
    if isinstance(heavy, Share):
        taken = {name for name in names - chosen if name in heavy}
    else:
        taken = {item.nodeid for item in items} - (names - chosen)
    left = _take(config, items, {item for item in items if item.nodeid in taken})
    # Of a share, what it leaves out is what other runs have.
    if not isinstance(heavy, Share):
        config.stash[_left_out] += [(item.nodeid, "heavy") for item in left]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[misc]
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        item.config.stash[_left_out].append((item.nodeid, reason.removeprefix("Skipped: ")))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    began = _processor_s(item.config)
    handled: object = yield
    item.config.stash[_spent].append((item.nodeid, max(0.0, round(_processor_s(item.config) - began, 2))))
    return handled


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    yield
    if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and isinstance(session.config.getoption("heavy"), Share):
        # A share may have no test of these folders.
        session.exitstatus = pytest.ExitCode.OK


def pytest_unconfigure(config: pytest.Config) -> None:
    file: Path | None = config.getoption("left_out")
    if file is not None:
        file.write_text("".join(json.dumps(one) + "\n" for one in config.stash[_left_out]))
    file = config.getoption("spent")
    if file is not None:
        spent = config.stash[_spent]
        beside = _processor_s(config) - sum(seconds for _, seconds in spent)
        file.write_text("".join(json.dumps(one) + "\n" for one in [*spent, (BESIDE, max(0.0, round(beside, 2)))]))
    if (group := config.stash[_group]) is not None:
        group.leave()


def _take(config: pytest.Config, items: list[pytest.Item], taken: set[pytest.Item]) -> list[pytest.Item]:
    """Runs only the chosen ones, and returns the others."""
    left = [item for item in items if item not in taken]
    items[:] = [item for item in items if item in taken]
    if left:
        config.hook.pytest_deselected(items=left)
    return left


def has_its_turn(item: pytest.Item, seed: str) -> bool:
    """Returns whether a run of all tests with this seed runs a test: each without the mark `in_turn`.

    Raises:
        pytest.UsageError: A mark has a number that is none of its turns.
    """
    mark = item.get_closest_marker("in_turn")
    if mark is None:
        return True
    turn, of = (*mark.args, TURNS)[:2]
    if turn not in range(1, of + 1):
        raise pytest.UsageError(f"{item.nodeid}: in_turn has a number from 1 to {of}, not {turn}")
    return bool(turn == turn_of(seed, of))


def left_out_cases(items: list[pytest.Item], seed: str) -> set[pytest.Item]:
    """The cases of tests with the mark `each_value` that others make unnecessary."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("each_value") is not None:
            cases[item.nodeid.partition("[")[0]].append(item)
    left: set[pytest.Item] = set()
    for test, of_test in cases.items():
        parameters = [{name: _key(value) for name, value in item.callspec.params.items()} for item in of_test]  # type: ignore[attr-defined]
        chosen = each_value(parameters, f"{seed} {test}")
        left |= {item for place, item in enumerate(of_test) if place not in chosen}
    return left


def _key(value: object) -> Hashable:
    """Stands for a value of a parameter. One that has no hash is the same object in each case."""
    return value if isinstance(value, Hashable) else id(value)


def _processor_s(config: pytest.Config) -> float:
    group = config.stash[_group]
    return of_children_s() if group is None else group.processor_s()


def _choice(text: str) -> str | Share:
    return text if text in ("all", "sample") else parse_share(text)


def _heavy(item: pytest.Item, costs: dict[str, float]) -> Heavy | None:
    cost = cost_of(item.nodeid, costs)
    if cost is None:
        return None
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return Heavy(item.nodeid, cost, subject_of(item.nodeid), KINDS & {*fixtures})

"""Of the values of a parameter, one test run has a sample by `--kill-seed`; with `--every-pair`, it has all.

`@pytest.mark.sampled("kind", 1, per="language")` keeps one value of `kind` for each value of `language`. Tests of a module that
are marked alike keep the same values, so that they can share what is expensive to make.
"""

import random
from collections import defaultdict
from collections.abc import Sequence

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sampled(name, count=1, per=None): keep a sample of the values of a parameter")


# After -k and -m: what is selected by name is what the sample is taken of.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("every_pair"):
        return
    values: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for item in items:
        for group, value in _samples_of(item):
            values[group].add(value)
    kept = {group: _sample(str(config.getoption("kill_seed")), group, sorted(found)) for group, found in values.items()}
    left_out = [item for item in items if any(value not in kept[group] for group, value in _samples_of(item))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _samples_of(item: pytest.Item) -> list[tuple[tuple[str, ...], str]]:
    """The groups of which a test takes part in a sample, each with its value."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return []
    params = item.callspec.params
    found: list[tuple[tuple[str, ...], str]] = []
    for mark in item.iter_markers("sampled"):
        name, count, per = _arguments(*mark.args, **mark.kwargs)
        if name in params:
            group = (item.module.__name__, name, str(count), str(params[per]) if per else "")
            found.append((group, str(params[name])))
    return found


def _arguments(name: str, count: int = 1, per: str | None = None) -> tuple[str, int, str | None]:
    return name, count, per


def _sample(seed: str, group: tuple[str, ...], values: Sequence[str]) -> set[str]:
    count = min(int(group[2]), len(values))
    return set(random.Random(f"{seed}{group}").sample(values, count))

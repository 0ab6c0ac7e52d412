"""Of the values of a parameter, one test run has one by `--kill-seed`; with `--every-pair`, it has all.

`@pytest.mark.sampled("kind", per="language")` keeps one value of `kind` for each value of `language`. Tests of a module that
are marked alike keep the same values, so that they can share what is expensive to make.
"""

import random
from collections import defaultdict
from collections.abc import Iterator

import pytest

Group = tuple[str, str, str]
"""A module, the name of a parameter, and the value of the other parameter for which one of its values is kept."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sampled(name, per=None): keep one value of a parameter, for each value of another one")


# After -k and -m: what is selected by name is what the sample is taken of.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("every_pair"):
        return
    values: defaultdict[Group, set[str]] = defaultdict(set)
    for item in items:
        for group, value in _samples_of(item):
            values[group].add(value)
    seed = config.getoption("kill_seed")
    kept = {group: random.Random(f"{seed}{group}").choice(sorted(found)) for group, found in values.items()}
    selected, left_out = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        is_kept = all(kept[group] == value for group, value in _samples_of(item))
        (selected if is_kept else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = selected


def _samples_of(item: pytest.Item) -> Iterator[tuple[Group, str]]:
    """The groups of which a test takes part in a sample, each with its value."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return
    params = item.callspec.params
    for mark in item.iter_markers("sampled"):
        (name,), per = mark.args, mark.kwargs.get("per")
        if name in params:
            yield (item.module.__name__, name, str(params[per]) if per else ""), str(params[name])

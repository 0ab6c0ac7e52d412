"""Which bucket of the states a key belongs to: a checkpoint depends on it."""

from typing import Any

import pytest
from tests.pipelines.test_keys import EQUAL

from headrace.engine.applications.states.keys import buckets_of
from headrace.pipelines.runtime import normal_key


@pytest.mark.parametrize("equal", EQUAL, ids=repr)
def test_keys_that_are_equal_are_in_one_bucket(equal: list[Any]) -> None:
    assert len(set(buckets_of([normal_key(key) for key in equal], 64).tolist())) == 1


def test_keys_of_the_documented_types_lie_where_they_always_lay() -> None:
    keys: list[Any] = [b"a", "a", "", 1, -7, 2**70, ("a", 1), (b"a", ("b", None)), 2.5, None, "x" * 100]
    assert buckets_of(keys, 1000).tolist() == [103, 103, 485, 142, 68, 630, 800, 921, 923, 372, 759]

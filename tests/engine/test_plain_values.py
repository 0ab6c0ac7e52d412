"""States as plain values: any of them is JSON, which other programs read, and nothing in it is lost silently."""

import json
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine import plain


class Colour(Enum):
    RED = "r"


class Pair(NamedTuple):
    left: int
    right: Any


@dataclass
class Order:
    id: int
    at: Any = None


class Node:
    def __init__(self, next: Any) -> None:
        self.next = next


VALUES: list[tuple[Any, Any]] = [
    (float("nan"), "NaN"),
    (float("-inf"), "-Infinity"),
    (2**20_000, hex(2**20_000)),
    (-(2**64), -(2**64)),
    (Colour.RED, "r"),
    ({Colour.RED: Pair(1, b"\xff")}, {"r": [1, "\\xff"]}),
    (Order(1, datetime(2026, 1, 2, tzinfo=UTC)), {"id": 1, "at": "2026-01-02T00:00:00+00:00"}),
    ([date(2026, 1, 2), Decimal("1.50"), UUID(int=1)], ["2026-01-02", "1.50", "00000000-0000-0000-0000-000000000001"]),
    ([np.int64(3), np.float64("nan"), np.array([[1, 2]])], [3, "NaN", [[1, 2]]]),
    (deque([1, (2, None)]), [1, [2, None]]),
    ({1: "a", "1": "b"}, [[1, "a"], ["1", "b"]]),
    ({b"k": 1, "k": 2}, [["k", 1], ["k", 2]]),
    (int, "int"),
]


def read(value: Any) -> Any:
    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(json.dumps(plain(value)), parse_constant=refuse)


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=[type(value).__name__ for value, _ in VALUES])
def test_a_value_is_json_that_other_programs_read(value: Any, expected: Any) -> None:
    assert read(value) == expected


def test_a_value_that_contains_itself_ends_there() -> None:
    node = Node(None)
    node.next = [node, node]
    assert read(node) == {"next": ["...", "..."]}


def test_a_very_deep_value_ends_where_json_would_be_too_deep() -> None:
    chain = Node(None)
    for _ in range(10_000):
        chain = Node(chain)
    assert "..." in json.dumps(read(chain))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.datetimes() | st.decimals(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.integers(0, 2) | st.sampled_from(["0", "1", b"0"]), inner, max_size=4)
            | st.builds(Pair, st.integers(), inner)
            | st.builds(Order, st.integers(), inner)
        ),
        max_leaves=8,
    )
)
def test_any_value_is_json_and_keeps_all_entries_of_dicts(value: Any) -> None:
    found = read(value)
    if isinstance(value, dict):
        assert len(found) == len(value)

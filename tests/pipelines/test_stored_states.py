"""Instances of every kind of class are the same again when they are read back, whichever fields they have."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipelines.runtime import StateClass


@dataclass
class Fields:
    number: int = 0
    texts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Slotted:
    number: int = 0
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    number: int = 0
    texts: tuple[str, ...] = ()


class Plain:
    """Has the fields that somebody gave it."""


class Hidden:
    __slots__ = ("__number", "texts")

    def __init__(self) -> None:
        self.__number = 0

    def add(self, number: int) -> None:
        self.__number += number

    @property
    def number(self) -> int:
        return self.__number


class Below(Hidden):
    """Has slots of its base, and fields of its own."""


class Computed:
    def __init__(self) -> None:
        self.__dict__["number"] = 0

    @property
    def number(self) -> int:
        return int(self.__dict__["number"])

    @number.setter
    def number(self, number: int) -> None:
        raise AssertionError("it is not set when it is read back")


class Side(Enum):
    BUY = "buy"
    SELL = "sell"


@dataclass
class Order:
    """An instance inside a state that refers to itself, and shares a list with others."""

    side: Side
    fills: list[int] = field(default_factory=list)
    parent: "Order | None" = None


@dataclass
class Book:
    orders: list[Order] = field(default_factory=list)


def fields(state: Any) -> dict[str, Any]:
    slots = [name for kind in type(state).__mro__ for name in kind.__dict__.get("__slots__", ())]
    names = [f"_Hidden{name}" if name.startswith("__") else name for name in slots]
    return {**{name: getattr(state, name) for name in names if hasattr(state, name)}, **getattr(state, "__dict__", {})}


def again(kind: type, *states: Any) -> list[dict[str, Any]]:
    """The fields of states that were stored and read back."""
    state_class = StateClass(kind, "step")
    found = state_class.unpack(state_class.pack(states))
    assert [type(state) for state in found] == [kind] * len(states)
    return [fields(state) for state in found]


@settings(deadline=None, derandomize=True)
@given(st.sampled_from([Fields, Slotted, Frozen]), st.lists(st.tuples(st.integers(), st.lists(st.text(), max_size=3))))
def test_dataclasses(kind: type, values: list[tuple[int, list[str]]]) -> None:
    states = [kind(number, texts) for number, texts in values]
    assert again(kind, *states) == [{"number": number, "texts": texts} for number, texts in values]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3)))
def test_instances_whose_fields_differ(values: list[dict[str, int]]) -> None:
    states = []
    for value in values:
        states.append(Plain())
        states[-1].__dict__.update(value)
    assert again(Plain, *states) == values


@pytest.mark.parametrize("kind", [Hidden, Below])
@pytest.mark.parametrize("all_have_texts", [True, False])
def test_slots_with_private_names_and_slots_that_are_empty(kind: type[Hidden], all_have_texts: bool) -> None:
    first, second = kind(), kind()
    first.add(5)
    first.texts = "first"
    if all_have_texts:
        second.texts = "second"
    if kind is Below:
        first.more = 1  # type: ignore[attr-defined]
    assert again(kind, first, second) == [fields(first), fields(second)]
    assert fields(first)["_Hidden__number"] == 5


def test_fields_behind_a_property() -> None:
    state = Computed()
    state.__dict__["number"] = 7
    assert again(Computed, state, Computed()) == [{"number": 7}, {"number": 0}]


def test_instances_without_fields() -> None:
    assert again(Plain, Plain(), Plain()) == [{}, {}]
    assert again(Plain) == []

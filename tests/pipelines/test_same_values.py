"""Equal states have equal bytes, whichever of the objects in them are one by chance."""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipelines.runtime import StateClass


class Pair(NamedTuple):
    one: Any
    other: Any


@dataclass(frozen=True)
class Fixed:
    text: str
    inner: Any = None


@dataclass(slots=True)
class Item:
    text: str
    inner: Any = None


@dataclass
class State:
    first: Any = None
    second: Any = None


ALPHABET = ["", "a", "product", "x" * 300]
LEAVES = st.one_of(st.integers(), st.sampled_from(ALPHABET), st.floats(allow_nan=False), st.none(), st.booleans())
KEYS = st.one_of(st.sampled_from(ALPHABET), st.integers(0, 9), st.tuples(st.sampled_from(ALPHABET), st.integers(0, 3)))
VALUES = st.recursive(
    st.one_of(LEAVES, st.frozensets(KEYS, max_size=4), st.sets(st.sampled_from(ALPHABET)), st.decimals(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3),
        st.tuples(inner, inner),
        st.builds(Item, st.sampled_from(ALPHABET), inner),
        st.builds(Fixed, st.sampled_from(ALPHABET), inner),
        st.builds(Pair, inner, inner),
        st.builds(deque, st.lists(inner, max_size=2)),
        st.builds(Counter, st.lists(st.sampled_from(ALPHABET), max_size=3)),
    ),
    max_leaves=12,
)


def rebuilt(value: Any, text: Callable[[str], str]) -> Any:
    """A value of other objects, in which texts are what a function makes of them, and sets were filled the other way around."""
    kind = type(value)

    def again(inner: Any) -> Any:
        return rebuilt(inner, text)

    if kind is str:
        return text(value)
    if kind in (set, frozenset):
        return kind(map(again, [*value][::-1]))
    if kind is dict or kind is Counter:
        return kind({again(key): again(inner) for key, inner in value.items()})
    if kind is Pair:
        return Pair(*map(again, value))
    if kind in (list, tuple, deque):
        return kind(map(again, value))
    if kind in (Item, Fixed):
        return kind(again(value.text), again(value.inner))
    return Decimal(str(value)) if kind is Decimal else value


def another(text: str) -> str:
    """An equal text that is another object, where Python has more than one."""
    return text.encode().decode()


@settings(deadline=None, derandomize=True, database=None, max_examples=150)
@given(st.lists(st.builds(State, VALUES, VALUES), min_size=1, max_size=4))
def test_equal_states_have_equal_bytes_and_are_read_back(states: list[State]) -> None:
    state_class = StateClass(State, "step")
    one = {text: text for text in ALPHABET}
    shared, apart = (
        [State(rebuilt(state.first, text), rebuilt(state.second, text)) for state in states]
        for text in (one.__getitem__, another)
    )
    packed = state_class.pack(shared)
    assert state_class.pack(apart) == packed
    found = state_class.unpack(packed)
    assert found == states
    assert state_class.pack(found) == packed


@pytest.mark.parametrize("inside", [lambda text: text, lambda text: [text], lambda text: Item(text), lambda text: {text}])
def test_a_large_text_is_written_once_however_many_states_have_it(inside: Callable[[str], Any]) -> None:
    text = "all the terms and conditions " * 1_000
    states = [State(inside(another(text)), number) for number in range(50)]
    packed = StateClass(State, "step").pack(states)
    assert len(packed) < 2 * len(text)
    assert StateClass(State, "step").unpack(packed) == states


def test_fields_have_one_order_whichever_was_set_first() -> None:
    class Plain:
        def __init__(self) -> None:
            self.zero = 0

    def made(*names: str) -> Plain:
        plain = Plain()
        for name in names:
            setattr(plain, name, name)
        return plain

    state_class = StateClass(Plain, "step")
    assert state_class.pack([made("a", "b")]) == state_class.pack([made("b", "a")])
    assert state_class.pack([made("a", "b"), made()]) == state_class.pack([made("b", "a"), made()])
    assert [*vars(state_class.unpack(state_class.pack([made("b", "a")]))[0])] == ["zero", "a", "b"]


class Itself:
    """Says itself how it is pickled."""

    def __init__(self, inner: Any = None) -> None:
        self.inner = inner

    def __getstate__(self) -> Any:
        return {"inner": self.inner}


@dataclass
class Tree:
    above: Any = None
    below: list[Any] = field(default_factory=list)


def test_what_lies_in_itself_or_in_two_places_is_the_same_again() -> None:
    tree = Tree()
    tree.below = [Tree(tree), Tree(tree)]
    ring: list[Any] = []
    ring.append(ring)
    own, numbers = Itself(), deque([1])
    own.inner = {"own": own, "ring": ring, "one": numbers, "other": numbers}
    state_class = StateClass(State, "step")
    (found,) = state_class.unpack(state_class.pack([State(tree, own)]))
    assert [below.above for below in found.first.below] == [found.first] * 2
    assert found.second.inner["own"] is found.second
    assert found.second.inner["ring"][0] is found.second.inner["ring"]
    assert found.second.inner["one"] is found.second.inner["other"]

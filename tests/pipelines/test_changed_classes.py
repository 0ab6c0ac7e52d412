"""Classes of states change between two starts: new attributes get their defaults, and types that do not fit are refused."""

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipelines import Message, Pipeline, StateError, Trial, collect, count, maximum, mean, total, tumbling
from headrace.pipelines.runtime import StateClass

HEADER = """
from __future__ import annotations
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple, Optional, TypeVar, Union
class Item:
    def __init__(self): self.n = 1
    def __eq__(self, other): return type(self) is type(other)
class Box(Item): pass
"""


@pytest.fixture(autouse=True)
def no_module_stays() -> Iterator[None]:
    yield
    sys.modules.pop("shop", None)


def module(source: str) -> Any:
    """The application's module, in another version."""
    made = sys.modules["shop"] = ModuleType("shop")
    exec(HEADER + source, made.__dict__)
    return made


def dataclass_of(annotation: str, default: str = "None") -> str:
    return f"@dataclass\nclass Cart:\n    items: {annotation} = field(default_factory=lambda: {default})\n"


def plain(*attributes: str) -> str:
    return "class Cart:\n    def __init__(self):\n" + "".join(f"        self.{each}\n" for each in attributes) + "        pass\n"


def restarted(before: str, after: str, change: Callable[[Any], None] = lambda cart: None) -> list[Any]:
    """Two states of the class before, read by the class after: as states, and inside a list, a dict and another instance."""
    shop = module(before)
    carts = [shop.Cart() for _ in range(2)]
    for cart in carts:
        change(cart)
    packed = StateClass(shop.Cart, "step").pack(carts)
    inside = StateClass(list, "step").pack([[cart, {"cart": cart}] for cart in carts])
    shop = module(after)
    found = StateClass(shop.Cart, "step").unpack(packed)
    assert [vars(cart) for cart, _ in StateClass(list, "step").unpack(inside)] == [vars(cart) for cart in found]
    return [vars(cart) for cart in found]


def test_a_new_attribute_of_a_plain_class_takes_its_default() -> None:
    found = restarted(plain("items = 0"), plain("items = 0", "coupons = []", "best = None"))
    assert found == [{"items": 0, "coupons": [], "best": None}] * 2
    assert found[0]["coupons"] is not found[1]["coupons"]


@pytest.mark.parametrize("make", [None, lambda cart: lambda: cart()], ids=["class", "function"])
def test_an_application_goes_on_with_a_new_attribute(make: Callable[[Any], Any] | None) -> None:
    def app(cart: Any) -> Pipeline:
        def function(value: str, state: Any) -> str:
            state.items += 1
            if hasattr(cart(), "coupons"):
                state.coupons += 1
            return str(vars(state))

        app = Pipeline("carts")
        keyed = app.source("s/*", bytes.decode).key_by(str)
        keyed.stateful(function, make(cart) if make else cart, name="cart").sink("out")
        keyed.window(tumbling("1 hour")).aggregate(
            initial=make(cart) if make else cart, update=lambda state, v: (function(v, state), state)[1], name="window"
        ).sink("windows", encode=lambda state: str(vars(state)).encode())
        return app

    trial = Trial(app(module(plain("items = 0")).Cart))
    trial.send(Message(b"k", event_time=0, stream="s/0"))
    trial.restart(app(module(plain("items = 0", "coupons = 0")).Cart))
    trial.send(Message(b"k", event_time=0, stream="s/0"))
    trial.finish()
    assert trial.values("out") == [b"{'items': 1}", b"{'items': 2, 'coupons': 1}"]
    assert trial.values("windows") == [b"{'items': 2, 'coupons': 1}"]


def test_slots_that_are_new_take_their_defaults() -> None:
    slots = "class Cart:\n    __slots__ = ('items', 'more')\n    def __init__(self): self.items = 1"
    state_class = StateClass(module(slots).Cart, "step")
    packed = state_class.pack([state_class.make()])
    (found,) = StateClass(module(slots + "; self.more = [2]").Cart, "step").unpack(packed)
    assert (found.items, found.more) == (1, [2])


def test_an_attribute_that_the_application_has_removed_stays_removed() -> None:
    both = plain("items = 0", "extra = 1")
    assert restarted(both, both, lambda cart: delattr(cart, "extra")) == [{"items": 0}] * 2


def test_attributes_that_init_does_not_set_are_kept() -> None:
    assert restarted(plain("a = 0"), plain("a = 0", "b = 1"), lambda cart: setattr(cart, "own", 2))[0] == {
        "a": 0,
        "own": 2,
        "b": 1,
    }


def test_an_attribute_that_is_gone_or_renamed_is_an_error_unless_there_is_an_upgrade() -> None:
    with pytest.raises(StateError, match=r"states of Cart have items, which a new one no longer has; raise its version"):
        restarted(plain("items = 0"), plain("things = 0"))
    upgrade = "    version = 1\n    @classmethod\n    def upgrade(cls, version, fields): return {'things': fields['items']}\n"
    assert restarted(plain("items = 5"), plain("things = 0", "more = 1") + upgrade) == [{"things": 5, "more": 1}] * 2


def test_a_class_whose_init_needs_arguments_is_read_as_it_was_stored() -> None:
    for after in ("self.n = n", "self.n = n; self.more = 1"):
        shop = module("class Line:\n    def __init__(self, n): self.n = n")
        packed = StateClass(list, "step").pack([[shop.Line(5)]])
        module(f"class Line:\n    def __init__(self, n): {after}")
        (state,) = StateClass(list, "step").unpack(packed)
        assert vars(state[0]) == {"n": 5}


REFUSED = [
    ("int", "3", "list"),
    ("int", "3", "list[int]"),
    ("int", "3", "str"),
    ("int", "3", "Item"),
    ("int", "3", "bool"),
    ("float", "1.5", "int"),
    ("str", "'a'", "bytes"),
    ("list", "[]", "dict"),
    ("list[int]", "[1]", "list[str]"),
    ("list[int]", "[1]", "set[int]"),
    ("list[int]", "[1]", "deque"),
    ("dict[str, int]", "{'a': 1}", "dict[str, list[int]]"),
    ("dict[str, int]", "{'a': 1}", "dict[int, int]"),
    ("tuple[int, ...]", "(1,)", "tuple[str, ...]"),
    ("tuple[int, int]", "(1, 2)", "tuple[int, int, int]"),
    ("Optional[int]", "None", "int"),
    ("int | str", "'a'", "int"),
    ("Item", "Item()", "Box"),
    ("Any", "3", "list"),
    ("Literal['a', 'b']", "'b'", "Literal['a', 'c']"),
]
ACCEPTED = [
    ("int", "3", "float"),
    ("int", "3", "int | None"),
    ("int", "3", "Optional[float]"),
    ("int", "3", "Any"),
    ("int", "3", "object"),
    ("bool", "True", "int"),
    ("Optional[int]", "3", "int"),
    ("int | str", "3", "int"),
    ("list", "[1]", "list[int]"),
    ("list[int]", "[]", "list[str]"),
    ("dict[str, int]", "{'a': 1}", "dict[str, float]"),
    ("Box", "Box()", "Item"),
    ("int", "3", "Unknown"),
    ("int", "3", "TypeVar('T')"),
    ("int", "'untrue'", "int"),
    ("Unknown", "3", "Unknown"),
    ("list[Unknown]", "[3]", "list[Unknown]"),
]


@pytest.mark.parametrize(("was", "value", "is_now"), REFUSED)
def test_a_field_whose_type_has_changed_is_refused_if_a_stored_value_does_not_fit(was: str, value: str, is_now: str) -> None:
    before, after = dataclass_of(was, value), dataclass_of(is_now)
    says = r"step: the field items of Cart was of type .* when .* and is of type .* now, .* raise the class's version .* upgrade"
    with pytest.raises(StateError, match=says):
        restarted(before, after)
    shop = module(before)
    inside = StateClass(list, "step").pack([[shop.Cart()]])
    module(after)
    with pytest.raises(StateError, match=says):
        StateClass(list, "step").unpack(inside)
    upgrade = "    version = 1\n    @classmethod\n    def upgrade(cls, version, fields): return {'items': 'upgraded'}\n"
    assert restarted(before, after + upgrade) == [{"items": "upgraded"}] * 2


@pytest.mark.parametrize(("was", "value", "is_now"), ACCEPTED)
def test_a_type_that_fits_what_is_stored_may_change(was: str, value: str, is_now: str) -> None:
    assert [list(found) for found in restarted(dataclass_of(was, value), dataclass_of(is_now))] == [["items"]] * 2


@pytest.mark.parametrize(
    ("was", "is_now", "fits"),
    [
        ("0", "[]", False),
        ("0", "''", False),
        ("[]", "{}", False),
        ("None", "0", False),
        ("Item()", "0", False),
        ("0", "0.0", True),
        ("0", "None", True),
        ("True", "0", True),
        ("Box()", "Item()", True),
    ],
)
def test_an_attribute_of_a_plain_class_has_the_type_of_its_default(was: str, is_now: str, fits: bool) -> None:
    if fits:
        restarted(plain(f"a = {was}"), plain(f"a = {is_now}"))
    else:
        with pytest.raises(StateError, match=r"the field a of Cart was of type \w+ when"):
            restarted(plain(f"a = {was}"), plain(f"a = {is_now}"))


def test_a_named_tuple_follows_the_same_rules() -> None:
    def read(before: str, after: str) -> Any:
        packed = StateClass(list, "step").pack([[module(f"class Place(NamedTuple):\n    {before}").Place(1)]])
        module(f"class Place(NamedTuple):\n    {after}")
        return tuple(StateClass(list, "step").unpack(packed)[0][0])

    assert read("x: int", "x: float; y: int = 2") == (1, 2)
    with pytest.raises(StateError, match="the field x of Place was of type int when"):
        read("x: int", "x: str")


def numbers(step: Callable[[Any], Any]) -> Pipeline:
    app = Pipeline("numbers")
    step(app.source("n/*", decode=int).key_by(lambda n: 0)).sink("out", encode=lambda value: str(value).encode())
    return app


def test_states_that_are_plain_values_do_not_become_others() -> None:
    def stateful(make: Callable[[], Any]) -> Pipeline:
        return numbers(lambda keyed: keyed.stateful(lambda n, state: None, make, name="step"))

    def aggregate(aggregation: Any) -> Pipeline:
        return numbers(lambda keyed: keyed.aggregate(aggregation, name="step"))

    for before, after, says in (
        (stateful(list), stateful(dict), "has states of class list, and they are now plain values"),
        (stateful(list), stateful(set), "has states of class list, and they are now plain values"),
        (aggregate(count()), aggregate(collect()), "has states of class int, and they are now plain values"),
        (aggregate(count()), aggregate(mean()), "has states of class int, and they are now plain values"),
        (aggregate(count()), aggregate(maximum()), None),
        (aggregate(count()), aggregate(total()), None),
        (aggregate(maximum()), aggregate(maximum()), None),
    ):
        trial = Trial(before)
        trial.send(Message(b"1", stream="n/0"))
        if says is None:
            trial.restart(after)
        else:
            with pytest.raises(StateError, match=rf"step step: the checkpoint {says}; give the step another name"):
                trial.restart(after)


def test_an_accumulator_may_be_of_another_class_than_a_new_one() -> None:
    class Empty:
        pass

    app = numbers(lambda keyed: keyed.aggregate(initial=Empty, update=lambda before, n: (type(before).__name__, n), name="step"))
    trial = Trial(app)
    for n in (b"1", b"2"):
        trial.send(Message(n, stream="n/0"))
        trial.restart()
    assert trial.values("out") == [b"('Empty', 1)", b"('tuple', 2)"]


VALUES = st.dictionaries(st.sampled_from("abcde"), st.sampled_from(["0", "[]", "'t'", "None", "1.5", "{}", "Item()"]), max_size=4)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(VALUES, VALUES)
def test_no_state_of_a_plain_class_lacks_or_has_what_a_new_one_does_not(before: dict[str, str], after: dict[str, str]) -> None:
    sources = [plain(*(f"{name} = {value}" for name, value in each.items())) for each in (before, after)]
    try:
        found = restarted(*sources)
    except StateError:
        assert before != after
        return
    new = vars(sys.modules["shop"].Cart())
    assert before.keys() <= after.keys()
    for state in found:
        assert state.keys() == new.keys()
        assert all(isinstance(state[name], (type(value), int)) or value is None for name, value in new.items())

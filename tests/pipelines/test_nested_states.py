"""Instances inside of states are stored by field, too: their classes may change, and move to other modules."""

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from headrace.pipelines import StateError
from headrace.pipelines.runtime import StateClass

SHOP = """
from __future__ import annotations
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum, Flag
from typing import NamedTuple, Optional

class Colour(Enum):
    RED = 1
    GREEN = 2

class Rights(Flag):
    READ = 1
    WRITE = 2

class Place(NamedTuple):
    x: int
    y: int = 0

@dataclass
class Item:
    name: str
    count: int = 1

@dataclass(frozen=True, slots=True)
class Price:
    amount: int
    unit: str = "EUR"

@dataclass
class Gift:
    item: Item
    to: str

class Plain:
    def __init__(self):
        self.note = "plain"

@dataclass
class Basket:
    item: Item | None = None
    items: list[Item] = field(default_factory=list)
    by_name: dict[str, Item] = field(default_factory=dict)
    pair: tuple[Item, Price] | None = None
    some: Optional[Item | Gift] = None
    colour: Colour = Colour.RED
    rights: Rights = Rights.READ
    place: Place = Place(0)
    plain: Plain | None = None
    others: dict[str, object] = field(default_factory=dict)
"""


@pytest.fixture
def module() -> Iterator[Callable[[str, str], Any]]:
    """Makes modules of an application at one time or another."""
    before = dict(sys.modules)

    def made(name: str, source: str) -> Any:
        there = sys.modules[name] = ModuleType(name)
        exec(source, there.__dict__)
        return there

    yield made
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]


def full(shop: Any) -> Any:
    return shop.Basket(
        shop.Item("a", 2),
        [shop.Item("b"), shop.Item("c", 3)],
        {"d": shop.Item("d")},
        (shop.Item("e"), shop.Price(5)),
        shop.Gift(shop.Item("f"), "you"),
        shop.Colour.GREEN,
        shop.Rights.READ | shop.Rights.WRITE,
        shop.Place(1, 2),
        shop.Plain(),
        {"when": shop.datetime(2026, 1, 1), "cost": shop.Decimal("1.5"), "last": shop.deque([1]), "o": shop.OrderedDict(a=1)},
    )


def again(state: Any, after: Callable[[], Any] | None = None) -> Any:
    """A state that was stored and read back, by the same class or by another one."""
    packed = StateClass(type(state), "step").pack([state, state])
    found = StateClass(after or type(state), "step").unpack(packed)
    return found[0]


def shown(value: Any) -> str:
    return repr({**vars(value), "plain": vars(value.plain)}) if hasattr(value, "plain") else repr(value)


def test_whatever_lies_inside_is_the_same_again(module: Callable[[str, str], Any]) -> None:
    shop = module("shop", SHOP)
    state = full(shop)
    found = again(state)
    assert shown(found) == shown(state)
    assert found.items is not state.items
    assert isinstance(found.plain, shop.Plain)


CHANGED = (
    SHOP.replace("count: int = 1", "count: int = 1\n    tags: list[str] = field(default_factory=list)")
    .replace('unit: str = "EUR"', 'unit: str = "EUR"\n    tax: int = 7')
    .replace("y: int = 0", "y: int = 0\n    z: int = 9")
)


def test_a_field_that_is_new_takes_its_default_however_deep_it_lies(module: Callable[[str, str], Any]) -> None:
    packed = StateClass(module("shop", SHOP).Basket, "step").pack([full(sys.modules["shop"])])
    shop = module("shop", CHANGED)
    (found,) = StateClass(shop.Basket, "step").unpack(packed)
    items = [found.item, *found.items, *found.by_name.values(), found.pair[0], found.some.item]
    assert [item.tags for item in items] == [[]] * 6
    assert len({id(item.tags) for item in items}) == 6
    assert found.pair[1] == shop.Price(5, "EUR", 7)
    assert found.place == shop.Place(1, 2, 9)


def test_classes_may_move_to_another_module(module: Callable[[str, str], Any]) -> None:
    packed = StateClass(module("shop", SHOP).Basket, "step").pack([full(sys.modules["shop"])])
    del sys.modules["shop"]
    market = module("market", SHOP)
    (found,) = StateClass(market.Basket, "step").unpack(packed)
    assert shown(found) == shown(full(market))
    assert (type(found.some), type(found.colour), type(found.place)) == (market.Gift, market.Colour, market.Place)


def test_a_class_inside_says_how_its_old_instances_become_new_ones(module: Callable[[str, str], Any]) -> None:
    packed = StateClass(module("shop", SHOP).Basket, "step").pack([full(sys.modules["shop"])])
    upgraded = SHOP.replace(
        "count: int = 1",
        "amount: float = 1.0\n    version = 2\n\n    @classmethod\n    def upgrade(cls, version, fields):\n"
        "        assert version == 0\n        return {'name': fields['name'], 'amount': fields['count'] / 2}\n",
    )
    shop = module("shop", upgraded)
    (found,) = StateClass(shop.Basket, "step").unpack(packed)
    assert found.items == [shop.Item("b", 0.5), shop.Item("c", 1.5)]
    assert again(found).items == found.items

    shop = module("shop", SHOP.replace("count: int = 1", "count: int = 1\n    version = 3"))
    with pytest.raises(StateError, match=r"states of version 0 of Item, which is at version 3 now; give it .* upgrade"):
        StateClass(shop.Basket, "step").unpack(packed)


def test_a_field_of_a_class_inside_may_be_called_version(module: Callable[[str, str], Any]) -> None:
    shop = module("shop", SHOP.replace("count: int = 1", "count: int = 1\n    version: int = 5"))
    assert again(shop.Basket(shop.Item("a", 1, 6))).item == shop.Item("a", 1, 6)


def test_what_is_gone_is_an_error_that_says_what_to_do(module: Callable[[str, str], Any]) -> None:
    state = full(module("shop", SHOP))
    state.others = {}
    packed = StateClass(type(state), "step").pack([state])
    for change, says in (
        (("    GREEN = 2", "    BLUE = 3"), r"step step: stored states contain Colour.GREEN, with the value 2, .* add one"),
        (
            ("class Gift", "class Present"),
            r"step step: stored states contain a shop.Gift, which no longer exists; if it",
        ),
        (('"EUR"', '"EUR"\n    rate: int = field()'), "stored states of Price lack rate, which has no default"),
    ):
        shop = module(
            "shop", SHOP.replace(*change).replace("Item | Gift", "Item").replace("slots=True", "slots=True, kw_only=True")
        )
        with pytest.raises(StateError, match=says):
            StateClass(shop.Basket, "step").unpack(packed)
    shop = module("shop", SHOP.replace("    GREEN = 2", "    VERDANT = 2"))
    assert StateClass(shop.Basket, "step").unpack(packed)[0].colour is shop.Colour.VERDANT


def test_objects_that_are_one_stay_one(module: Callable[[str, str], Any]) -> None:
    shop = module("shop", SHOP)
    item = shop.Item("a")
    found = again(shop.Basket(item, [item, shop.Item("b")], {"a": item}))
    assert found.item is found.items[0] is found.by_name["a"]

    item.itself, numbers = item, [1]
    state = shop.Basket(item, others={"one": numbers, "other": numbers})
    state.item.basket = state
    found = again(state)
    assert found.item.itself is found.item
    assert found.others["one"] is found.others["other"]


@dataclass
class Held:
    numbers: list[int] = field(default_factory=list)
    other: list[int] = field(default_factory=list)


def test_lists_that_are_one_stay_one() -> None:
    numbers = [1, 2]
    found = again(Held(numbers, numbers))
    assert found.numbers is found.other
    found = again(Held([1, 2], [1, 2]))
    assert found.numbers is not found.other


def test_a_state_that_cannot_be_stored_is_refused_before_anything_runs() -> None:
    @dataclass
    class Locked:
        lock: Any = field(default_factory=threading.Lock)

    with pytest.raises(StateError, match=r"step step: a state cannot be stored: .*lock.*; keep plain data in states"):
        StateClass(Locked, "step").check()


def test_a_class_that_nobody_would_find_again_is_refused_when_it_is_stored() -> None:
    class Inner:
        pass

    @dataclass
    class Outer:
        anything: Any = None

    with pytest.raises(
        StateError, match=r"the class .*Inner cannot be found by its name; define it at the top level of a module, or name it"
    ):
        again(Outer(Inner()))


def test_plain_states_find_classes_by_what_the_function_says_that_makes_them(module: Callable[[str, str], Any]) -> None:
    source = SHOP + "\ndef empty() -> list[Item]:\n    return []\n"
    shop = module("shop", source)
    packed = StateClass(shop.empty, "step").pack([[shop.Item("a")]])
    del sys.modules["shop"]
    market = module("market", source)
    assert StateClass(market.empty, "step").unpack(packed) == [[market.Item("a")]]

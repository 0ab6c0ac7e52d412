"""Values that `pickle` can store, and some that cannot be read back, for tests of states."""

import array
import collections
import copyreg
import datetime
import decimal
import email.message
import enum
import fractions
import functools
import hashlib
import http.cookies
import io
import ipaddress
import itertools
import operator
import pathlib
import queue
import random
import re
import statistics
import threading
import types
import uuid
import weakref
import xml.etree.ElementTree as ET
import zlib
import zoneinfo
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypedDict, TypeVar

import attrs
import numpy as np
import pydantic
import pydantic.dataclasses

T = TypeVar("T")


@dataclass
class Ordinary:
    number: int = 0
    items: list[Any] = field(default_factory=list)


@dataclass
class Derived(Ordinary):
    text: str = ""
    count: ClassVar[int] = 0


@dataclass(slots=True)
class Slotted:
    number: int = 0
    items: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class SlottedDerived(Slotted):
    text: str = ""


@dataclass(frozen=True)
class Frozen:
    number: int = 0
    items: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True, order=True)
class FrozenSlotted:
    number: int = 0
    items: tuple[Any, ...] = ()


@dataclass(kw_only=True, eq=False)
class WithInit:
    number: int = field(default=0, init=False)
    start: InitVar[int] = 5
    items: list[Any] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self, start: int) -> None:
        self.number = start


@dataclass
class GenericClass(Generic[T]):
    items: list[T] = field(default_factory=list)


class Base(ABC):
    def __init__(self) -> None:
        self.items: list[Any] = []

    @abstractmethod
    def add(self, item: Any) -> None: ...


class Concrete(Base):
    def add(self, item: Any) -> None:
        self.items.append(item)


class Slots:
    __slots__ = ("items", "unset")

    def __init__(self) -> None:
        self.items: list[Any] = []


class SlotsAndFields(Slots):
    def __init__(self) -> None:
        super().__init__()
        self.more = 1


class WithWeakReferences:
    __slots__ = ("__weakref__", "items")

    def __init__(self) -> None:
        self.items: list[Any] = []


class Mixin:
    __slots__ = ()


class Mixed(Mixin, Slots):
    __slots__ = ("own",)

    def __init__(self) -> None:
        super().__init__()
        self.own = 2


class Dynamic:
    """Answers for any name."""

    def __init__(self) -> None:
        self.data = {"a": 1}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["data"][name]
        except KeyError:
            raise AttributeError(name) from None


class Only:
    """There is one instance of it."""

    _only: "Only | None" = None

    def __new__(cls) -> "Only":
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only


class Made:
    def __new__(cls, number: int) -> "Made":
        made = super().__new__(cls)
        made.number = number  # type: ignore[attr-defined]
        return made


class Customised:
    """Stores less than it has, and completes itself when it is read."""

    def __init__(self) -> None:
        self.items = [1]
        self.total = 1

    def __getstate__(self) -> dict[str, Any]:
        return {"items": self.items}

    def __setstate__(self, stored: dict[str, Any]) -> None:
        self.__dict__.update(stored, total=sum(stored["items"]))


class Reduced:
    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return Reduced, (self.number,)


class MyList(list[Any]):
    def __init__(self, *items: Any) -> None:
        super().__init__(items)
        self.extra = 1


class MyDict(dict[Any, Any]):
    pass


class Counting(dict[Any, int]):
    def __missing__(self, key: Any) -> int:
        return 0


class MyInt(int):
    pass


class MyText(str):
    __slots__ = ("extra",)


class MySet(set[Any]):
    pass


class MyDeque(collections.deque[Any]):
    pass


class Failure(Exception):
    pass


class Point(NamedTuple):
    x: int = 0
    y: int = 0


class Nothing(NamedTuple):
    pass


class Described(TypedDict):
    name: str


class Colour(enum.Enum):
    RED = "red"
    GREEN = ("g", 1)


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


@attrs.define
class Attrs:
    number: int = 0
    items: list[Any] = attrs.field(factory=list)


@attrs.define(slots=False)
class AttrsWithDict:
    number: int = 0
    items: list[Any] = attrs.field(factory=list)


@attrs.frozen
class AttrsFrozen:
    number: int = 0


class Model(pydantic.BaseModel):
    number: int = 0
    items: list[Any] = []
    _hidden: int = pydantic.PrivateAttr(default=1)


@pydantic.dataclasses.dataclass
class ModelDataclass:
    number: int = 0
    items: list[Any] = pydantic.Field(default_factory=list)


def deep() -> Any:
    state = Ordinary(1, [collections.deque([Frozen(2, [3])], 4), {"a": Slotted(5, [Attrs(6)])}, np.arange(3), random.Random(1)])
    state.items.append(state)
    return state


def changed(state: Any, change: Callable[[Any], Any]) -> Any:
    change(state)
    return state


MAKERS: dict[str, Callable[[], Any]] = {
    "list": list,
    "dict": lambda: {"a": [1], (1, "b"): {2}},
    "set": lambda: {1, "a", (2, None)},
    "bytearray": lambda: bytearray(b"a"),
    "deque": lambda: collections.deque([1, 2], maxlen=3),
    "OrderedDict": lambda: collections.OrderedDict(b=1, a=2),
    "defaultdict": lambda: changed(collections.defaultdict(list), lambda d: d["a"].append(1)),
    "defaultdict in itself": lambda: collections.defaultdict(functools.partial(collections.defaultdict, int)),
    "Counter": lambda: collections.Counter("abca"),
    "ChainMap": lambda: collections.ChainMap({"a": 1}, {"b": 2}),
    "UserDict": lambda: collections.UserDict(a=1),
    "UserList": lambda: collections.UserList([1]),
    "array": lambda: array.array("d", [1.5]),
    "SimpleNamespace": lambda: types.SimpleNamespace(a=1, b=[2]),
    "Random": lambda: random.Random(7),
    "BytesIO": lambda: changed(io.BytesIO(b"abc"), lambda file: file.seek(1)),
    "StringIO": lambda: io.StringIO("abc"),
    "count": lambda: itertools.count(5),
    "iterator": lambda: iter([1, 2]),
    "partial": lambda: functools.partial(int, base=2),
    "itemgetter": lambda: operator.itemgetter(1, 2),
    "method": lambda: [1].append,
    "Message": lambda: changed(email.message.Message(), lambda m: m.add_header("a", "b")),
    "SimpleCookie": lambda: http.cookies.SimpleCookie("a=1"),
    "Element": lambda: ET.fromstring("<a><b c='1'/></a>"),
    "Context": lambda: decimal.Context(prec=5),
    "NormalDist": lambda: statistics.NormalDist(1, 2),
    "Exception": lambda: Failure("a", 1),
    "ndarray": lambda: np.zeros((2, 2)),
    "ndarray of objects": lambda: np.array([Ordinary(1), None, [2]], dtype=object),
    "structured array": lambda: np.array([(1, b"a")], dtype=[("n", "i4"), ("s", "S3")]),
    "recarray": lambda: np.rec.array([(1, 2.5)], names="a,b"),
    "masked array": lambda: np.ma.array([1, 2], mask=[True, False]),
    "matrix in Fortran's order": lambda: np.asfortranarray(np.arange(6).reshape(2, 3)),
    "Generator": lambda: np.random.default_rng(3),
    "RandomState": lambda: np.random.RandomState(3),
    "dataclass": lambda: Ordinary(1, [2]),
    "derived dataclass": lambda: Derived(1, [2], "a"),
    "dataclass with slots": lambda: Slotted(1, [2]),
    "derived dataclass with slots": lambda: SlottedDerived(1, [2], "a"),
    "frozen dataclass": lambda: Frozen(1, [2]),
    "frozen dataclass with slots": lambda: FrozenSlotted(1, (2, 3)),
    "dataclass with InitVar": lambda: WithInit(start=3),
    "generic dataclass": lambda: GenericClass([1]),
    "abstract base": Concrete,
    "slots": Slots,
    "slots and fields": SlotsAndFields,
    "slots with weak references": WithWeakReferences,
    "slots of several bases": Mixed,
    "no fields": Mixin,
    "any attribute": Dynamic,
    "singleton": Only,
    "__new__ with arguments": lambda: Made(1),
    "__getstate__": Customised,
    "__reduce__": lambda: Reduced(3),
    "list with attributes": lambda: MyList(1, 2),
    "subclass of dict": lambda: MyDict(a=1),
    "dict with __missing__": lambda: Counting(a=1),
    "subclass of set": lambda: MySet({1}),
    "subclass of deque": lambda: MyDeque([1], 3),
    "TypedDict": lambda: Described(name="a"),
    "attrs": lambda: Attrs(1, [2]),
    "attrs without slots": lambda: AttrsWithDict(1, [2]),
    "frozen attrs": lambda: AttrsFrozen(1),
    "pydantic": lambda: Model(number=1, items=[2]),
    "pydantic dataclass": lambda: ModelDataclass(1, [2]),
    "cycle": lambda: changed([], lambda items: items.append(items)),
    "deque in itself": lambda: changed(collections.deque(), lambda items: items.append(items)),
    "everything": deep,
}
VALUES: dict[str, Callable[[], Any]] = {
    "Enum": lambda: Colour.GREEN,
    "Flag": lambda: Rights.READ | Rights.WRITE,
    "IntEnum": lambda: Level.LOW,
    "StrEnum": lambda: Word.YES,
    "NamedTuple": lambda: Point(1, 2),
    "empty NamedTuple": Nothing,
    "namedtuple in a tuple": lambda: (Point(1), [Point(2)]),
    "frozenset": lambda: frozenset({1, "a"}),
    "datetime": lambda: datetime.datetime(2026, 1, 1, 1, 2, 3, 4, datetime.timezone(datetime.timedelta(hours=2)), fold=1),
    "date": lambda: datetime.date(2026, 1, 1),
    "time": lambda: datetime.time(1, tzinfo=datetime.UTC),
    "zone": lambda: zoneinfo.ZoneInfo("Europe/Berlin"),
    "Decimal": lambda: decimal.Decimal("1.50"),
    "Fraction": lambda: fractions.Fraction(1, 3),
    "UUID": lambda: uuid.UUID(int=1),
    "path": lambda: pathlib.PurePosixPath("a/b"),
    "address": lambda: ipaddress.ip_network("10.0.0.0/8"),
    "pattern": lambda: re.compile("a+", re.IGNORECASE),
    "range": lambda: range(1, 9, 2),
    "slice": lambda: slice(1, None),
    "complex": lambda: 1 + 2j,
    "not a number": lambda: float("-0.0"),
    "ellipsis": lambda: [..., NotImplemented],
    "class": lambda: [int, Ordinary, Colour],
    "function": lambda: [len, deep, Ordinary.__init__],
    "alias": lambda: [list[int], int | None],
    "numpy scalar": lambda: [np.int64(1), np.float32(0.5), np.bool_(True), np.datetime64("2026-01-01"), np.str_("a")],
    "dtype": lambda: np.dtype("i4"),
    "subclass of int": lambda: MyInt(3),
    "subclass of str": lambda: changed(MyText("a"), lambda text: setattr(text, "extra", 1)),
    "long text twice": lambda: ["a" * 1000, ["a" * 1000]],
    "one list twice": lambda: [[1]] * 2,
    "one instance twice": lambda: [Ordinary(1)] * 2,
    "one deque twice": lambda: [collections.deque([1])] * 2,
}
EVERYTHING = MAKERS | VALUES


class Lossy:
    """Cannot be read back, since its `__init__` needs an argument that `pickle` does not know."""

    def __reduce__(self) -> Any:
        return Lossy, (1,)


class NeedsTwo(Exception):
    def __init__(self, one: int, other: int) -> None:
        super().__init__(one)


class Pair(tuple[int, ...]):
    def __new__(cls, one: int, other: int) -> "Pair":
        return super().__new__(cls, (one, other))


class Turned:
    """Is read back as something else."""

    def __reduce__(self) -> Any:
        return list, ()


class Hidden(itertools.count):  # type: ignore[type-arg]
    """Has more than its fields, which `pickle` cannot see."""

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle")


def local() -> Any:
    class Local:
        pass

    return [Local()]


def generator() -> Iterator[int]:
    yield 1


REFUSED: dict[str, Callable[[], Any]] = {
    "lock": threading.Lock,
    "lock in a dict": lambda: {"lock": threading.RLock()},
    "queue": queue.Queue,
    "generator": generator,
    "lambda": lambda: [lambda: 1],
    "defaultdict with a lambda": lambda: collections.defaultdict(lambda: 0),
    "file": lambda: open(__file__),  # noqa: SIM115
    "module": lambda: [re],
    "memoryview": lambda: [memoryview(b"a")],
    "mappingproxy": lambda: types.MappingProxyType({}),
    "dict views": lambda: [{}.keys()],
    "weak reference": lambda: [weakref.ref(Failure)],
    "WeakValueDictionary": weakref.WeakValueDictionary,
    "compressor": zlib.compressobj,
    "hash": hashlib.sha256,
    "match": lambda: [re.match("a", "a")],
    "thread": threading.Thread,
    "local class": local,
    "__init__ with another number of arguments": Lossy,
    "exception with another number of arguments": lambda: [NeedsTwo(1, 2)],
    "tuple whose __new__ needs arguments": lambda: [Pair(1, 2)],
    "another class": Turned,
    "raises": lambda: Hidden(),
}


def view(value: Any, seen: dict[int, int] | None = None) -> Any:
    """The parts of a value, by class, with numbers for what occurs twice."""
    seen = {} if seen is None else seen
    kind = type(value)
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, enum.Enum)) and not hasattr(value, "__self__"):
        return value
    if kind in (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented)):
        return kind, repr(value)
    if kind.__hash__ in (None, object.__hash__):
        if id(value) in seen:
            return "again", seen[id(value)]
        seen[id(value)] = len(seen)
    if kind in (list, tuple):
        return kind, [view(each, seen) for each in value]
    if kind is dict:
        return kind, [(view(key, seen), view(each, seen)) for key, each in value.items()]
    if kind in (set, frozenset):
        return kind, sorted(repr(view(each, seen)) for each in value)
    if kind is np.ndarray and value.dtype == object:
        return kind, view(value.tolist(), seen)
    own = copyreg.dispatch_table.get(kind)
    found = value.__reduce_ex__(4) if own is None else own(value)
    if isinstance(found, str):
        return kind, found
    keep = [found, *(None if more is None else list(more) for more in found[3:5])]
    seen[-1 - len(seen)] = keep  # type: ignore[assignment]  # so that nothing else gets the identity of what is made here
    return kind, [view(part, seen) for part in found[1:3]], [view(part, seen) for part in keep[1:]]

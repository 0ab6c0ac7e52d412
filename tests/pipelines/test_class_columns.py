"""Blocks of Avro become columns and objects of a class at once, as each record would alone: the same values and errors."""

import dataclasses
import datetime
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypedDict

import fastavro
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipelines.fake_registry import FakeRegistry, fake_registry

from headrace.pipelines.formats import Format, Registry, avro
from headrace.pipelines.formats import class_columns as module
from headrace.pipelines.formats._avro_columns import AvroColumns
from headrace.pipelines.formats.registry_columns import RegistryColumns

TIME = {"type": "long", "logicalType": "timestamp-millis"}
FIELDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "id": ("long", st.integers(-9, 9) | st.just(2**62)),
    "article": ("string", st.sampled_from(["", "tea", " é "])),
    "note": (["null", "string"], st.none() | st.just("cold")),
    "at": (["null", TIME], st.none() | st.integers(0, 10**12).map(lambda ms: EPOCH + datetime.timedelta(milliseconds=ms))),
    "weight": ("double", st.sampled_from([0.5, -0.0, float("inf")])),
    "isFragile": ("boolean", st.booleans()),
}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def record(*names: str, **types: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": types.get(name, FIELDS[name][0])} for name in names]
    return {"type": "record", "name": "Order", "fields": fields}


WRITERS = {
    "whole": record(*FIELDS),
    "in another order": record(*reversed(FIELDS)),
    "without defaults": record("id"),
    "without an id": record("article", "weight"),
    "narrower": record("id", "weight", "article", id="int", weight="float"),
    "with null": record("id", "article", id=["null", "long"]),
    "with an enum": record("id", "article", article={"type": "enum", "name": "Kind", "symbols": ["tea", "milk"]}),
    "with bytes": record("id", "article", article="bytes"),
    "with a number of milliseconds": record("id", "at", at="long"),
}


def with_default(weight: float) -> dict[str, Any]:
    """A schema to read as."""
    schema = record("id", "weight", weight="float")
    schema["fields"][1]["default"] = weight
    return schema


class Order(msgspec.Struct):
    id: int
    article: str = "none"
    note: str | None = None
    at: datetime.datetime | None = None
    weight: float = 1.5


class Renamed(msgspec.Struct, rename="camel"):
    id: int
    is_fragile: bool = False


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    id: int


class Tagged(msgspec.Struct, tag=True):
    id: int


class Listed(msgspec.Struct, array_like=True):
    id: int


class ByName(msgspec.Struct, kw_only=True):
    id: int
    article: str = "none"


class Cached(msgspec.Struct, frozen=True):
    note: str | None
    id: int


@dataclass
class Line:
    id: int
    article: str = "none"
    weight: float = 1.5


@dataclass(frozen=True, slots=True)
class Frozen:
    weight: float
    at: datetime.datetime | None
    id: int


@dataclass
class Wrong:
    id: int
    article: str = None  # type: ignore[assignment]
    at: datetime.datetime = datetime.datetime(2026, 1, 1)  # noqa: DTZ001


@dataclass
class Listing:
    id: int
    lines: list[int] = field(default_factory=list)


@dataclass
class Limited:
    id: Annotated[int, msgspec.Meta(ge=0)]


@dataclass
class Doubling:
    id: int

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, 2 * value)


@dataclass
class Further(Line):
    note: str | None = "further"

    def __post_init__(self) -> None:
        self.article = self.article.upper()


class Heir(Line):
    pass


@dataclass(init=False)
class Own:
    id: int

    def __init__(self, id: int) -> None:
        self.id = id + 1


@dataclass
class Adding:
    id: int
    article: str

    def __init__(self, id: int, article: str) -> None:
        self.id, self.article = id, article + "!"


class Marks(type):
    def __call__(cls, *values: Any, **named: Any) -> Any:
        made = super().__call__(*values, **named)
        made.article += "!"
        return made


@dataclass
class Marked(metaclass=Marks):
    id: int
    article: str


@dataclass
class Half:
    id: int
    total: float = dataclasses.field(default=0.0, init=False)


@dataclass
class AsText:
    id: str


@dataclass
class AsFraction:
    id: float


@dataclass
class Naive:
    at: Annotated[datetime.datetime | None, msgspec.Meta(tz=False)]


class Row(NamedTuple):
    id: int
    article: str = "none"


class Document(TypedDict, total=False):
    id: int
    note: str | None


class Model(pydantic.BaseModel):
    id: int
    article: str = "none"
    note: str | None = None
    weight: float = 1.5


class Stripped(pydantic.BaseModel, str_strip_whitespace=True):
    id: int
    article: str = " none "


class Aliased(pydantic.BaseModel):
    id: int
    fragile: bool = pydantic.Field(default=False, alias="isFragile")


class Checked(pydantic.BaseModel):
    id: int

    @pydantic.field_validator("id")
    @classmethod
    def is_doubled(cls, value: int) -> int:
        return 2 * value


class Bounded(pydantic.BaseModel):
    id: int = pydantic.Field(ge=0)


class Computed(pydantic.BaseModel):
    id: int

    def model_post_init(self, context: Any) -> None:
        self.id += 1


class Forbidding(pydantic.BaseModel, extra="forbid"):
    id: int


FAST = [
    Order, Renamed, ByName, Cached, Line, Frozen, Wrong, Heir, Half, Doubling, Own, Adding, Marked, AsText, AsFraction,
    Document, Model,
]  # fmt: skip
OTHERS = [
    Strict, Tagged, Listed, Listing, Limited, Further, Naive, Row, Stripped, Aliased, Checked, Bounded, Computed,
    Forbidding,
]  # fmt: skip
NUMBERS = {name: number for number, name in enumerate(WRITERS, 1)}


@st.composite
def drawn_records(draw: st.DrawFn, name: str) -> bytes:
    schema, value = WRITERS[name], {key: draw(values) for key, (_, values) in FIELDS.items()}
    if name == "narrower":
        value["id"] = value["id"] % 100
    if name == "with null":
        value["id"] = draw(st.none() | st.just(value["id"]))
    if name in ("with an enum", "with bytes"):
        value["article"] = "milk" if name == "with an enum" else b"tea"
    if name == "with a number of milliseconds":
        value["at"] = 5
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {key: value[key] for key in names_in(schema)})
    return stream.getvalue() + draw(st.sampled_from([b""] * 9 + [b"x"]))


def names_in(schema: dict[str, Any]) -> list[str]:
    return [one["name"] for one in schema["fields"]]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        for name, schema in WRITERS.items():
            assert registry.add("orders-value", schema) == NUMBERS[name]
        yield registry


@pytest.fixture(autouse=True, scope="module")
def few_records_suffice() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MIN_ROWS", 1)
        yield


def check_same(form: Format[Any], payloads: list[bytes | None]) -> None:
    """Compares blocks with records alone."""
    decoder = form.decoder()
    try:
        alone = [decoder(payload) for payload in payloads]
    except Exception:
        assert decoder.at_once(payloads) is None
    else:
        found = decoder.at_once(payloads)
        assert found is None or repr(found) == repr(alone)
    try:
        each = Format.columns(form)
    except Exception as error:
        with pytest.raises(type(error)):
            form.columns()
        return
    found_block, block = form.columns().read(payloads), each.read(payloads)
    assert found_block.batch.schema == block.batch.schema
    assert repr(found_block.batch.to_pylist()) == repr(block.batch.to_pylist())
    assert list(found_block.there) == list(block.there)
    assert {at: str(error) for at, error in found_block.errors.items()} == {at: str(e) for at, e in block.errors.items()}


@pytest.mark.parametrize("kind", [*FAST, *OTHERS], ids=lambda kind: kind.__name__)
@settings(max_examples=25)
@given(data=st.data())
def test_a_block_has_the_values_and_errors_of_each_record_alone(server: FakeRegistry, kind: Any, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(WRITERS)))
    plain = data.draw(st.lists(st.none() | drawn_records(name), max_size=5))
    check_same(avro(WRITERS[name], kind), plain)
    mixed = data.draw(st.lists(st.sampled_from([name, "whole", *WRITERS]), max_size=5))
    framed = [b"\0" + NUMBERS[each].to_bytes(4) + data.draw(drawn_records(each)) for each in mixed]
    framed += data.draw(st.lists(st.sampled_from([b"", b"\0\0\0\0", b"\0\0\0\0\x63abc", b"\0\0\0\0\1"]), max_size=1))
    read_as = data.draw(st.sampled_from([None, None, "whole", "without defaults", "with a default"]))
    schema = (
        with_default(data.draw(st.sampled_from([0.1, 0.5, 9.99]))) if read_as == "with a default" else WRITERS.get(read_as or "")
    )
    check_same(avro(schema, kind, registry=Registry(server.url)), list(framed))


@pytest.mark.parametrize("weight", [0.1, 0.5, 9.99])
@pytest.mark.parametrize("kind", [Order, Line, Model])
def test_a_default_of_the_schema_to_read_as_is_not_rounded(server: FakeRegistry, kind: Any, weight: float) -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(WRITERS["without defaults"]), {"id": 1})
    payload = b"\0" + NUMBERS["without defaults"].to_bytes(4) + stream.getvalue()
    check_same(avro(with_default(weight), kind, registry=Registry(server.url)), [payload] * 3)


@pytest.mark.parametrize("kind", FAST, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("rows", [31, 32])
def test_objects_do_not_depend_on_the_size_of_a_block(kind: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_ROWS", 32)
    value = {"id": 3, "article": "tea", "note": None, "at": EPOCH, "weight": 0.5, "isFragile": True}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(WRITERS["whole"]), value)
    check_same(avro(WRITERS["whole"], kind), [stream.getvalue()] * rows)


@pytest.mark.parametrize("kind", FAST, ids=lambda kind: kind.__name__)
def test_one_call_reads_the_columns_of_plain_classes(server: FakeRegistry, kind: Any) -> None:
    assert isinstance(avro(WRITERS["whole"], kind).columns(), AvroColumns)
    assert isinstance(avro(kind=kind, registry=Registry(server.url)).columns(), RegistryColumns)


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.__name__)
def test_classes_that_check_or_change_values_are_read_record_by_record(server: FakeRegistry, kind: Any) -> None:
    for form in (avro(WRITERS["whole"], kind), avro(kind=kind, registry=Registry(server.url))):
        assert not isinstance(columns_or_none(form), AvroColumns | RegistryColumns)


def columns_or_none(form: Format[Any]) -> Any:
    try:
        return form.columns()
    except Exception:
        return None


@pytest.mark.parametrize("kind", [Order, Renamed, Cached, Line, Frozen])
def test_objects_are_made_without_a_call_for_each_record(
    server: FakeRegistry, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = {"id": 3, "article": "tea", "note": None, "at": EPOCH, "weight": 0.5, "isFragile": True}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(WRITERS["whole"]), value)
    plain, framed = stream.getvalue(), b"\0\0\0\0\1" + stream.getvalue()
    decoders = [avro(WRITERS["whole"], kind).decoder(), avro(kind=kind, registry=Registry(server.url)).decoder()]
    wanted = [decoder(payload) for decoder, payload in zip(decoders, (plain, framed), strict=True)]
    monkeypatch.delattr(fastavro, "schemaless_reader")
    for decoder, payload, one in zip(decoders, (plain, framed), wanted, strict=True):
        assert decoder.at_once([payload] * 3) == [one] * 3
        assert decoder.at_once([payload, payload[:-1]]) is None


def test_a_block_asks_no_registry_which_names_no_message(server: FakeRegistry) -> None:
    decoder, asked = avro(kind=Order, registry=Registry(server.url)).decoder(), len(server.requests)
    assert decoder.at_once([b"\0\0\0\0\1"]) is None
    assert len(server.requests) == asked

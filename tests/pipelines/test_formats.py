"""Formats: what is written can be read again, and whatever else arrives is an error that names format and field."""

import json as standard
import pickle
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pydantic
import pytest
from google.protobuf.struct_pb2 import Struct, Value
from hypothesis import given
from hypothesis import strategies as st
from pyspark.cloudpickle import dumps

from headrace.pipelines import FormatError, GraphError, Message, OnError, Pipeline, StepError, Trial
from headrace.pipelines.formats import Format, Registry, avro, columns_of, json, protobuf, text

TIMES = st.integers(0, 7 * 10**15).map(lambda micros: datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros))
TEXTS = st.text(st.characters(codec="utf-8"))
INTS = st.integers(-(2**63), 2**63 - 1)


@dataclass
class Line:
    article: str
    count: int


@dataclass
class Order:
    id: int
    at: datetime
    lines: list[Line]
    note: str | None = None
    weight: float = 1.0
    labels: dict[str, str] = field(default_factory=dict)


class OrderStruct(msgspec.Struct):
    id: int
    at: datetime
    lines: list[Line]
    note: str | None = None
    weight: float = 1.0
    labels: dict[str, str] = {}


class OrderModel(pydantic.BaseModel):
    id: int
    at: datetime
    lines: list[Line]
    note: str | None = None
    weight: float = 1.0
    labels: dict[str, str] = {}


class OrderTuple(NamedTuple):
    id: int
    at: datetime


class OrderDict(TypedDict):
    id: int
    at: datetime


class Price(msgspec.Struct):
    amount: Decimal
    offer: UUID


ORDERS = st.fixed_dictionaries(
    {
        "id": INTS,
        "at": TIMES,
        "lines": st.lists(st.builds(Line, TEXTS, INTS), max_size=3),
        "note": st.none() | TEXTS,
        "weight": st.floats(allow_nan=False, allow_infinity=False),
        "labels": st.dictionaries(TEXTS, TEXTS, max_size=3),
    }
)
LINE = {"type": "record", "name": "Line", "fields": [{"name": "article", "type": "string"}, {"name": "count", "type": "long"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "weight", "type": "double"},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
    ],
}
REGISTRY = Registry("http://127.0.0.1:1", timeout_s=0)
CLASSES = [Order, OrderStruct, OrderModel]
FORMATS: list[Format[Any]] = [
    text,
    text("latin-1"),
    json,
    json(Order),
    json(OrderStruct),
    json(OrderModel),
    json(OrderTuple),
    json(OrderDict),
    json(list[Order]),
    json(Price),
    json(Struct),
    avro(ORDER),
    avro(standard.dumps(ORDER), Order),
    avro(ORDER, OrderStruct),
    avro(ORDER, OrderModel),
    avro("string"),
    protobuf(Struct),
]


def again(form: Format[Any], value: Any) -> Any:
    return form.decoder()(form.encoder()(value))


def refusal(function: Callable[[Any], Any], value: Any) -> str | None:
    """The text of the one error that the function may raise."""
    try:
        function(value)
    except FormatError as error:
        return str(error)
    return None


@given(ORDERS)
def test_json_and_avro_of_every_kind_of_class_read_what_they_wrote(fields: dict[str, Any]) -> None:
    for kind in CLASSES:
        order = kind(**fields)
        assert again(json(kind), order) == order
        assert again(avro(ORDER, kind), order) == order


@given(st.recursive(st.none() | st.booleans() | INTS | TEXTS, lambda one: st.lists(one) | st.dictionaries(TEXTS, one)))
def test_json_without_a_class_reads_what_it_wrote(value: Any) -> None:
    if value is not None:
        assert again(json, value) == value


@given(TEXTS, INTS, TIMES)
def test_other_types_read_what_they_wrote(word: str, number: int, at: datetime) -> None:
    assert again(text, word) == word
    assert again(json(OrderTuple), OrderTuple(number, at)) == (number, at)
    assert again(json(OrderDict), OrderDict(id=number, at=at)) == {"id": number, "at": at}
    assert again(json(list[Line]), [Line(word, number)]) == [Line(word, number)]
    assert again(json(Price), Price(Decimal(number), UUID(int=1))) == Price(Decimal(number), UUID(int=1))
    message = Struct(fields={word: Value(string_value=word)})
    assert again(protobuf(Struct), message) == message
    assert again(json(Struct), message) == message
    assert again(avro("string"), word) == word


@pytest.mark.parametrize("form", [*FORMATS, avro(registry=REGISTRY), json(Line, drop_null=True)], ids=lambda form: form.name)
def test_a_pipeline_with_formats_is_sent_to_the_workers(form: Format[Any]) -> None:
    app = Pipeline("shop")
    app.source("orders/*", decode=form).sink("copies", encode=form)
    app.source("lines/*", decode=json(Line)).to_columns(Order).map(repr).sink("rows")
    sent = pickle.loads(dumps(app.graph))
    assert refusal(sent.steps[0].decode, b"\xff") == refusal(form.decoder(), b"\xff")
    assert refusal(sent.steps[1].encode, object()) == refusal(form.encoder(), object())


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@given(payload=st.binary(max_size=60))
def test_whatever_arrives_is_read_or_refused_by_the_name_of_the_format(form: Format[Any], payload: bytes) -> None:
    refused = refusal(form.decoder(), payload)
    assert refused is None or refused.startswith(f"{form.name}: ")


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@given(value=st.none() | st.booleans() | INTS | TEXTS | st.floats() | st.binary() | st.lists(INTS) | st.builds(object))
def test_whatever_is_to_be_written_is_written_or_refused_by_the_name_of_the_format(form: Format[Any], value: Any) -> None:
    refused = refusal(form.encoder(), value)
    assert refused is None or refused.startswith(f"{form.name}: ")


@given(st.data(), ORDERS)
def test_a_part_of_an_avro_record_is_refused(data: st.DataObject, fields: dict[str, Any]) -> None:
    payload = avro(ORDER, Order).encoder()(Order(**fields))
    cut = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(FormatError, match=r"^avro\(Order\): field \w+: |bytes are left"):
        avro(ORDER, Order).decoder()(payload[:cut])
    with pytest.raises(FormatError, match="1 bytes are left after the record"):
        avro(ORDER, Order).decoder()(payload + b"\0")


def test_a_payload_that_does_not_fit_is_an_error_with_stream_sequence_and_field() -> None:
    app = Pipeline("shop")
    app.source("orders/*", decode=json(Order)).map(lambda order: str(order.id)).sink("ids")
    trial = Trial(app)
    with pytest.raises(StepError) as raised:
        trial.send(
            Message(b'{"id": 1, "at": "2026-01-01T00:00:00Z", "lines": [{"article": "a", "count": "x"}]}', stream="orders/7")
        )
    assert "stream orders/7, sequence" in str(raised.value)
    assert "json(Order): Expected `int`, got `str` - at `$.lines[0].count`" in str(raised.value)


def test_a_payload_that_does_not_fit_follows_the_policy() -> None:
    app = Pipeline("shop", on_error=OnError.DEAD_LETTER, dead_letters="letters")
    app.source("lines/*", decode=json(Line)).filter(lambda line: line.count > 0).sink("copies", encode=json(Line))
    trial = Trial(app)
    good = b'{"article":"a","count":1}'
    trial.send(*(Message(payload, stream="lines/0") for payload in (good, b"{", b"null", b'{"article":"a"}', good)))
    assert trial.values("copies") == [good, good]
    assert [reason.split("FormatError: ")[1].split(":")[0] for reason in trial.failed] == ["json(Line)"] * 3


def test_a_null_is_refused_unless_it_is_to_be_dropped() -> None:
    for form in (json, json(Line), json(OrderModel), avro(["null", LINE])):
        null = b"\0" if form.name.startswith("avro") else b"null"
        with pytest.raises(FormatError, match=r"null|None|object"):
            form.decoder()(null)
        with pytest.raises(FormatError, match="the message has no payload; drop_null=True drops such messages"):
            form.decoder()(None)
    for dropping in (json(drop_null=True), json(Line, drop_null=True), text(drop_null=True), protobuf(Struct, drop_null=True)):
        assert dropping.decoder()(None) is None
    assert json(Line, drop_null=True).decoder()(b"null") is None
    assert json(OrderModel, drop_null=True).decoder()(b"null") is None
    assert json(Line, drop_null=True).decoder()(b'{"article":"a","count":1}') == Line("a", 1)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_json_refuses_numbers_that_it_does_not_have(number: float) -> None:
    order = Order(1, datetime(2026, 1, 1, tzinfo=UTC), [], weight=number)
    with pytest.raises(FormatError, match=r"json\(Order\): JSON has no NaN and no infinity - at `\$.weight`"):
        json(Order).encoder()(order)
    with pytest.raises(FormatError, match=r"at `\$\[1\]\.a`"):
        json.encoder()([None, {"a": number}])


def test_a_value_of_another_class_is_refused() -> None:
    for form in (json(Order), avro(ORDER, Order), protobuf(Struct)):
        with pytest.raises(FormatError, match="the value is of type Line"):
            form.encoder()(Line("a", 1))


@pytest.mark.parametrize(
    "value", [Line("tea", 3), OrderStruct(1, datetime.now(UTC), []), OrderModel(id=1, at=datetime.now(UTC), lines=[])]
)
def test_avro_without_a_class_refuses_an_object_and_names_the_remedy(value: Any) -> None:
    name = type(value).__name__
    with pytest.raises(FormatError, match=rf"writes dicts, not a {name}; pass the class, as in avro\(schema, {name}\)"):
        avro(LINE).encoder()(value)


class Payment(msgspec.Struct, tag=True):
    cents: int


class Refund(msgspec.Struct, tag=True):
    payment: int


def test_json_of_tagged_structs_reads_each_as_its_own_class() -> None:
    form = json(Payment | Refund)
    for value in Payment(3), Refund(7):
        assert form.decoder()(form.encoder()(value)) == value
    with pytest.raises(FormatError, match=r"json\(.*Payment \| .*Refund\)"):
        form.decoder()(b'{"type": "Order"}')


def test_avro_refuses_fields_that_its_schema_does_not_have() -> None:
    with pytest.raises(FormatError, match="more"):
        avro(LINE).encoder()({"article": "a", "count": 1, "more": 2})
    with pytest.raises(FormatError, match="count"):
        avro(LINE).encoder()({"article": "a"})


def test_what_is_no_format_is_refused_when_it_is_made() -> None:
    with pytest.raises(GraphError, match="Python has no such encoding"):
        text("utf-9")
    two: Any = Order | Line
    with pytest.raises(GraphError, match=r"^json\(.*unions may not contain more than one"):
        json(two)
    with pytest.raises(GraphError, match="is invalid"):
        avro('{"type": "record"}')
    with pytest.raises(GraphError, match="is invalid"):
        avro("{")
    with pytest.raises(GraphError, match="protobuf class"):
        avro(LINE, Struct)
    wrong: Any = Order
    with pytest.raises(GraphError, match="a class that protoc has generated"):
        protobuf(wrong)


def summed(rows: pa.RecordBatch) -> pa.RecordBatch:
    lines = pc.list_value_length(rows["lines"])
    value = pc.binary_join_element_wise(rows["id"].cast(pa.string()), lines.cast(pa.string()), " ").cast(pa.binary())
    return pa.RecordBatch.from_pydict({"value": value})


@pytest.mark.parametrize("kind", CLASSES)
@given(st.lists(ORDERS, max_size=4))
def test_columns_hold_what_objects_hold(kind: Any, orders: list[dict[str, Any]]) -> None:
    batch = columns_of(kind).batch([kind(**fields) for fields in orders])
    plain = [{**fields, "lines": [asdict(line) for line in fields["lines"]]} for fields in orders]
    assert [{**row, "labels": dict(row["labels"])} for row in batch.to_pylist()] == plain
    assert batch.schema.field("note").nullable
    assert not batch.schema.field("id").nullable


def test_objects_reach_columnar_steps_as_columns() -> None:
    app = Pipeline("shop")
    app.source("orders/*", decode=json(Order)).filter(lambda order: order.id > 0).to_columns(Order).map_columns(summed).sink(
        "out"
    )
    trial = Trial(app)
    order = Order(7, datetime.fromtimestamp(0, UTC), [Line("tea", 2), Line("milk", 1)])
    trial.send(Message(json(Order).encoder()(order), stream="orders/0"))
    assert trial.values("out") == [b"7 2"]


def test_an_object_that_columns_cannot_hold_follows_the_policy() -> None:
    app = Pipeline("shop", on_error=OnError.DEAD_LETTER, dead_letters="letters")
    rows = app.source("lines/*", decode=json(Line)).key_by(lambda line: line.article).to_columns(Line)
    rows.map(lambda row: f"{row['article']} {row['count']}").sink("out")
    trial = Trial(app)
    counts = (1, 2**63, -5, 2**70, 2)
    trial.send(*(Message(b'{"article":"a","count":%d}' % count, stream="lines/0") for count in counts))
    assert trial.values("out") == [b"a 1", b"a -5", b"a 2"]
    assert [reason.rpartition("sequence ")[2].split(":")[0] for reason in trial.failed] == ["2", "4"]


@dataclass
class Odd:
    anything: object


def test_what_has_no_columns_is_refused_when_the_graph_is_built() -> None:
    flow = Pipeline("shop").source("orders/*", decode=json)
    for kind, reason in ((Odd, r"Odd\.anything is of a type"), (Struct, "not Struct"), (int, "not int")):
        with pytest.raises(GraphError, match=rf"pipeline shop, step to_columns: kind: .*{reason}"):
            flow.to_columns(kind)

"""Conditions in CEL: what meets them flows on, and what they have no result for follows the policy."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.struct_pb2 import Struct
from hypothesis import example, given
from hypothesis import strategies as st
from tests.pipelines.rig import cut

from headrace.pipelines import GraphError, Message, OnError, Pipeline, StepError, TimeUnit, Trial, count, tumbling
from headrace.pipelines.expressions import Condition
from headrace.pipelines.formats import json


@dataclass
class Order:
    amount: float
    country: str
    items: list[int]
    at: datetime | None = None


class OrderModel(pydantic.BaseModel):
    amount: float
    country: str
    items: list[int]
    at: datetime | None = None


CONDITIONS: dict[str, Callable[[Order], bool]] = {
    "value.amount > 10": lambda order: order.amount > 10,
    'value.country in ["DE", "FR"] && size(value.items) < 2': lambda order: (
        order.country in ("DE", "FR") and len(order.items) < 2
    ),
    "value.items.exists(item, item < 0) || value.amount == 0.0": lambda order: (
        any(i < 0 for i in order.items) or order.amount == 0
    ),
    'value.country.startsWith("é") ? value.amount <= -1.5 : true': lambda o: o.amount <= -1.5 if o.country[:1] == "é" else True,
    'value.at != null && timestamp(value.at) >= timestamp("2026-01-01T00:00:00Z")': lambda order: (
        order.at is not None and order.at >= datetime(2026, 1, 1, tzinfo=UTC)
    ),
}
ORDERS = st.builds(
    Order,
    st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 10.0, -1.5]),
    st.sampled_from(["DE", "FR", "US", "é", ""]),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    st.none() | st.datetimes(datetime(2025, 12, 31), datetime(2026, 1, 2), timezones=st.just(UTC)),  # noqa: DTZ001
)


def written(order: Any) -> bytes:
    return repr((order.amount, order.country, order.items, order.at and order.at.isoformat())).encode()


@pytest.mark.parametrize("kind", [Order, OrderModel])
@pytest.mark.parametrize("condition", CONDITIONS)
@given(orders=st.lists(ORDERS, max_size=6), ends=st.lists(st.integers(0, 6), max_size=2))
def test_the_values_that_meet_a_condition_flow_on(kind: Any, condition: str, orders: list[Order], ends: list[int]) -> None:
    app = Pipeline("shop")
    app.source("orders/*", decode=json(kind), where=condition).sink("out", encode=written)
    encode, trial = json(Order).encoder(), Trial(app)
    messages = [Message(encode(order), stream="orders/0", sequence=at) for at, order in enumerate(orders, 1)]
    for batch in cut(messages, ends):
        trial.send(*batch)
    assert trial.values("out") == [written(order) for order in orders if CONDITIONS[condition](order)]


def test_a_value_without_a_result_follows_the_policy_and_is_named() -> None:
    app = Pipeline("shop", on_error=OnError.DEAD_LETTER, dead_letters="letters")
    app.source("orders/*", decode=json, where="value.amount > 10").sink("out", encode=json)
    trial = Trial(app)
    payloads = [b'{"amount": 11}', b'{"a": 1}', b'{"amount": "x"}', b'{"amount": 9}', b"[1]", b'{"amount": 18446744073709551616}']
    trial.send(*(Message(payload, stream="orders/0") for payload in payloads))
    assert trial.values("out") == [b'{"amount":11}']
    assert [reason.partition("sequence ")[2][:1] for reason in trial.failed] == ["2", "3", "5", "6"]
    assert "has no result that is true or false" in trial.failed[0]
    assert "amount" in trial.failed[0]


def test_a_very_long_error_of_a_function_is_a_short_reason() -> None:
    def refuse(value: Any) -> bool:
        raise ValueError("v" * 1_000_000)

    app = Pipeline("shop", on_error=OnError.DEAD_LETTER, dead_letters="letters")
    app.source("orders/*", decode=json).filter(refuse).sink("out", encode=json)
    trial = Trial(app)
    trial.send(Message(b"1", stream="orders/0"))
    assert "ValueError: vvv" in trial.failed[0]
    assert trial.failed[0].endswith("v... (1,000,000 characters)")
    assert len(trial.failed[0]) < 5_000


def test_a_result_that_is_no_boolean_ends_the_query() -> None:
    app = Pipeline("shop")
    app.source("orders/*", decode=json, where="value.flag").sink("out", encode=json)
    Trial(app).send(Message(b'{"flag": true}', stream="orders/0"))
    with pytest.raises(StepError, match=r"stream orders/0, sequence 1: ValueError: 'value.flag' has no result"):
        Trial(app).send(Message(b'{"flag": 1}', stream="orders/0"))


class Pair(NamedTuple):
    left: int
    right: tuple[int, ...]


class Named(msgspec.Struct):
    model_dump: int


class Site(pydantic.BaseModel):
    url: pydantic.AnyUrl
    raw: bytes = b"\xff"


PROTO = Struct()
PROTO.update({"text": "a\0b"})
SEEN: list[tuple[Any, str]] = [
    (Pair(1, (2, 3)), "value[0] == 1 && 3 in value[1]"),
    ({"pair": (1, 2)}, "2 in value.pair"),
    (Named(4), "value.model_dump == 4"),
    (Site(url=pydantic.AnyUrl("http://h/")), 'value.url == "http://h/" && value.raw == "/w=="'),
    ([Site(url=pydantic.AnyUrl("http://h/"))], 'value[0].url == "http://h/"'),
    (PROTO, 'value.text == "a\\u0000b"'),
    (FieldDescriptorProto(number=2**31 - 1), "value.number > 2147483646 && value.name == '' && !has(value.name)"),
    (b"\0", 'value == "AA=="'),
    ({1: "x"}, 'value["1"] == "x"'),
    (float("nan"), "!(value > 1)"),
    (2**63, "value > 9223372036854775807"),
]


@pytest.mark.parametrize(("value", "condition"), SEEN, ids=[text for _, text in SEEN])
def test_a_condition_sees_a_value_of_any_class_as_its_json_and_a_message_of_protobuf_by_its_fields(
    value: Any, condition: str
) -> None:
    assert Condition(condition)(value) is True


@pytest.mark.parametrize(
    ("value", "condition", "reason"),
    [
        ({"text": "a\0b"}, 'value.text == "a"', "contains a zero character"),
        ({"a\0b": 1}, "value.a == 1", "contains a zero character"),
        ("\ud800", 'value == "a"', "has no result"),
        (list(range(300)), "value.all(a, value.all(b, a + b >= 0))", "has no result: .*budget"),
        ("x" * 9999, "dyn(value)", "^.{,600}$"),
        ({"x": 1}, f'value.x == "{"x" * 9999}".size() + value.y', "^.{,600}$"),
        (FieldDescriptorProto(), "value.other == 1", "no_such_field"),
    ],
    ids=["text", "name", "surrogate", "steps", "result", "long text", "field"],
)
def test_a_value_that_a_condition_cannot_see_whole_has_no_result(value: Any, condition: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Condition(condition)(value)


def test_a_value_without_json_is_named() -> None:
    with pytest.raises((TypeError, ValueError), match=r"complex|object"):
        Condition("true")(object())


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=12),
    st.lists(st.integers(0, 12), max_size=3),
    st.booleans(),
)
@example([(0, 2), (1, 0), (0, 9)], [1], False)
def test_event_time_advances_as_after_a_filter_also_where_a_stream_is_dropped(
    sent: list[tuple[int, int]], ends: list[int], has_idle: bool
) -> None:
    def windows(**where: str) -> list[bytes | None]:
        app = Pipeline("shop")
        source = app.source("orders/*", decode=json, idle_after="5s" if has_idle else None, **where)  # type: ignore[call-overload]
        kept = source if where else source.filter(lambda value: value["stream"] != 1)
        timed = kept.event_time(lambda value: value["at"], unit=TimeUnit.SECONDS)
        timed.key_by(lambda value: "k").window(tumbling("2s")).aggregate(count()).sink("out", encode=json)
        trial, messages = Trial(app), list[Message]()
        for sequence, (stream, at) in enumerate(sent, 1):
            payload = b'{"stream": %d, "at": %d}' % (stream, at)
            messages.append(Message(payload, stream=f"orders/{stream}", sequence=sequence))
        for batch in cut(messages, ends):
            trial.send(*batch)
        return trial.values("out")

    assert windows(where="value.stream != 1") == windows()


def test_a_condition_crosses_processes() -> None:
    assert pickle.loads(pickle.dumps(Condition("value > 1")))(2)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("value.amount >", "Syntax error"),
        ("", "Syntax error"),
        ("other.amount > 1", "undeclared reference to 'other.amount'.*a value is called value"),
        ("shout(value)", "undeclared reference to 'shout'"),
        ('"a" > 1', "no matching overload"),
        ("1 + 1", "its result is INT, not BOOL"),
        (7, "is an expression in CEL"),
    ],
    ids=str,
)
def test_an_invalid_condition_is_refused_when_the_graph_is_built(where: Any, reason: str) -> None:
    with pytest.raises(GraphError, match=f"pipeline shop, source orders/\\*: where.*{reason}"):
        Pipeline("shop").source("orders/*", decode=json, where=where)


def test_a_condition_without_a_decoder_is_refused() -> None:
    with pytest.raises(GraphError, match="pipeline shop, source orders/\\*: where needs decode"):
        Pipeline("shop").source("orders/*", where="true")

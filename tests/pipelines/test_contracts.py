"""Contracts: further fields, and values that do not fit, go where the contract of their stream says, and are counted once."""

import json as standard
import logging
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st
from tests.pipelines.fake_registry import fake_registry
from tests.pipelines.rig import cut

from headrace.pipelines import GraphError, Message, OnError, Pipeline, StepError, Trial
from headrace.pipelines.formats import Contract, Judge, Registry, avro, json, protobuf, text
from headrace.pipelines.formats.document_fields import further_fields
from headrace.pipelines.formats.strict_twin import strict_twin
from headrace.pipelines.steps import contract_check


@dataclass
class Line:
    price: int
    note: str | None = None


@dataclass
class Order:
    id: int
    lines: list[Line] = field(default_factory=list)
    labels: dict[str, Line] = field(default_factory=dict)
    first: Line | None = None


class LineModel(pydantic.BaseModel):
    price: int
    note: str | None = None


class OrderModel(pydantic.BaseModel):
    id: int
    lines: list[LineModel] = []
    labels: dict[str, LineModel] = {}
    first: LineModel | None = None


class Tree(msgspec.Struct):
    id: int
    below: "list[Tree]" = []


class Paid(msgspec.Struct, tag="paid"):
    amount: int


class Refused(msgspec.Struct, tag="refused"):
    reason: str
    line: Line | None = None


class Renamed(msgspec.Struct, rename="camel"):
    unit_price: int


class Pair(NamedTuple):
    a: Line
    b: int


class Dict(TypedDict):
    pair: Pair


FURTHER = {"new": st.just(1), "debug": st.just({"x": 1}), "id2": st.none()}
LINES = st.fixed_dictionaries({"price": st.integers(0, 9)}, optional={"note": st.none() | st.just("n") | st.just(3), **FURTHER})
ORDERS = st.fixed_dictionaries(
    {"id": st.integers(0, 9) | st.integers(0, 9) | st.just("x")},
    optional={
        "lines": st.lists(LINES, max_size=2),
        "labels": st.dictionaries(st.sampled_from(["a", "price"]), LINES, max_size=2),
        "first": st.none() | LINES,
        **FURTHER,
    },
)
MODES = st.sampled_from(["evolve", "freeze", "discard"])
TYPES = st.sampled_from(["freeze", "discard"])
CONTRACTS = st.builds(
    Contract,
    MODES | st.fixed_dictionaries({}, optional={"debug*": MODES, "lines.*": MODES, "*": MODES}),
    TYPES | st.fixed_dictionaries({}, optional={"*note": TYPES, "id": TYPES}),
)


class Refusal(Exception):
    pass


def oracle(document: dict[str, Any], contract: Contract) -> tuple[dict[str, Any], bool, bool]:
    """The fields of an order, and whether further fields are noted, and values discarded."""
    further, discarded = list[str](), False

    def mode(modes: Any, path: str, default: str) -> str:
        if isinstance(modes, str):
            return modes
        for pattern, one in modes.items():
            begin, star, end = pattern.partition("*")
            if path == pattern or (star and path.startswith(begin) and path.endswith(end)):
                return str(one)
        return default

    def fits(path: str) -> bool:
        nonlocal discarded
        if mode(contract.types, path, "freeze") == "freeze":
            raise Refusal
        discarded = True
        return False

    def line_of(line: dict[str, Any], path: str) -> dict[str, Any]:
        further.extend(f"{path}.{name}" for name in line if name in FURTHER)
        note = line.get("note")
        return {"price": line["price"], "note": note if not isinstance(note, int) or fits(f"{path}.note") else None}

    if isinstance(document["id"], str):
        fits("id")
        raise Refusal  # it has no default
    further.extend(name for name in document if name in FURTHER)
    found = {
        "id": document["id"],
        "lines": [line_of(line, "lines") for line in document.get("lines", [])],
        "labels": {name: line_of(line, "labels") for name, line in document.get("labels", {}).items()},
        "first": line_of(document["first"], "first") if document.get("first") else None,
    }
    modes = {mode(contract.fields, path, "discard") for path in further}
    if "freeze" in modes:
        raise Refusal
    return found, "evolve" in modes, discarded


def shown(order: Any) -> bytes:
    document = order.model_dump() if isinstance(order, pydantic.BaseModel) else asdict(order)
    return standard.dumps(document, sort_keys=True).encode()


@pytest.mark.parametrize("kind", [Order, OrderModel])
@given(
    documents=st.lists(st.tuples(st.sampled_from(["orders/eu-1", "orders/us"]), ORDERS), max_size=8),
    contracts=st.tuples(CONTRACTS, CONTRACTS),
    ends=st.lists(st.integers(0, 8), max_size=3),
    buckets=st.integers(1, 8),
)
def test_orders_pass_or_not_as_an_oracle_says(
    kind: Any, documents: list[tuple[str, dict[str, Any]]], contracts: tuple[Contract, Contract], ends: list[int], buckets: int
) -> None:
    # The oracle removes values from maps, too, whose paths msgspec does not tell.
    if any(isinstance(line.get("note"), int) for _, one in documents for line in one.get("labels", {}).values()):
        return
    by_stream = dict(zip(("orders/eu-1", "orders/us"), contracts, strict=True))

    def application() -> Pipeline:
        app = Pipeline("shop", on_error=OnError.DEAD_LETTER, dead_letters="failed")
        flow = app.source("orders/*", decode=json(kind), contract={"orders/eu-*": contracts[0], "*/*": contracts[1]}, name="in")
        flow.key_by(lambda order: order.id, name="by id").map(shown, name="shown").sink("out")
        return app

    trial = Trial(application(), buckets=buckets)
    messages = [Message(standard.dumps(one).encode(), stream=stream) for stream, one in documents]
    for part in cut(messages, ends):
        trial.send(*part)
        trial.restart(application())
    expected, refused, counts = list[bytes](), 0, dict[str, int]()

    def count(what: str, stream: str) -> None:
        name = f"{what} {'orders/eu-*' if stream == 'orders/eu-1' else '*/*'}"
        counts[name] = counts.get(name, 0) + 1

    for stream, one in documents:
        try:
            found, is_further, is_discarded = oracle(one, by_stream[stream])
        except Refusal:
            refused += 1
            count("violated", stream)
        else:
            expected.append(standard.dumps(found, sort_keys=True).encode())
            for what, is_so in (("further", is_further), ("discarded", is_discarded)):
                if is_so:
                    count(what, stream)
    assert sorted(trial.values("out")) == sorted(expected)
    assert len(trial.failed) == refused
    found_counts = {f"{what} {name.removeprefix('in ')}": number for (what, name), number in trial.counts.items() if number}
    assert found_counts == counts


DOCUMENTS = st.recursive(
    st.none() | st.integers(0, 3) | st.text(max_size=1),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["id", "lines", "labels", "first", "price", "note", "new"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["id", "lines", "labels", "first", "new"]), DOCUMENTS, max_size=4))
def test_the_twin_refuses_exactly_documents_with_further_fields(document: dict[str, Any]) -> None:
    payload = standard.dumps(document).encode()
    try:
        msgspec.json.decode(payload, type=Order)
    except msgspec.ValidationError:
        return
    try:
        msgspec.json.decode(payload, type=strict_twin(Order))
        is_refused = False
    except msgspec.ValidationError:
        is_refused = True
    assert is_refused == bool(further_fields(Order)(document))


@pytest.mark.parametrize(
    ("kind", "document", "further"),
    [
        (Tree, {"id": 1, "below": [{"id": 2, "x": 1, "below": [{"id": 3, "y": 1}]}]}, ["below.x", "below.below.y"]),
        (Paid | Refused, {"type": "paid", "amount": 1, "reason": "?"}, ["reason"]),
        (Paid | Refused, {"type": "refused", "reason": "", "line": {"price": 1, "z": 0}}, ["line.z"]),
        (Renamed, {"unitPrice": 1, "unit_price": 2}, ["unit_price"]),
        (Dict, {"pair": [{"price": 1, "x": 2}, 3]}, ["pair.x"]),
        (list[Line], [{"price": 1}, {"price": 1, "x": 2}], ["x"]),
        (OrderModel, {"id": 1, "first": {"price": 1, "x": 2}, "lines": [{"price": 1, "y": 1}]}, ["first.x", "lines.y"]),
    ],
)
def test_further_fields_are_found_at_any_depth(kind: Any, document: Any, further: list[str]) -> None:
    assert further_fields(kind)(document) == further
    app = Pipeline("shop", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    app.source("orders/*", decode=json(kind), contract="freeze", name="in").map(repr, name="shown").sink("out")
    trial = Trial(app)
    trial.send(Message(standard.dumps(document).encode(), stream="orders/0"))
    assert trial.values("out") == []
    assert f"the class has no field {further[0]}, and the contract is frozen" in trial.failed[0]
    assert trial.counts["violated", "in"] == 1


def test_a_new_field_is_logged_once_for_each_stream(caplog: pytest.LogCaptureFixture) -> None:
    contract_check._noted.clear()
    app = Pipeline("shop")
    app.source("orders/*", decode=json(Line), contract="evolve", name="in").map(repr, name="shown").sink("out")
    trial = Trial(app)
    with caplog.at_level(logging.WARNING, "headrace.pipelines"):
        for stream in ("orders/0", "orders/1", "orders/0"):
            trial.send(*(Message(payload, stream=stream) for payload in (b'{"price": 1}', b'{"price": 1, "new": 2}')))
    assert len(trial.values("out")) == 6
    assert trial.counts["further", "in"] == 3
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"step in, stream orders/{n}, sequence 2: the class has no field new, which is logged once" for n in (0, 1)]


def test_without_a_policy_a_violation_ends_the_query_and_names_stream_sequence_and_field() -> None:
    app = Pipeline("shop")
    app.source("orders/*", decode=json(Line), contract="freeze").map(repr, name="shown").sink("out")
    where = r"stream orders/0, sequence 2: Violation: json\(Line\): the class has no field new"
    with pytest.raises(StepError, match=where):
        Trial(app).send(*(Message(payload, stream="orders/0") for payload in (b'{"price": 1}', b'{"price": 1, "new": 2}')))


def test_records_of_a_registry_are_compared_with_their_class() -> None:
    newer = {"type": "record", "name": "L", "fields": [{"name": "price", "type": "long"}, {"name": "new", "type": "string"}]}
    with fake_registry() as server:
        server.add("lines-value", newer)
        app = Pipeline("shop", on_error=OnError.SKIP)
        form = avro(kind=Line, registry=Registry(server.url))
        flow = app.source("orders/*", decode=form, contract={"orders/0": "freeze", "orders/1": "evolve"}, name="in")
        flow.map(repr, name="shown").sink("out")
        trial = Trial(app)
        payload = b"\0\0\0\0\1" + avro(newer).encoder()({"price": 3, "new": "x"})
        trial.send(*(Message(payload, stream=f"orders/{n}") for n in range(3)))
    assert trial.values("out") == [b"Line(price=3, note=None)"] * 2
    assert {key: count for key, count in trial.counts.items() if count} == {
        ("violated", "in orders/0"): 1,
        ("skipped", "in"): 1,
        ("further", "in orders/1"): 1,
    }


@pytest.mark.parametrize(
    ("decode", "contract", "reason"),
    [
        (json, "freeze", "json has no fields to compare: a contract needs a class"),
        (text, "freeze", "text has no fields to compare"),
        (protobuf(Struct), "freeze", "no fields to compare"),
        (bytes.decode, "freeze", "contract needs a format such as json"),
        (None, "freeze", "contract needs a format such as json"),
        (json(Line), "melt", "fields has '\\*': 'melt', and a mode is one of evolve, freeze, discard"),
        (json(Line), {"orders": "freeze"}, "'orders', which is not a pattern"),
        (json(Line), 7, "mode is one of evolve"),
        (avro("string", Line), {"*/*": lambda: Contract(types="discard")}, "only of JSON without a registry"),
    ],
)
def test_a_contract_that_cannot_hold_is_refused_when_the_graph_is_built(decode: Any, contract: Any, reason: str) -> None:
    if isinstance(contract, dict):
        contract = {pattern: one() if callable(one) else one for pattern, one in contract.items()}
    with pytest.raises(GraphError, match=f"pipeline shop, source orders/\\*: .*{reason}"):
        Pipeline("shop").source("orders/*", decode=decode, contract=contract)
    with pytest.raises(GraphError, match="types has '\\*': 'evolve', and a mode is one of freeze, discard"):
        Contract(types="evolve")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["evolve", "freeze"])
def test_one_call_reads_a_block_that_matches_its_class(mode: Literal["evolve", "freeze"]) -> None:
    judge = Judge(json(Order), Contract(mode))
    whole, further = b'{"id": 1, "lines": [{"price": 1}]}', b'{"id": 1, "lines": [{"price": 1, "x": 1}]}'
    assert judge.at_once([whole, whole]) == [Order(1, [Line(1)])] * 2
    assert judge.at_once([whole, further]) is None
    assert Judge(json(Order), Contract("discard")).at_once([whole, further]) == [Order(1, [Line(1)])] * 2
    assert Judge(json(Tree), Contract(mode)).at_once([b'{"id": 1}']) is None

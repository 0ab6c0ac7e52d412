"""`decode_columns` gives what a decoder and `to_columns` give, however the messages are divided."""

import json as standard
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipelines.rig import cut

from headrace.pipelines import Flow, GraphError, KeyStates, Message, OnError, Pipeline, StepError, Trial
from headrace.pipelines.formats import Format, avro, json, text


class Line(msgspec.Struct):
    article: str
    count: int
    note: str | None = None


class LineModel(pydantic.BaseModel):
    article: str
    count: int
    note: str | None = None


@dataclass
class Parcel:
    id: int
    lines: list[Line]


AVRO = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "article", "type": "string"},
        {"name": "count", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
    ],
}
FORMATS: dict[str, Format[Any]] = {
    "a struct": json(Line),
    "a model": json(LineModel),
    "a struct, without nulls": json(Line, drop_null=True),
    "avro with a class": avro(AVRO, Line),
}
LINES = st.fixed_dictionaries(
    {"article": st.sampled_from("ab"), "count": st.integers(-9, 9) | st.just(2**63)}, optional={"note": st.none() | st.just("n")}
)
PAYLOADS = (
    st.none()
    | LINES.map(lambda line: standard.dumps(line).encode())
    | LINES.filter(lambda line: line["count"] < 10).map(lambda line: avro(AVRO).encoder()({"note": None, **line}))
    | st.sampled_from([b"null", b"", b"[1]", b"{}", b"\x02a\x02\x00x"])
)


def payload_of(row: dict[str, Any]) -> bytes:
    return repr(row).encode()


def outcome(build: Callable[[Flow[Message]], Flow[Any]], decode: Any, batches: list[list[Message]]) -> tuple[Any, ...]:
    app = Pipeline("shop", on_error=OnError.DEAD_LETTER, dead_letters="letters")
    build(app.source("lines/*", decode=decode, name="lines")).sink("out", encode=payload_of)
    trial = Trial(app)
    for batch in batches:
        trial.send(*batch)
    reasons = [reason.partition("sequence ")[2] for reason in trial.failed]
    return trial.written["out"], sorted(int(reason.partition(":")[0]) for reason in reasons), trial.written["letters"]


@pytest.mark.parametrize("name", FORMATS)
@given(payloads=st.lists(PAYLOADS, max_size=8), ends=st.lists(st.integers(0, 8), max_size=2))
def test_rows_are_what_objects_in_columns_are(name: str, payloads: list[bytes | None], ends: list[int]) -> None:
    format = FORMATS[name]
    messages = [Message(payload, b"k%d" % (at % 3), stream="lines/0", sequence=at) for at, payload in enumerate(payloads, 1)]
    kind = LineModel if name == "a model" else Line
    expected = outcome(lambda flow: flow.to_columns(kind), format, [messages])
    found = outcome(lambda flow: flow.decode_columns(format), None, cut(messages, ends))
    assert found[:2] == expected[:2]
    assert sorted(map(repr, found[2])) == sorted(map(repr, expected[2]))


def summed(rows: pa.RecordBatch, states: KeyStates[list[int]]) -> pa.RecordBatch:
    values = list[bytes]()
    for key, count in zip(rows["key"].to_pylist(), rows["count"].to_pylist(), strict=True):
        states[key].append(count)
        values.append(b"%d" % sum(states[key]))
    return pa.RecordBatch.from_pydict({"key": rows["key"], "value": pa.array(values, pa.binary())})


def doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.set_column(1, "count", pc.multiply(rows["count"], 2))


@pytest.mark.parametrize("keyed_first", [True, False])
@given(counts=st.lists(st.integers(0, 9), max_size=6), ends=st.lists(st.integers(0, 6), max_size=2), buckets=st.integers(1, 3))
def test_columnar_steps_follow_with_states(keyed_first: bool, counts: list[int], ends: list[int], buckets: int) -> None:
    app = Pipeline("shop")
    flow = app.source("lines/*")
    rows = flow.key_by().decode_columns(json(Line)) if keyed_first else flow.decode_columns(json(Line)).key_by()
    rows.map_columns(doubled).stateful_columns(summed, list, name="summed").sink("out")
    trial = Trial(app, buckets=buckets)
    messages = [
        Message(b'{"article":"a","count":%d}' % count, b"%d" % (at % 2), stream="lines/0", sequence=at + 1)
        for at, count in enumerate(counts)
    ]
    for batch in cut(messages, ends):
        trial.send(*batch)
    totals = [2 * sum(counts[at % 2 : at + 1 : 2]) for at in range(len(counts))]
    found = sorted((one.key, int(one.value)) for one in trial.written["out"])
    assert found == sorted((b"%d" % (at % 2), total) for at, total in enumerate(totals))


def test_without_a_class_avro_has_the_columns_of_its_schema() -> None:
    app = Pipeline("shop")
    app.source("lines/*").decode_columns(avro(AVRO)).sink("out", encode=payload_of)
    trial = Trial(app)
    trial.send(Message(avro(AVRO).encoder()({"article": "tea", "count": 2, "note": None}), stream="lines/0"))
    assert trial.values("out") == [b"{'article': 'tea', 'count': 2, 'note': None}"]


def test_an_error_names_stream_sequence_and_field() -> None:
    app = Pipeline("shop")
    app.source("lines/*").decode_columns(json(Parcel)).sink("out", encode=payload_of)
    with pytest.raises(
        StepError, match=r"step decode_columns, stream lines/0, sequence 2: .*json\(Parcel\): .* at `\$.lines\[0\].count`"
    ):
        Trial(app).send(
            Message(b'{"id":1,"lines":[]}', stream="lines/0"),
            Message(b'{"id":1,"lines":[{"article":"a","count":"1"}]}', stream="lines/0"),
        )


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda app: app.source("s/*", decode=json(Line)).decode_columns(json(Line)), "must follow a source without decode"),
        (lambda app: app.source("s/*").map(bytes).decode_columns(json(Line)), "must follow a source without decode"),
        (lambda app: app.source("s/*").map_columns(doubled).decode_columns(json(Line)), "must follow a source without decode"),
        (lambda app: app.source("s/*").decode_columns(text), "format: text has no columns"),
        (lambda app: app.source("s/*").decode_columns(json(list[Line])), "format: .*have columns, not"),
        (lambda app: app.source("s/*").decode_columns(Line), "format is a format such as json"),
    ],
)
def test_what_cannot_be_decoded_into_columns_is_refused_when_the_graph_is_built(build: Any, reason: str) -> None:
    def built() -> None:
        app = Pipeline("shop")
        build(app).sink("out")
        Trial(app)

    with pytest.raises(GraphError, match=f"pipeline shop(, |: )step decode_columns.*{reason}"):
        built()

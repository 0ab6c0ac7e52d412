import contextlib
import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from tests.engine.frames import Message, frame

from headrace.engine import SCHEMA, FrameError, codec
from headrace.protocol.v1 import frame_pb2 as pb

small = st.binary(max_size=6)
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | small), max_size=2).map(tuple)
times = st.none() | st.integers(-(2**62), 2**62)


@st.composite
def message_lists(draw: st.DrawFn) -> list[Message]:
    """Messages with rising sequences; whole columns are absent now and then, as connectors leave them out."""
    gaps = draw(st.lists(st.integers(1, 5) | st.just(1), min_size=1, max_size=12))
    sequences = itertools.accumulate(gaps, initial=draw(st.integers(0, 2**62)))
    columns = (st.none() | small, st.none() | small, times, st.none() | st.text(max_size=4), headers)
    value, key, time, identity, header = (draw(st.sampled_from([c, st.just(e)])) for c, e in zip(columns, EMPTY, strict=True))
    return [Message(s, draw(value), draw(key), draw(time), draw(identity), draw(header)) for s in sequences]


EMPTY: tuple[object, ...] = (b"", None, None, None, ())


def rows(batches: list[pa.RecordBatch]) -> list[tuple[object, ...]]:
    found = []
    for batch in batches:
        batch.validate(full=True)
        at = batch.schema.get_field_index("event_time")
        batch = batch.set_column(at, "event_time", batch.column(at).cast(pa.int64()))
        found += [tuple(row.values()) for row in batch.to_pylist()]
    return found


def read(stream: str, part: pb.Frame) -> codec.Columns:
    return codec.columns(stream, part)


@given(st.lists(st.tuples(st.sampled_from(["a/0", "b/1", "ü/2"]), message_lists()), min_size=1, max_size=5))
def test_every_message_becomes_a_row(parts: list[tuple[str, list[Message]]]) -> None:
    found = rows(list(codec.record_batches(read(stream, frame(messages)) for stream, messages in parts)))
    assert found == [m.row(stream) for stream, messages in parts for m in messages]


@given(message_lists(), st.integers(-3, 70), st.integers(-3, 70))
def test_a_cut_holds_what_lies_between(messages: list[Message], low: int, high: int) -> None:
    after, upto = messages[0].sequence + low, messages[0].sequence + high
    part = codec.cut(read("a/0", frame(messages)), after, upto)
    expected = [m for m in messages if after < m.sequence <= upto]
    assert (rows([codec.record_batch([part])]) if part else []) == [m.row("a/0") for m in expected]
    if part:
        assert (part.first, part.last, part.rows) == (expected[0].sequence, expected[-1].sequence, len(expected))


@given(message_lists(), st.data())
def test_cuts_of_a_frame_add_up(messages: list[Message], data: st.DataObject) -> None:
    edge = data.draw(st.integers(messages[0].sequence - 1, messages[-1].sequence + 1))
    whole = read("a/0", frame(messages))
    parts = [p for p in (codec.cut(whole, -1, edge), codec.cut(whole, edge, 2**63 - 1)) if p]
    assert rows(list(codec.record_batches(parts))) == [m.row("a/0") for m in messages]


def test_batches_stay_within_their_limits() -> None:
    parts = [read("a/0", frame([Message(10 * i + j, bytes(1000)) for j in range(10)])) for i in range(2000)]
    batches = list(codec.record_batches(parts))
    assert sum(b.num_rows for b in batches) == 20_000
    assert all(b.num_rows <= codec.MAX_BATCH_ROWS and b.nbytes < 1.2 * codec.MAX_BATCH_BYTES for b in batches)
    assert len(batches) < 8


def test_the_arrow_schema_is_the_one_that_spark_wants() -> None:
    assert to_arrow_schema(SCHEMA, timezone="UTC").equals(codec.SCHEMA)


GOOD = frame([Message(1, b"ab", b"k", 5, "id", (("h", b"x"),)), Message(3, b"c")])


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 0},
        {"count": 3},
        {"values": b"abcd"},
        {"values": b""},
        {"value_lengths": b""},
        {"keys": b"kk"},
        {"key_lengths": b"\x01\0\0\0"},
        {"event_times": b"\0" * 8},
        {"sequence_deltas": b"\0" * 4},
        {"sequence_deltas": b"\1" * 8},
        {"header_counts": b"\x01\0\0\0"},
        {"header_name_lengths": b"\xff" * 4},
        {"message_id_lengths": b"\xfe\xff\xff\xff" * 2},
    ],
    ids=str,
)
def test_columns_that_do_not_add_up_are_refused(changes: dict[str, object]) -> None:
    bad = pb.Frame()
    bad.CopyFrom(GOOD)
    for name, value in changes.items():
        setattr(bad, name, value)
    with pytest.raises(FrameError):
        codec.record_batch([read("a/0", bad)])


@settings(max_examples=200)
@given(st.data())
def test_garbage_is_refused_or_is_a_valid_batch(data: st.DataObject) -> None:
    bad = pb.Frame()
    bad.CopyFrom(GOOD)
    for field in data.draw(st.lists(st.sampled_from([f for f in GOOD.DESCRIPTOR.fields if f.type == f.TYPE_BYTES]), max_size=3)):
        setattr(bad, field.name, data.draw(st.binary(max_size=20)))
    with contextlib.suppress(FrameError):
        codec.record_batch([read("a/0", bad)]).validate()

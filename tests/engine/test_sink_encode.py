"""Rows become frames, and come out of them again as they were."""

import itertools
import tempfile
import traceback
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.disks import disk, fill

from headrace.engine import SCHEMA, SchemaError, codec
from headrace.engine.sink.spool import Spool
from headrace.engine.spark.causes import cause_of
from headrace.protocol.v1 import frame_pb2 as pb
from headrace.protocol.v1.metrics_pb2 import RUN_FAULT_ORIGIN_STORAGE

small = st.binary(max_size=6)
text = st.text(max_size=4)
header = st.fixed_dictionaries({"name": text, "value": st.none() | small})
ENTRY = pa.struct([("name", pa.string()), ("value", pa.binary())])
COLUMNS: dict[str, tuple[list[pa.DataType], st.SearchStrategy[object]]] = {
    "value": ([pa.binary(), pa.large_binary()], st.none() | small),
    "key": ([pa.binary(), pa.large_binary()], st.none() | small),
    "event_time": ([pa.timestamp("us", "UTC"), pa.timestamp("us")], st.none() | st.integers(-(2**62), 2**62)),
    "message_id": ([pa.string(), pa.large_string()], st.none() | text),
    "headers": ([pa.list_(ENTRY), pa.large_list(ENTRY)], st.none() | st.lists(header, max_size=3)),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Slices of record batches, some of whose columns are missing or null throughout."""
    rows = draw(st.integers(0, 12))
    arrays = {}
    for name, (kinds, values) in COLUMNS.items():
        if name == "value" or draw(st.booleans()):
            column = draw(st.lists(draw(st.sampled_from([values, st.none()])), min_size=rows, max_size=rows))
            arrays[name] = pa.array(column, draw(st.sampled_from(kinds)))
    low = draw(st.integers(0, rows))
    return pa.RecordBatch.from_pydict(arrays).slice(low, draw(st.integers(0, rows - low)))


def rows_of(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """The rows of a batch as a sink is to see them."""
    at = batch.schema.get_field_index("event_time")
    if at >= 0:
        batch = batch.set_column(at, "event_time", batch.column(at).cast(pa.int64()))
    empty = {"key": None, "event_time": None, "message_id": None}
    return [{**empty, **row, "headers": row.get("headers") or []} for row in batch.to_pylist()]


def decoded(frames: list[pb.Frame]) -> list[dict[str, object]]:
    rows = [row for frame in frames for row in rows_of(codec.record_batch([codec.columns("", frame)]))]
    assert [row.pop("sequence") for row in rows] == list(range(frames[0].first_sequence, frames[0].first_sequence + len(rows)))
    assert {row.pop("stream") for row in rows} == {""}
    return rows


@given(batches(), st.integers(0, 2**40))
def test_every_row_comes_out_of_its_frames(batch: pa.RecordBatch, first: int) -> None:
    frames = list(codec.frames(batch, first))
    assert (decoded(frames) if frames else []) == rows_of(batch)
    assert sum(frame.count for frame in frames) == batch.num_rows


@given(batches())
def test_what_lies_under_a_null_is_not_sent(batch: pa.RecordBatch) -> None:
    """Arrow lets bytes and list elements lie under a null."""
    hidden = [_hidden(column) for column in batch.columns]
    nulled = pa.RecordBatch.from_arrays(hidden, names=batch.schema.names)
    frames = list(codec.frames(nulled, 0))
    assert (decoded(frames) if frames else []) == rows_of(nulled)


def _hidden(array: pa.Array) -> pa.Array:
    """The array with every other value hidden under a null."""
    if pa.types.is_timestamp(array.type) or array.null_count or not len(array):
        return array
    bits = pa.py_buffer(bytes([0b01010101] * (array.offset + len(array) + 7)))
    buffers = [bits, *array.buffers()[1:3]]
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return pa.Array.from_buffers(array.type, len(array), buffers[:2], offset=array.offset, children=[array.values])
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset)


def test_strings_are_sent_as_utf_8() -> None:
    (frame,) = codec.frames(pa.RecordBatch.from_pydict({"value": ["ä", None, ""], "key": ["k", "", None]}), 5)
    assert (frame.first_sequence, frame.count, frame.sequence_deltas) == (5, 3, b"")
    assert (frame.values, frame.keys) == ("ä".encode(), b"k")
    assert [row["value"] for row in decoded([frame])] == ["ä".encode(), None, b""]


def test_columns_that_are_null_throughout_are_left_out() -> None:
    table = {"value": pa.array([b"v"]), "key": pa.nulls(1, pa.binary()), "message_id": pa.nulls(1, pa.string())}
    table |= {"event_time": pa.nulls(1, pa.timestamp("us")), "headers": pa.array([[]], pa.list_(ENTRY))}
    (frame,) = codec.frames(pa.RecordBatch.from_pydict(table), 0)
    assert {field.name for field, _ in frame.ListFields()} == {"count", "values", "value_lengths"}


def test_frames_stay_within_their_limits() -> None:
    many = list(codec.frames(pa.RecordBatch.from_pydict({"value": pa.array([b""] * 140_000)}), 0))
    assert all(frame.count <= codec.MAX_FRAME_ROWS for frame in many)
    sizes = [10, 2**20 + 5, 10, 600_000, 600_000, 100]
    large = list(codec.frames(pa.RecordBatch.from_pydict({"value": pa.array([bytes(n) for n in sizes])}), 0))
    assert [frame.count for frame in large] == [1, 1, 2, 2]
    assert all(frame.ByteSize() <= codec.MAX_FRAME_BYTES for frame in large if frame.count > 1)
    assert [frame.first_sequence for frame in large] == [0, 1, 2, 4]


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("key binary", ["value", "key", "to_json"]),
        ("value binary, colour string", ["colour", "drop it"]),
        ("value int", ["value", "int", "binary or string"]),
        ("value string, event_time timestamp_ntz", ["event_time", "timestamp_ntz", "timestamp"]),
        ("value string, headers map<string, binary>", ["headers", "map<string,binary>", "array<struct<name"]),
        ("value string, headers array<struct<name: string, value: string>>", ["headers"]),
        ("value string, sequence int", ["sequence", "bigint"]),
        ("value string, value string", ["twice"]),
    ],
)
def test_columns_that_no_sink_takes(spark: SparkSession, schema: str, names: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        codec.check_schema(StructType.fromDDL(schema))
    assert all(name in str(caught.value) for name in names)


def test_the_columns_of_the_source_are_taken(spark: SparkSession) -> None:
    codec.check_schema(SCHEMA)
    codec.check_schema(StructType.fromDDL("value string, key string"))


@pytest.mark.parametrize("entry", [None, {"name": None, "value": b"v"}])
def test_headers_without_a_name_are_refused(entry: object) -> None:
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"v"]), "headers": pa.array([[entry]], pa.list_(ENTRY))})
    with pytest.raises(SchemaError, match="headers"):
        list(codec.frames(batch, 0))


def test_a_spool_that_a_full_disk_does_not_take_names_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does the error of the query, which its driver reports to the gateway."""
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"v" * 1000])})
    with disk(tmp_path / "full", "size=64k") as folder, closing(Spool(memory_bytes=0)) as spool:
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        spool.append(batch)
        filler = fill(folder)
        large = pa.RecordBatch.from_pydict({"value": pa.array([b"v" * 100_000])})
        with pytest.raises(OSError, match="No space left on device") as error:
            spool.append(large)
        filler.unlink()
    said = "".join(traceback.format_exception(error.value))
    assert f"No space left on device: '{folder}'" in said
    cause = cause_of(said)
    assert (cause.origin, cause.about) == (RUN_FAULT_ORIGIN_STORAGE, str(folder))


@given(batches(), st.data())
def test_a_spool_gives_back_what_it_was_given(batch: pa.RecordBatch, data: st.DataObject) -> None:
    count = batch.num_rows
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
    parts = [batch.slice(low, high - low) for low, high in itertools.pairwise([0, *cuts, count])]
    with closing(Spool(memory_bytes=64)) as spool:
        for part in parts:
            spool.append(part)
        assert list(spool) == list(spool) == parts
        assert spool.messages == count
        places = sorted(data.draw(st.sets(st.integers(0, count - 1)))) if count else []
        picked = [row for rows in spool.pick(places) for row in rows_of(rows)]
        assert picked == [rows_of(batch)[place] for place in places]

"""Rows of a table: what a lake takes, and what it refuses with an error that names the field."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from headrace.pipelines import GraphError, Message, OnError, Pipeline, StepError, Trial, TrialError


@dataclass
class Order:
    shop: str
    amount: int | None
    tags: list[str] = field(default_factory=list)
    at: datetime | None = None


class Sale(NamedTuple):
    shop: str
    amount: int


class Count(Struct):
    n: int
    day: date | None = None
    at: datetime | None = None


def lake_of(values: dict[bytes, Any], schema: Any, on_error: OnError = OnError.FAIL) -> tuple[Trial, list[dict[str, Any]]]:
    """The rows that a table receives for values, by their payloads."""
    app = Pipeline("lake", on_error=on_error, dead_letters="failed")
    app.source("o/*").map(lambda message: values[message.value]).lake("table", schema=schema, name="orders")
    trial = Trial(app)
    trial.send(*(Message(payload, stream="o/0") for payload in values))
    return trial, trial.rows("table")


def test_objects_of_classes_and_dicts_become_rows_of_the_schema() -> None:
    at = datetime(2026, 11, 29, tzinfo=UTC)
    _, rows = lake_of({b"a": Order("x", 3, ["new"], at), b"b": Order("y", None)}, Order)
    assert rows == [
        {"shop": "x", "amount": 3, "tags": ["new"], "at": at},
        {"shop": "y", "amount": None, "tags": [], "at": None},
    ]
    schema = pa.schema([("amount", pa.int16()), ("shop", pa.string())])
    _, rows = lake_of({b"a": Sale("x", 3), b"b": {"shop": "y", "amount": 4, "more": 1}}, schema)
    assert rows == [{"amount": 3, "shop": "x"}, {"amount": 4, "shop": "y"}]


def test_a_value_that_does_not_fit_names_stream_sequence_and_field_and_follows_on_error() -> None:
    values = {b"a": Sale("x", 1), b"b": Sale("y", "many"), b"c": Sale("z", 2**70), b"d": Sale("w", 4)}  # type: ignore[arg-type]
    with pytest.raises(StepError, match=r"step orders, stream o/0, sequence 2: ValueError: field amount: .*'many'"):
        lake_of(values, Sale)
    trial, rows = lake_of(values, Sale, OnError.SKIP)
    assert ([row["shop"] for row in rows], trial.counts["skipped", "orders"]) == (["x", "w"], 2)
    trial, rows = lake_of(values, Sale, OnError.DEAD_LETTER)
    assert [row["shop"] for row in rows] == ["x", "w"]
    assert ["sequence 3: ValueError: field amount: " in reason for reason in trial.failed] == [False, True]


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (1.5, pa.int64(), "1.5 is a float, and the column is of type int64"),
        ([1, 2.5], pa.list_(pa.int64()), "2.5 is a float"),
        ({"a": [1.0]}, pa.struct([("a", pa.list_(pa.int8()))]), "1.0 is a float"),
        ({"x": 0.5}, pa.map_(pa.string(), pa.int32()), "0.5 is a float|"),
        (Decimal("1.5"), pa.int64(), ""),
        (datetime(2026, 1, 1, 7, tzinfo=UTC), pa.date32(), "is a datetime, and the column is of type date32"),
        (300, pa.int8(), ""),
        (1e39, pa.float32(), "1e.39 is a float, and the column is of type float, which does not hold all of it"),
        (1e6, pa.float16(), "1000000.0 is a float"),
        (datetime(2026, 1, 1, 7, tzinfo=UTC), pa.date64(), "is a datetime, and the column is of type date64"),
        (
            datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=UTC),
            pa.timestamp("ms", "UTC"),
            "is a datetime, and the column is of type times",
        ),
        (datetime(2026, 1, 1, 0, 0, 0, 1000, tzinfo=UTC), pa.timestamp("s"), "is a datetime"),
        (time(1, 2, 3, 4), pa.time32("s"), "is a time, and the column is of type time32"),
        (time(1, 2, 3, tzinfo=UTC), pa.time64("us"), "is a time, and the column is of type time64"),
        (timedelta(microseconds=5), pa.duration("ms"), "is a timedelta, and the column is of type duration"),
        *((1.5, kind, "1.5 is a float") for kind in (pa.timestamp("us"), pa.date32(), pa.time64("us"), pa.duration("s"))),
        *(
            ([1.5], kind, "1.5 is a float")
            for kind in (pa.large_list(pa.int64()), pa.list_(pa.int64(), 1), pa.list_view(pa.int8()))
        ),
        ({1.5: 1}, pa.map_(pa.int64(), pa.int8()), "1.5 is a float"),
        (1.5, pa.dictionary(pa.int32(), pa.int64()), "1.5 is a float"),
        ("a", pa.float64(), ""),
    ],
)
def test_no_part_of_a_value_is_cut_off(value: Any, kind: pa.DataType, reason: str) -> None:
    with pytest.raises(StepError, match=f"field n: .*{reason}"):
        lake_of({b"a": {"n": value}}, pa.schema([("n", kind)]))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *(
            (number, kind)
            for number in (float("inf"), 3.4028234663852886e38, -1.0, True, 7)
            for kind in (pa.float32(), pa.float64())
        ),
        (65504.0, pa.float16()),
        (date(2026, 1, 1), pa.date64()),
        (datetime(2026, 1, 1, 0, 0, 0, 5000, tzinfo=UTC), pa.timestamp("ms", "UTC")),
        (time(1, 2, 3), pa.time32("s")),
        (timedelta(days=-1), pa.duration("s")),
        (5, pa.timestamp("ns", "UTC")),
        ([None, 1], pa.list_view(pa.int8())),
        ("x", pa.dictionary(pa.int32(), pa.string())),
    ],
)
def test_values_that_a_column_holds_whole_are_taken(value: Any, kind: pa.DataType) -> None:
    _, (row,) = lake_of({b"a": {"n": value}}, pa.schema([("n", kind)]))
    assert pa.array([row["n"]], kind).equals(pa.array([value], kind))


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        (Count(1.5), "is a float, and the column is of type int64"),  # type: ignore[arg-type]
        (Count(1, datetime(2026, 1, 1, 7, tzinfo=UTC)), "is a datetime, and the column is of type date32"),
        (Count(1, at=1.5), "is a float, and the column is of type timestamp"),  # type: ignore[arg-type]
    ],
)
def test_a_struct_as_columns_is_not_cut_off_either(count: Count, reason: str) -> None:
    app = Pipeline("lake")
    app.source("o/*").map(lambda message: count).to_columns(Count).lake("table", schema=Count)
    trial = Trial(app)
    with pytest.raises(StepError, match=reason):
        trial.send(Message(b"", stream="o/0"))


def test_none_where_the_schema_permits_none_and_a_missing_field_are_refused() -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    with pytest.raises(StepError, match="field n is None, and the schema permits no None there"):
        lake_of({b"a": {"n": None}}, schema)
    with pytest.raises(StepError, match="field n is missing"):
        lake_of({b"a": {}}, schema)
    with pytest.raises(StepError, match=r"field n: .*has no attribute 'n'"):
        lake_of({b"a": object()}, schema)


@given(st.lists(st.one_of(st.integers(-5, 5), st.sampled_from(["x", 2**63, None, 1.5])), min_size=1, max_size=40))
def test_exactly_the_values_that_fit_are_written_in_order(values: list[Any]) -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    trial, rows = lake_of({b"%d" % i: {"n": value} for i, value in enumerate(values)}, schema, OnError.SKIP)
    fitting = [value for value in values if isinstance(value, int) and value < 2**63]
    assert [row["n"] for row in rows] == fitting
    assert trial.counts["skipped", "orders"] == len(values) - len(fitting)


def columnar(result: dict[str, Any], schema: pa.Schema, on_error: OnError = OnError.FAIL) -> list[dict[str, Any]]:
    app = Pipeline("lake", on_error=on_error)
    app.source("o/*").map_columns(lambda rows: pa.RecordBatch.from_pydict(result)).lake("table", schema=schema, name="orders")
    trial = Trial(app)
    trial.send(*(Message(b"", stream="o/0") for _ in range(len(next(iter(result.values()))))))
    return trial.rows("table")


def test_columns_are_converted_without_a_loss_and_none_is_dropped_silently() -> None:
    schema = pa.schema([pa.field("n", pa.int8(), nullable=False), pa.field("note", pa.string())])
    assert columnar({"n": [1, 2]}, schema) == [{"n": 1, "note": None}, {"n": 2, "note": None}]
    assert columnar({"n": [1, 200]}, schema, OnError.SKIP) == [{"n": 1, "note": None}]
    with pytest.raises(StepError, match="sequence 2: ValueError: field n: "):
        columnar({"n": [1, 200]}, schema)
    with pytest.raises(StepError, match="field other is not in the schema of the lake: add it there"):
        columnar({"n": [1], "other": [2]}, schema)
    with pytest.raises(StepError, match="field n is missing"):
        columnar({"note": ["a"]}, schema)


def test_messages_become_rows_of_their_own_columns() -> None:
    app = Pipeline("lake")
    app.source("o/*").lake("table", schema=pa.schema([("value", pa.binary()), ("sequence", pa.int64())]))
    trial = Trial(app)
    trial.send(Message(b"a", stream="o/0"), Message(b"b", stream="o/0"))
    assert trial.rows("table") == [{"value": b"a", "sequence": 1}, {"value": b"b", "sequence": 2}]


NO_PLACES = (
    "bucket",
    "bucket/",
    "B/x",
    "/x",
    "bucket//x",
    "bucket/../x",
    "bucket/a b",
    "bucket/a%20b",
    "bucket/?y",
    "u@bucket/x",
)


NO_NODES = ("", "/", "name", "name:9820/", "/x", "name:/x", "name:x/x", "u@name:9820/x", "name:9820/../x")


@pytest.mark.parametrize(
    ("path", "schema", "format", "reason"),
    [
        ("", Order, "parquet", "path is the folder of a table"),
        (7, Order, "parquet", "path is the folder of a table"),
        (
            "s4://x/y",
            Order,
            "parquet",
            "path is a folder on a disk that all workers share, without a scheme, or .*, not 's4://x/y'",
        ),
        (Path("s3://b/x"), Order, "delta", "path: a Path names no place on S3 or HDFS; give it as text"),
        (Path("hdfs://b/x"), Order, "delta", "path: a Path names no place on S3 or HDFS; give it as text"),
        ("hdfs://name:9820/x", Order, "parquet", "use format='delta' for hdfs://name:9820/x"),
        *((f"hdfs://{place}", Order, "delta", "path is 'hdfs://namenode:9820/folder', whose") for place in NO_NODES),
        (
            "s3://bucket/x",
            Order,
            "parquet",
            "shows a micro-batch by renaming its folder on a disk: use format='delta' for s3://bucket/x",
        ),
        *((f"s3a://{place}", Order, "delta", "path is 's3://bucket/folder', whose folders have only") for place in NO_PLACES),
        ("t", Order, "csv", "format is one of 'parquet', 'delta', 'iceberg', not 'csv'"),
        ("t", int, "parquet", "schema: dataclasses, NamedTuples, .* have columns, not int"),
        ("t", pa.schema([]), "parquet", "a table needs at least one column"),
        ("t", pa.schema([("a", pa.int8()), ("A", pa.int8())]), "parquet", "cannot distinguish the column A from a"),
        ("t", pa.schema([("Micro_Batch", pa.int8())]), "parquet", "since each micro-batch has a folder of that name"),
        ("t", pa.schema([("a\n", pa.int8())]), "parquet", "is no name of a column"),
        ("t", pa.schema([("a", pa.list_(pa.uint8()))]), "delta", "field a: tables of format='delta' do not have the type uint8"),
        ("t", pa.schema([("a", pa.timestamp("ns", "UTC"))]), "delta", "do not have the type timestamp"),
        ("t", pa.schema([("a", pa.time64("us"))]), "delta", "do not have the type time64"),
        ("a%20b", pa.schema([("a", pa.int8())]), "delta", "path: deltalake would open another folder than .*/a%20b"),
        ("a\\b", pa.schema([("a", pa.int8())]), "delta", "path: deltalake would open another folder"),
    ],
)
def test_what_is_no_table_is_refused_when_the_graph_is_built(path: Any, schema: Any, format: str, reason: str) -> None:
    numbers = Pipeline("lake").source("o/*", decode=int)
    with pytest.raises(GraphError, match=f"pipeline lake, step lake: .*{reason}"):
        numbers.lake(path, schema=schema, format=format)


@pytest.mark.parametrize(
    ("partition_by", "reason"),
    [
        ("n", r"is a list of columns, such as \['day'\], not 'n'"),
        (7, "is a list of columns"),
        (["m"], "the schema has no column 'm'"),
        ([7], "the schema has no column 7"),
        (["at"], "the column at is of type timestamp.*; texts, signed integers, booleans and dates divide a table"),
        (["x" * 250], "is too long for a folder"),
        (["n", "n"], "names each column once"),
        (["n", "at", "x" * 250], "the column at is of type"),
    ],
)
def test_what_divides_no_table_is_refused_when_the_graph_is_built(partition_by: Any, reason: str) -> None:
    schema = pa.schema([("n", "int64"), ("at", pa.timestamp("us")), ("x" * 250, "int64")])
    with pytest.raises(GraphError, match=f"pipeline lake, step lake: partition_by:? .*{reason}"):
        Pipeline("lake").source("o/*").lake("t", schema=schema, partition_by=partition_by)
    with pytest.raises(GraphError, match="leaves at least one to the files"):
        Pipeline("lake").source("o/*").lake("t", schema=pa.schema([("n", "int8")]), partition_by=["n"])


def test_values_that_name_no_folder_are_refused_and_the_others_of_the_block_are_written() -> None:
    app = Pipeline("lake", on_error=OnError.SKIP)
    values = ["", "a", "__HIVE_DEFAULT_PARTITION__", "é" * 50, None, "b", "x" * 230]
    rows = app.source("o/*", decode=int).map(lambda n: {"n": n, "shop": values[n]})
    rows.lake("t", schema=pa.schema([("n", "int8"), ("shop", "string")]), partition_by=["shop"], name="t")
    trial = Trial(app)
    trial.send(*(Message(b"%d" % n, stream="o/0") for n in range(len(values))))
    assert [row["n"] for row in trial.rows("t")] == [1, 4, 5, 6]
    assert trial.counts["skipped", "t"] == 3


def test_two_steps_that_write_to_one_table_are_refused_and_several_tables_are_not(tmp_path: Path) -> None:
    app = Pipeline("lake")
    numbers = app.source("o/*", decode=int)
    for path in tmp_path / "a", str(tmp_path / "b"), tmp_path / "b" / ".." / "a":
        numbers.map(lambda n: {"n": n}).lake(path, schema=pa.schema([("n", "int64")]))
    with pytest.raises(GraphError, match=r"step lake-3 writes to .*/a, and step lake to .*/a, which are one folder, or"):
        _ = app.graph


@pytest.mark.parametrize("second", ["s3a://bucket/a", "s3://bucket/a/", "s3://bucket/a/b", "s3://bucket/ab", "s3://other/a"])
def test_two_tables_on_s3_are_refused_if_one_is_inside_the_other(second: str) -> None:
    app = Pipeline("lake")
    numbers = app.source("o/*", decode=int)
    for path in "s3://bucket/a", second:
        numbers.map(lambda n: {"n": n}).lake(path, schema=pa.schema([("n", "int64")]), format="delta")
    if second.startswith(("s3a://bucket/a", "s3://bucket/a/")):
        with pytest.raises(GraphError, match=r"step lake-2 writes to s3://bucket/a.*, and step lake to s3://bucket/a, which"):
            _ = app.graph
    else:
        assert list(app.graph.lakes) == ["s3://bucket/a", second]


def test_a_trial_has_the_rows_of_a_table_on_s3() -> None:
    app = Pipeline("lake")
    app.source("o/*", decode=int).map(lambda n: {"n": n}).lake("s3a://b.1/x", schema=pa.schema([("n", "int8")]), format="delta")
    trial = Trial(app)
    trial.send(Message(b"7", stream="o/0"))
    assert trial.rows("s3://b.1/x") == [{"n": 7}]


@pytest.mark.parametrize("second", ["link", "link/../a", "a/b", "link/b", "."])
def test_a_table_that_is_the_folder_of_another_one_by_a_link_or_inside_it_is_refused(tmp_path: Path, second: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    app = Pipeline("lake")
    numbers = app.source("o/*", decode=int)
    for path in "a", second:
        numbers.map(lambda n: {"n": n}).lake(f"{tmp_path}/{path}", schema=pa.schema([("n", "int64")]))
    with pytest.raises(GraphError, match="merge the flows before, or write to a folder beside it"):
        _ = app.graph


SCALARS = [
    *(pa.null(), pa.bool_(), pa.int8(), pa.uint8(), pa.uint64(), pa.float16(), pa.float32(), pa.string(), pa.large_string()),
    *(pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(4), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Berlin")),
    *(pa.duration("us"), pa.month_day_nano_interval(), pa.struct([]), pa.dense_union([pa.field("a", pa.int8())])),
    *(pa.decimal128(10, 2), pa.decimal128(10, -2), pa.decimal256(40, 2), pa.run_end_encoded(pa.int32(), pa.int8()), pa.uuid()),
    pa.dictionary(pa.int32(), pa.string()),
]
KINDS = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda kind: pa.list_(kind, 2)),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        inner.map(lambda kind: pa.struct([("a", kind)])),
    ),
    max_leaves=3,
)


@given(KINDS)
def test_exactly_the_types_that_parquet_has_are_accepted(kind: pa.DataType) -> None:
    schema = pa.schema([("n", kind)])
    try:
        pq.ParquetWriter(pa.BufferOutputStream(), schema).close()
    except (pa.ArrowNotImplementedError, OSError):
        with pytest.raises(GraphError, match="field n: tables of format='parquet' do not have the type"):
            Pipeline("lake").source("o/*").lake("t", schema=schema)
    else:
        Pipeline("lake").source("o/*").lake("t", schema=schema)


def test_a_trial_knows_its_tables() -> None:
    trial, _ = lake_of({b"a": Sale("x", 1)}, Sale)
    with pytest.raises(TrialError, match=r"has no table '.*/other'"):
        trial.rows("other")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "table is the name of an Iceberg table, as catalog.namespace.table such as 'prod.sales.orders', not None"),
        ({"table": "orders"}, "not 'orders'"),
        ({"table": "a..b.c"}, "not 'a..b.c'"),
        ({"table": "a.b.c", "options": {"uri": 7}}, "options is a dict of texts"),
        ({"table": "a.b.c", "options": "uri"}, "options is a dict of texts"),
        ({"format": "delta", "table": "a.b.c"}, "table names a table in a catalog, which only format='iceberg' has"),
        ({"format": "parquet", "options": {"a": "b"}}, "options are for format='delta' and 'iceberg'"),
        ({"table": "a.b.c", "path": "hdfs://name/t"}, "format='iceberg' writes to disks and S3 only: use format='delta'"),
        ({"table": "a.b.c", "path": "a%20b"}, "readers of Iceberg would open another folder than .*a%20b"),
        ({"table": "a.b.c", "file_size": "1023k"}, "file_size is at least 1mb, not '1023k'"),
        ({"table": "a.b.c", "file_size": 0}, "file_size is at least 1mb, not 0"),
        ({"table": "a.b.c", "file_size": "4097mb"}, "file_size is at most 4gb, not '4097mb': S3 moves no larger file"),
        ({"table": "a.b.c", "file_size": 10**5000}, "file_size is at most 4gb, not int\\(...\\)"),
        ({"table": "a.b.c", "file_size": "9" * 5000}, "file_size: '999.* is not a size"),
        ({"table": "a.b.c", "file_size": "big"}, "file_size: 'big' is not a size; write for instance 64mb"),
        ({"table": "a.b.c", "file_size": 1.5}, "file_size must be a whole number, not 1.5"),
        ({"table": "a.b.c", "schema": pa.schema([("n", pa.int8())])}, "tables of format='iceberg' do not have the type int8"),
    ],
)
def test_a_table_or_options_that_the_format_does_not_have_are_refused(more: dict[str, Any], reason: str) -> None:
    given = {"path": "t", "schema": Order, "format": "iceberg", **more}
    with pytest.raises(GraphError, match=reason):
        Pipeline("lake").source("o/*").lake(**given)


def test_options_of_a_lake_are_in_no_text_of_it() -> None:
    app = Pipeline("lake")
    app.source("o/*").lake("t", schema=Order, format="delta", options={"aws_secret_access_key": "hidden"})
    assert "hidden" not in repr(app.graph.lake_steps[0])

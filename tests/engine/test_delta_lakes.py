"""Delta tables that an application writes beside others: each micro-batch is in the log once."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from hypothesis import given, settings
from hypothesis.stateful import Bundle, rule
from tests.engine.lakes import QUERY, SCHEMA, Drivers, lake_at, staged
from tests.engine.one_at_a_time import Stepped
from tests.pipelines.test_lakes import KINDS

from headrace.engine import LakeError
from headrace.engine.checkpoint.lake_batches import joined
from headrace.engine.lakes.delta_lake import DeltaLake
from headrace.engine.lakes.parquet_table import ParquetTable
from headrace.engine.lakes.task_files import TaskFiles
from headrace.engine.sink.writer import Task
from headrace.pipelines import GraphError, Pipeline


def numbers_in_delta(path: Path | str) -> list[int]:
    if not DeltaTable.is_deltatable(str(path)):
        return []
    return sorted(DeltaTable(str(path)).to_pyarrow_table().column("n").to_pylist())


def test_a_micro_batch_is_added_to_a_delta_table_once_beside_another_writer_and_other_readers_find_it(tmp_path: Path) -> None:
    lake, path = lake_at(tmp_path / "t", "delta"), str(tmp_path / "t")
    table, late = DeltaLake(path), DeltaLake(path, sync=True)
    table.prepare(lake.columns.schema)
    table.prepare(lake.columns.schema)
    (written,) = joined([*staged(lake, 0, 1, [1, 2]), *staged(lake, 0, 1, [3], partition=1)])
    assert table.last_visible(QUERY) == -1
    write_deltalake(path, pa.table({"n": [10]}, schema=SCHEMA), mode="append")
    assert [each.show(written) for each in (table, late)] == [True, False]
    DeltaTable(path).optimize.compact()
    assert (late.show(written), late.last_visible(QUERY)) == (False, 0)
    assert numbers_in_delta(tmp_path / "t") == [1, 2, 3, 10]
    found = duckdb.sql(f"select sum(n) from read_parquet({DeltaTable(path).file_uris()!r})").fetchall()
    assert found == [(16,)]


def test_a_delta_table_that_other_writers_overwrite_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, path = lake_at(tmp_path / "t", "delta"), str(tmp_path / "t")
    table = DeltaLake(path)
    table.prepare(lake.columns.schema)
    (written,) = staged(lake, 0, 1, [1])
    before = table._table()
    write_deltalake(path, pa.table({"n": [10]}, schema=SCHEMA), mode="overwrite")
    write_deltalake(path, pa.table({"n": [11]}, schema=SCHEMA), mode="overwrite")
    read = iter([before])
    monkeypatch.setattr(table, "_table", lambda: next(read, None) or DeltaTable(path))
    assert table.show(written)
    assert numbers_in_delta(tmp_path / "t") == [1, 11]


@pytest.mark.parametrize(
    ("present", "wanted", "reason"),
    [
        ([("n", "string")], [("n", "int64")], "has the column n of type .*string.*, and the schema of the application n of"),
        ([("N", "int64")], [("n", "int64")], "has the column N of type"),
        (
            [pa.field("n", pa.int64(), nullable=False)],
            [("n", "int64")],
            "its column n permits no null, and the field may",
        ),
        (
            [pa.field("m", pa.int64(), nullable=False)],
            [("n", "int64")],
            "its column m permits no null, and the schema",
        ),
    ],
)
def test_a_delta_table_with_other_columns_is_refused_before_the_first_micro_batch(
    tmp_path: Path, present: Any, wanted: Any, reason: str
) -> None:
    DeltaTable.create(str(tmp_path), schema=pa.schema(present))
    with pytest.raises(LakeError, match=reason):
        DeltaLake(str(tmp_path)).prepare(pa.schema(wanted))


def test_a_delta_table_gets_the_columns_that_it_lacks_and_a_partitioned_one_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "t"), schema=pa.schema([("n", pa.int64())]))
    DeltaLake(str(tmp_path / "t")).prepare(pa.schema([("m", pa.string()), ("n", pa.int64())]))
    assert [field.name for field in DeltaTable(str(tmp_path / "t")).schema().fields] == ["n", "m"]
    DeltaTable.create(str(tmp_path / "p"), schema=SCHEMA, partition_by=["n"])
    with pytest.raises(LakeError, match="is partitioned by n, and partition_by of the application by nothing: make them equal"):
        DeltaLake(str(tmp_path / "p")).prepare(SCHEMA)


@pytest.mark.parametrize(
    ("configuration", "protocol", "rule", "reason"),
    [
        ({"delta.setTransactionRetentionDuration": "interval 7 days"}, None, None, "may be added twice; remove the property"),
        ({}, {"minReaderVersion": 1, "minWriterVersion": 6}, None, "needs writers of version 6, which lakes do not have"),
        ({}, {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}, None, "the feature rowTracking"),
        ({}, None, {"delta.generationExpression": "m + 1"}, "the rule delta.generationExpression, which lakes do not obey"),
    ],
)
def test_a_delta_table_that_needs_more_than_appends_is_refused_before_the_first_micro_batch(
    tmp_path: Path, configuration: dict[str, str], protocol: Any, rule: Any, reason: str
) -> None:
    columns = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": rule or {}}]}
    DeltaTable.create(str(tmp_path), Schema.from_json(json.dumps(columns)), configuration=dict(configuration))
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    found = (
        [{"protocol": {"readerFeatures": [], **protocol} if protocol["minWriterVersion"] > 6 else protocol}] if protocol else []
    )
    log.write_text("\n".join(map(json.dumps, [*(each for each in entries if not found or "protocol" not in each), *found])))
    with pytest.raises(LakeError, match=reason):
        DeltaLake(str(tmp_path)).prepare(SCHEMA)


def test_a_delta_table_whose_columns_somebody_replaces_gets_the_missing_ones_again_and_no_others(tmp_path: Path) -> None:
    path, table = str(tmp_path / "t"), DeltaLake(str(tmp_path / "t"), sync=True)
    lake = lake_at(tmp_path / "t", "delta")
    table.prepare(SCHEMA)
    (first,), (second,) = staged(lake, 0, 1, [1]), staged(lake, 1, 1, [2])
    write_deltalake(path, pa.table({"m": ["x"]}), mode="overwrite", schema_mode="overwrite")
    assert table.show(first)
    assert DeltaTable(path).to_pyarrow_table().sort_by("n").to_pylist() == [{"m": None, "n": 1}, {"m": "x", "n": None}]
    write_deltalake(path, pa.table({"n": ["x"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(LakeError, match=r"has the column n of type .*string"):
        table.show(second)
    assert (tmp_path / "t" / "_headrace" / "staged" / second.files[0].name).exists(), "a vacuum does not find it"


NESTED = pa.schema(
    [
        pa.field(
            "s", pa.struct([("a", pa.list_(pa.struct([("b", pa.timestamp("us", "UTC"))]))), ("m", pa.map_("string", "int8"))])
        ),
        pa.field("d", pa.decimal128(10, 2), nullable=False),
        ("t", pa.timestamp("us")),
        ("x", pa.dictionary(pa.int32(), pa.large_string())),
        ("f", pa.binary(3)),
    ]
)


@given(KINDS)
def test_the_types_that_a_delta_table_accepts_are_those_of_its_own_log(kind: pa.DataType) -> None:
    schema = pa.schema([("n", kind)])
    try:
        Pipeline("lake").source("o/*").lake("t", schema=schema, format="delta")
    except GraphError:
        return
    named = Schema.from_arrow(schema).to_json()
    assert not any(word in named for word in ("void", "nanos")), "no standard type of Delta"


def test_nested_columns_are_the_same_in_a_file_and_in_the_log(tmp_path: Path) -> None:
    app = Pipeline("lake")
    app.source("n/*").lake(tmp_path / "t", schema=NESTED, format="delta")
    (lake,) = app.graph.lake_steps
    table = DeltaLake(lake.path)
    table.prepare(lake.columns.schema)
    row = {
        "s": {"a": [{"b": datetime(2026, 11, 29, tzinfo=UTC)}], "m": [("k", 1)]},
        "d": Decimal("1.25"),
        "t": datetime(2026, 11, 29, tzinfo=UTC).replace(tzinfo=None),
        "x": "y",
        "f": b"abc",
    }
    with TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=False) as files:
        files.write(lake.path, pa.RecordBatch.from_pylist([row], schema=lake.columns.schema))
        (written,) = files.finish()
    assert table.show(written)
    assert DeltaTable(lake.path).to_pyarrow_table().to_pylist() == [row]


def test_a_copy_of_a_checkpoint_that_writes_to_the_same_delta_table_is_refused(tmp_path: Path) -> None:
    lake, table = lake_at(tmp_path, "delta"), DeltaLake(str(tmp_path))
    table.prepare(SCHEMA)
    (written,), (copied,) = staged(lake, 0, 1, [1]), staged(lake, 0, 1, [2])
    assert table.show(written)
    with pytest.raises(LakeError, match=r"has another micro-batch 0 .* a copy of the checkpoint writes to the table"):
        table.show(copied)


def test_a_log_that_cannot_be_read_and_a_folder_of_parquet_files_are_named(tmp_path: Path) -> None:
    DeltaLake(str(tmp_path / "a")).prepare(SCHEMA)
    (tmp_path / "a" / "_delta_log" / f"{0:020}.json").write_text("{oops")
    with pytest.raises(LakeError, match="a: its log cannot be read: Kernel error"):
        DeltaLake(str(tmp_path / "a")).last_visible(QUERY)
    (written,) = staged(lake_at(tmp_path / "b"), 0, 1, [1])
    ParquetTable(str(tmp_path / "b")).show(written)
    with pytest.raises(LakeError, match="has files of format='parquet'"):
        DeltaLake(str(tmp_path / "b")).prepare(SCHEMA)
    DeltaLake(str(tmp_path / "c")).prepare(SCHEMA)
    with pytest.raises(LakeError, match="is a Delta table, which does not know files of format='parquet'"):
        ParquetTable(str(tmp_path / "c")).prepare(SCHEMA)


class DriversOnDelta(Drivers):
    """The same on a Delta table, with another writer."""

    drivers: Bundle[Stepped] = Drivers.drivers
    format = "delta"

    @rule()
    def somebody_compacts(self) -> None:
        if DeltaTable.is_deltatable(str(self.table)):
            DeltaTable(str(self.table)).optimize.compact()

    @rule()
    def somebody_appends(self) -> None:
        if DeltaTable.is_deltatable(str(self.table)):
            of_partitions = {name: ["odd"] for name in self.lake.partition_by}
            write_deltalake(str(self.table), pa.table({"n": [-1], **of_partitions}), mode="append")

    def numbers(self) -> list[int]:
        return [number for number in numbers_in_delta(self.table) if number >= 0]


TestDriversOnDelta = DriversOnDelta.TestCase
TestDriversOnDelta.settings = settings(deadline=None, max_examples=15, stateful_step_count=20, derandomize=True)

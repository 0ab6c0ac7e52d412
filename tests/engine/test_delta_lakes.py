"""Delta tables that an application writes beside others: each micro-batch is in the log once."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import settings
from hypothesis.stateful import Bundle, rule
from tests.engine.lakes import QUERY, SCHEMA, Drivers, lake_at, staged
from tests.engine.one_at_a_time import Stepped

from headrace.engine import LakeError
from headrace.engine.checkpoint.lake_batches import joined
from headrace.engine.lakes.delta_lake import DeltaLake


def numbers_in_delta(path: Path) -> list[int]:
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
    with pytest.raises(LakeError, match="is partitioned by n: use a table without partitions"):
        DeltaLake(str(tmp_path / "p")).prepare(SCHEMA)


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
            write_deltalake(str(self.table), pa.table({"n": [-1]}, schema=SCHEMA), mode="append")

    def numbers(self) -> list[int]:
        return [number for number in numbers_in_delta(self.table) if number >= 0]


TestDriversOnDelta = DriversOnDelta.TestCase
TestDriversOnDelta.settings = settings(deadline=None, max_examples=15, stateful_step_count=20, derandomize=True)

"""Iceberg tables that an application writes beside others: each micro-batch is in the table once."""

import itertools
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis.stateful import Bundle, rule
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from tests.engine.lakes import QUERY, SCHEMA, Drivers, lake_at, showing, staged
from tests.engine.one_at_a_time import Stepped
from tests.pipelines.test_lakes import KINDS

from headrace.engine import LakeError, OlderCheckpoint
from headrace.engine.checkpoint.lake_batches import joined
from headrace.engine.lakes import iceberg_lake
from headrace.engine.lakes.iceberg_lake import IcebergLake
from headrace.engine.lakes.places import Place, place_of
from headrace.engine.lakes.task_files import TaskFiles
from headrace.engine.sink.writer import Task
from headrace.pipelines import GraphError, Pipeline
from headrace.pipelines.runtime import Lake

NAME = ("lake", "numbers")


def catalog_of(lake: Lake) -> Catalog:
    return SqlCatalog("test", **lake.options)


def table_of(lake: Lake) -> Table:
    return catalog_of(lake).load_table(NAME)


def numbers_in_iceberg(lake: Lake) -> list[int]:
    return sorted(table_of(lake).scan().to_arrow().column("n").to_pylist())


def expire(table: Table) -> None:
    """Has a table forget all snapshots but the last one."""
    if len(table.snapshots()) > 1:
        table.maintenance.expire_snapshots().older_than(datetime(2100, 1, 1, tzinfo=UTC)).commit()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_at(tmp_path / "a table", "iceberg")


def test_a_micro_batch_is_appended_once_beside_another_writer_and_other_readers_find_it(lake: Lake) -> None:
    table, late = IcebergLake(place_of(lake)), IcebergLake(place_of(lake), sync=True)
    table.prepare(lake.columns.schema)
    table.prepare(lake.columns.schema)
    (written,) = joined([*staged(lake, 0, 1, [1, 2]), *staged(lake, 0, 1, [3], partition=1)])
    assert table.last_visible(QUERY) == -1
    table_of(lake).append(pa.table({"n": [10]}, schema=SCHEMA))
    assert [each.show(written) for each in (table, late)] == [True, False]
    found = table_of(lake)
    files = [task.file.file_path.removeprefix("file://") for task in found.scan().plan_files()]
    assert duckdb.sql(f"select sum(n) from read_parquet({files!r})").fetchall() == [(16,)]
    assert found.scan("n > 2").to_arrow().sort_by("n")["n"].to_pylist() == [3, 10]
    assert len(list(found.scan("n > 2").plan_files())) == 2, "bounds of the files are known"
    (second,) = staged(lake, 1, 1, [4])
    assert late.show(second)
    assert numbers_in_iceberg(lake) == [1, 2, 3, 4, 10]


def test_a_mark_outlives_the_snapshots_and_each_of_both_marks_suffices(lake: Lake) -> None:
    table = IcebergLake(place_of(lake))
    table.prepare(SCHEMA)
    (written,) = staged(lake, 3, 1, [1])
    assert table.show(written)
    (name,) = {name for name in table_of(lake).properties if name.startswith("headrace.")}
    table_of(lake).append(pa.table({"n": [10]}, schema=SCHEMA))
    expire(table_of(lake))
    assert not any(name in str(snapshot.summary) for snapshot in table_of(lake).snapshots())
    assert (table.last_visible(QUERY), table.show(written)) == (3, False)
    (later,) = staged(lake, 4, 1, [2])
    assert table.show(later)
    with table_of(lake).transaction() as transaction:
        transaction.remove_properties(name)
    assert (table.last_visible(QUERY), table.show(later)) == (4, False)
    assert numbers_in_iceberg(lake) == [1, 2, 10]


def test_a_commit_that_another_one_was_faster_than_is_not_repeated_without_a_look_at_the_mark(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = IcebergLake(place_of(lake)), IcebergLake(place_of(lake))
    table.prepare(SCHEMA)
    with table_of(lake).transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "9"})
    (written,) = staged(lake, 0, 1, [1])
    before = table._table()
    assert other.show(written)
    read = iter([before])
    monkeypatch.setattr(table, "_table", lambda: next(read, None) or table_of(lake))
    assert not table.show(written)
    assert numbers_in_iceberg(lake) == [1]
    assert table_of(lake).properties["commit.retry.num-retries"] == "9"


NESTED = pa.schema(
    [
        pa.field(
            "s", pa.struct([("a", pa.list_(pa.struct([("b", pa.timestamp("us", "UTC"))]))), ("m", pa.map_("string", "int32"))])
        ),
        pa.field("d", pa.decimal128(10, 2), nullable=False),
        ("t", pa.timestamp("us")),
        ("x", pa.dictionary(pa.int32(), pa.large_string())),
        ("f", pa.binary(3)),
    ]
)


def lake_of(path: Path, schema: pa.Schema, **more: Any) -> Lake:
    app = Pipeline("lake")
    options = {"type": "sql", "uri": f"sqlite:///{path}.catalog"}
    app.source("n/*").lake(path, schema=schema, format="iceberg", table="test.lake.numbers", options=options, **more)
    return app.graph.lake_steps[0]


def test_nested_columns_are_the_same_in_a_file_and_in_the_table(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "t", NESTED)
    table = IcebergLake(place_of(lake))
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
    assert table_of(lake).scan().to_arrow().to_pylist() == [row]


@settings(deadline=None, max_examples=60)
@given(KINDS)
def test_readers_find_the_types_that_an_iceberg_table_accepts(
    tmp_path_factory: pytest.TempPathFactory, kind: pa.DataType
) -> None:
    try:
        lake = lake_of(tmp_path_factory.mktemp("types") / "t", pa.schema([("n", kind)]))
    except GraphError:
        return
    table = IcebergLake(place_of(lake))
    table.prepare(lake.columns.schema)
    with TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=False) as files:
        files.write(lake.path, pa.RecordBatch.from_pylist([{"n": None}], schema=lake.columns.schema))
        (written,) = files.finish()
    assert table.show(written)
    table.prepare(lake.columns.schema)
    assert table_of(lake).scan().to_arrow().num_rows == 1


def test_partitions_have_the_values_of_their_folders_and_readers_need_no_other_files(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("t", pa.string()), ("i", pa.int32()), ("b", pa.bool_()), ("d", pa.date32())])
    lake = lake_of(tmp_path / "t", schema, partition_by=["t", "i", "b", "d"])
    table = IcebergLake(place_of(lake))
    table.prepare(lake.columns.schema, lake.partition_by)
    day = datetime(2026, 11, 30, tzinfo=UTC).date()
    rows = [
        {"n": 1, "t": "a/ü", "i": -3, "b": True, "d": day},
        {"n": 2, "t": None, "i": None, "b": None, "d": None},
        {"n": 3, "t": "01", "i": 7, "b": False, "d": day},
    ]
    with TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=False) as files:
        files.write(lake.path, pa.RecordBatch.from_pylist(rows, schema=lake.columns.schema))
        (written,) = files.finish()
    assert table.show(written)
    found = table_of(lake)
    assert found.scan().to_arrow().sort_by("n").to_pylist() == rows
    assert len(list(found.scan("t == '01'").plan_files())) == 1
    with pytest.raises(LakeError, match=r"is partitioned by identity\(t\).*and partition_by of the application by n: make them"):
        table.prepare(lake.columns.schema, ["n"])


def test_a_table_gets_the_columns_that_it_lacks_also_if_somebody_replaces_them(lake: Lake) -> None:
    table = IcebergLake(place_of(lake))
    table.prepare(SCHEMA)
    (first,) = staged(lake, 0, 1, [1])
    with table_of(lake).update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("n")
        update.union_by_name(pa.schema([("m", pa.string())]))
    assert table.show(first)
    table.prepare(pa.schema([("k", pa.int32()), *SCHEMA]))
    assert table_of(lake).scan().to_arrow().to_pylist() == [{"m": None, "n": 1, "k": None}]
    with pytest.raises(LakeError, match=r"has the column n of type int64, and the schema of the application n of type string"):
        table.prepare(pa.schema([("n", pa.string())]))
    with pytest.raises(LakeError, match="lacks the column z: only a field that may be None can be added"):
        table.prepare(pa.schema([*SCHEMA, pa.field("z", pa.int64(), nullable=False)]))


def test_a_table_elsewhere_an_older_checkpoint_a_copied_one_and_a_lost_file_are_refused(lake: Lake, tmp_path: Path) -> None:
    table = IcebergLake(place_of(lake))
    table.prepare(SCHEMA)
    (written,), (copied,), (lost,) = staged(lake, 0, 1, [1]), staged(lake, 0, 1, [2]), staged(lake, 1, 1, [3])
    assert table.show(written)
    with pytest.raises(LakeError, match=r"has another micro-batch 0 .* a copy of the checkpoint writes to the table"):
        table.show(copied)
    with pytest.raises(OlderCheckpoint, match="has micro-batch 0 of this query, and the checkpoint continues with 0"):
        showing([lake], tmp_path).resume(QUERY, 0, (), 2)
    table.staging.discard(lost.files[0].name)
    with pytest.raises(LakeError, match=f"micro-batch 1 .* is committed, and its file {lost.files[0].name} is gone or damaged"):
        table.show(lost)
    elsewhere = IcebergLake(Place(str(tmp_path / "b"), "iceberg", lake.table, lake.options))
    with pytest.raises(LakeError, match=r"the table test.lake.numbers is at file://.*a table: make path that folder"):
        elsewhere.prepare(SCHEMA)
    catalog_of(lake).drop_table(NAME)
    with pytest.raises(LakeError, match=r"its catalog no longer has the table test.lake.numbers; restore the table"):
        table.show(lost)


def test_a_catalog_that_fails_and_one_that_is_no_longer_known_are_named(tmp_path: Path, lake: Lake) -> None:
    away = IcebergLake(Place(str(tmp_path), "iceberg", "a.b.c", {"type": "sql", "uri": f"sqlite:///{tmp_path}/none/catalog"}))
    with pytest.raises(LakeError, match=r"its catalog cannot be read: OperationalError: .*unable to open database file"):
        away.last_visible(QUERY)
    table = IcebergLake(place_of(lake))
    table.prepare(SCHEMA)
    (written,) = staged(lake, 0, 1, [1])
    with pytest.raises(LakeError, match="no longer writes to it, so that its catalog is not known"):
        showing([], tmp_path).resume(QUERY, 1, [written], 2)


def endless(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> IcebergLake:
    """A table whose catalog answers the same again and again."""
    made, calls = object.__new__(IcebergLake), itertools.count()

    def answer(name: str) -> Any:
        assert next(calls) < 1_000, "it never ends"
        return answers[name]

    made._path = "/lake"
    staging = SimpleNamespace(check_table=lambda batch: None, columns_of=lambda name: "columns")
    monkeypatch.setattr(made, "staging", staging, raising=False)
    monkeypatch.setattr(iceberg_lake, "_mark_in", lambda table, query: -1)
    for name in ("_table", "_check", "_create", "_add_columns"):
        monkeypatch.setattr(made, name, lambda *_, name=name: answer(name))
    return made


def test_a_catalog_that_never_gives_back_what_it_accepts_ends_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    never_there = endless(monkeypatch, _table=None, _create=None)
    with pytest.raises(LakeError, match="its columns cannot be prepared"):
        never_there.prepare(pa.schema([("n", pa.int64())]))
    other_columns = endless(monkeypatch, _table=object(), _check=None, _add_columns=True)
    batch: Any = SimpleNamespace(files=[SimpleNamespace(folder="", name="one")], query="q", batch=1)
    with pytest.raises(LakeError, match="micro-batch 1 is committed, and cannot be appended"):
        other_columns.show(batch)


class DriversOnIceberg(Drivers):
    """The same on an Iceberg table, with another writer, whose snapshots expire. Requests to the catalog pause, too."""

    drivers: Bundle[Stepped] = Drivers.drivers
    format = "iceberg"

    def __init__(self) -> None:
        super().__init__()
        for name in "load_table", "commit_table":
            self.patched.setattr(SqlCatalog, name, self._pausing(getattr(SqlCatalog, name)))

    def _pausing(self, call: Any) -> Any:
        def paused(*arguments: Any, **others: Any) -> Any:
            self.os.pause()
            return call(*arguments, **others)

        return paused

    def _table(self) -> Table | None:
        try:
            return table_of(self.lake)
        except NoSuchTableError:
            return None

    @rule()
    def somebody_compacts(self) -> None:
        if (table := self._table()) is not None and table.current_snapshot() is not None:
            table.overwrite(table.scan().to_arrow())

    @rule()
    def somebody_appends(self) -> None:
        if (table := self._table()) is not None:
            of_partitions = {name: ["odd"] for name in self.lake.partition_by}
            table.append(pa.table({"n": [-1], **of_partitions}))

    @rule()
    def snapshots_expire(self) -> None:
        if (table := self._table()) is not None:
            expire(table)

    def numbers(self) -> list[int]:
        table = self._table()
        found = [] if table is None else table.scan().to_arrow().column("n").to_pylist()
        return [number for number in found if number >= 0]


TestDriversOnIceberg = DriversOnIceberg.TestCase
TestDriversOnIceberg.settings = settings(deadline=None, max_examples=15, stateful_step_count=20, derandomize=True)

"""Joining files of Iceberg tables: beside other writers, and killed between any two steps."""

from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from tests.cli.json_shape import result_of
from tests.engine.lakes import QUERY, SCHEMA, lake_at, staged
from tests.engine.test_iceberg_lakes import lake_of, numbers_in_iceberg, table_of

from headrace.cli import cli
from headrace.engine import LakeError, compact_lake
from headrace.engine.lakes.compaction import Compaction
from headrace.engine.lakes.iceberg_lake import IcebergLake
from headrace.engine.lakes.places import place_of
from headrace.engine.lakes.task_files import TaskFiles
from headrace.engine.sink.writer import Task
from headrace.pipelines.runtime import Lake

NAME = "iceberg:test.lake.numbers"
SIZE = 1 << 20


class Killed(BaseException):
    """The process is no longer there."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table with a file for each of four micro-batches."""
    lake = lake_at(tmp_path / "t", "iceberg")
    table = IcebergLake(place_of(lake))
    table.prepare(SCHEMA)
    for batch in range(4):
        assert table.show(staged(lake, batch, 1, [batch])[0])
    return lake


def compact(lake: Lake, size: int = SIZE) -> Compaction:
    return compact_lake(NAME, file_bytes=size, options=lake.options)


def files_of(table: Table) -> list[str]:
    return sorted(task.file.file_path.removeprefix("file://") for task in table.scan().plan_files())


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["n"], str(row["shop"])))


def on_disk(lake: Lake) -> set[str]:
    return {str(path) for path in Path(lake.path, "data").glob("headrace-compacted-*")}


def test_files_of_each_partition_are_joined_with_the_columns_that_older_ones_lack_and_the_application_continues(
    tmp_path: Path,
) -> None:
    schema = pa.schema([("n", pa.int64()), ("shop", pa.string()), ("day", pa.date32()), ("open", pa.bool_())])
    lake = lake_of(tmp_path / "t", schema, partition_by=["shop", "day", "open"])
    table, rows = IcebergLake(place_of(lake)), []
    table.prepare(lake.columns.schema, lake.partition_by)
    for batch in range(6):
        if batch == 3:
            schema = schema.append(pa.field("more", pa.list_(pa.string())))
            lake = lake_of(tmp_path / "t", schema, partition_by=["shop", "day", "open"])
            table.prepare(lake.columns.schema, lake.partition_by)
        some = [
            {"n": batch, "shop": shop, "day": day, "open": is_open, "more": ["x"]}
            for shop, day, is_open in (("a/ü=%", date(2026, 1, 2), True), (None, None, None), ("01", date(1969, 1, 2), False))
        ]
        some = [{name: row[name] for name in schema.names} for row in some]
        rows += [{"more": None, **row} for row in some]
        with TaskFiles([lake], Task(QUERY, "run", batch, 0, 1), sync=False) as files:
            files.write(lake.path, pa.RecordBatch.from_pylist(some, schema=lake.columns.schema))
            (written,) = files.finish()
        assert batch == 5 or table.show(written)
    assert compact(lake) == Compaction(15, 3)
    assert (table.last_visible(QUERY), table.show(written), table.show(written)) == (4, True, False)
    found = table_of(lake)
    assert in_order(found.scan().to_arrow().to_pylist()) == in_order(rows)
    assert len(list(found.scan("shop == '01' and n < 5").plan_files())) == 1
    assert found.scan("day is null").to_arrow().num_rows == 6
    assert compact(lake) == Compaction(6, 3)
    assert compact(lake) == Compaction(0, 0)
    assert in_order(table_of(lake).scan().to_arrow().to_pylist()) == in_order(rows)


def test_files_are_joined_up_to_the_size(lake: Lake) -> None:
    size = max(Path(file).stat().st_size for file in files_of(table_of(lake)))
    assert compact(lake, size // 2) == Compaction(0, 0)
    assert compact(lake, 2 * size) == Compaction(4, 2)
    assert numbers_in_iceberg(lake) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "done", "expected"),
    [
        (lambda table: table.append(pa.table({"n": [9]}, schema=SCHEMA)), Compaction(4, 1), [0, 1, 2, 3, 9]),
        (lambda table: table.delete("n = 2"), Compaction(0, 0), [0, 1, 3]),
    ],
    ids=["appends", "deletes"],
)
def test_a_writer_who_is_faster_loses_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, change: Callable[[Table], None], done: Compaction, expected: list[int]
) -> None:
    commit, changes = SqlCatalog.commit_table, [change]

    def beaten(catalog: SqlCatalog, *arguments: Any) -> Any:
        if changes:
            changes.pop()(table_of(lake))
        return commit(catalog, *arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", beaten)
    assert compact(lake) == done
    assert numbers_in_iceberg(lake) == expected
    assert on_disk(lake) <= set(files_of(table_of(lake))), "what is not part of the table is deleted"


def test_a_compaction_that_is_killed_before_or_behind_any_request_changes_no_row(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = 0

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    def killing(call: Any) -> Any:
        def asked(*arguments: Any, **others: Any) -> Any:
            step()
            answer = call(*arguments, **others)
            step()
            return answer

        return asked

    rows, kills = [0, 1, 2, 3], 0
    while kills < 100:
        with monkeypatch.context() as patched, suppress(Killed):
            for owner, name in (PyArrowFileIO, "new_output"), (SqlCatalog, "load_table"), (SqlCatalog, "commit_table"):
                patched.setattr(owner, name, killing(getattr(owner, name)))
            patched.setattr(PyArrowFileIO, "delete", lambda *_: None)  # A killed process deletes nothing.
            left = kills + 1
            assert compact(lake).written == 1
            break
        kills += 1
        assert numbers_in_iceberg(lake) == rows, f"killed at step {kills}"
        rows.append(rows[-1] + 1)
        table_of(lake).append(pa.table({"n": [rows[-1]]}, schema=SCHEMA))
    assert 8 < kills < 100
    assert (numbers_in_iceberg(lake), len(files_of(table_of(lake)))) == (rows, 1)


def test_a_commit_whose_answer_is_lost_counts(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = SqlCatalog.commit_table

    def unanswered(catalog: SqlCatalog, *arguments: Any) -> Any:
        commit(catalog, *arguments)
        raise CommitStateUnknownException("cut")

    monkeypatch.setattr(SqlCatalog, "commit_table", unanswered)
    assert compact(lake) == Compaction(4, 1)
    assert (numbers_in_iceberg(lake), len(on_disk(lake))) == ([0, 1, 2, 3], 1)


def test_the_command_takes_the_properties_of_the_catalog_and_names_a_table_that_is_not_there(lake: Lake) -> None:
    options = [word for name, value in lake.options.items() for word in ("--option", f"{name}={value}")]
    said = CliRunner().invoke(cli, ["lake", "compact", NAME, "--json", *options])
    assert result_of(said.stdout)["tables"] == [{"path": NAME, "read": 4, "written": 1}]
    with pytest.raises(LakeError, match=r"lake iceberg:test.lake.none: it cannot be compacted: NoSuchTableError"):
        compact_lake("iceberg:test.lake.none", file_bytes=SIZE, options=lake.options)

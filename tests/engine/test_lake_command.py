"""`headrace lake compact`: joins small files of Delta tables while applications write, and refuses other tables."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable
from tests.cli.json_shape import result_of
from tests.engine.lakes import QUERY, SCHEMA, lake_at, staged
from tests.engine.test_delta_lakes import numbers_in_delta

from headrace.cli import cli
from headrace.engine.lakes.delta_lake import DeltaLake
from headrace.engine.lakes.iceberg_lake import IcebergLake
from headrace.engine.lakes.parquet_table import ParquetTable
from headrace.engine.lakes.places import place_of


def compact(*words: str) -> Result:
    return CliRunner().invoke(cli, ["lake", "compact", *words])


def written(path: Path, batches: int) -> DeltaLake:
    """A table with a file for each micro-batch."""
    table = DeltaLake(str(path))
    table.prepare(SCHEMA)
    for batch in range(batches):
        assert table.show(staged(lake_at(path, "delta"), batch, 1, [batch])[0])
    return table


def test_small_files_of_several_tables_are_joined_and_marks_and_staged_files_stay(tmp_path: Path) -> None:
    tables = [written(tmp_path / name, 3) for name in "ab"]
    (late,) = staged(lake_at(tmp_path / "a", "delta"), 3, 1, [3])
    said = compact(str(tmp_path / "a"), str(tmp_path / "b"), "--json")
    assert result_of(said.stdout)["tables"] == [{"path": str(tmp_path / name), "read": 3, "written": 1} for name in "ab"]
    assert [table.last_visible(QUERY) for table in tables] == [2, 2]
    assert tables[0].show(late)
    assert numbers_in_delta(tmp_path / "a") == [0, 1, 2, 3]
    assert len(DeltaTable(str(tmp_path / "a")).file_uris()) == 2
    assert compact(str(tmp_path / "b")).output == f"{tmp_path / 'b'}: has no small files to join\n"


@pytest.mark.parametrize("form", ["parquet", "iceberg", "none"])
def test_a_table_without_a_log_of_delta_is_refused_and_stays_as_it_was(tmp_path: Path, form: str) -> None:
    path = tmp_path / "t"
    reason = "there is no Delta table"
    if form == "parquet":
        ParquetTable(str(path)).show(staged(lake_at(path), 0, 1, [1])[0])
        reason = "has files of format='parquet' and no log: readers would find rows twice"
    elif form == "iceberg":
        lake = lake_at(path, "iceberg")
        IcebergLake(place_of(lake)).prepare(SCHEMA)
        reason = "name it as iceberg:CATALOG.NAMESPACE.TABLE"
    before = sorted(path.rglob("*"))
    said = compact(str(path))
    assert (said.exit_code, reason in said.output.replace("\n", " ")) == (1, True), said.output
    assert sorted(path.rglob("*")) == before


def test_an_option_without_a_value_is_refused(tmp_path: Path) -> None:
    said = compact(str(tmp_path), "--option", "aws_region")
    assert (said.exit_code, "--option aws_region: write NAME=VALUE" in said.output) == (2, True)

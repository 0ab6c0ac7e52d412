"""`headrace lake compact`: joins small files of Delta tables while applications write, and refuses other tables."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
from headrace.engine.lakes.tables import open_table


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


def test_a_table_that_fails_keeps_no_other_from_being_compacted(tmp_path: Path) -> None:
    for name in "ac":
        written(tmp_path / name, 2)
    said = compact(str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "c"), "--json")
    document = json.loads(said.stdout)
    assert (said.exit_code, document["ok"], document["summary"]) == (1, False, "2 tables compacted, 1 failed")
    assert document["error"] == f"lake {tmp_path / 'b'}: there is no Delta table"
    assert [table["written"] for table in document["result"]["tables"]] == [1, 1]


_WITHOUT_RIGHTS = """
import ctypes, os, sys
from headrace.cli import cli
from headrace.engine.lakes import compaction
from pyiceberg.catalog import load_catalog
import deltalake, pyiceberg.io.pyarrow, pyiceberg.io.fsspec
load_catalog("imports", type="sql", uri="sqlite://")
if os.geteuid() == 0:
    ctypes.CDLL(None).setfsuid(65534)  # Threads that begin from now on inherit it.
cli(sys.argv[1:])
"""


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_that_may_not_be_written_is_named_and_stays_as_it_was(tmp_path: Path, form: str) -> None:
    lake = lake_at(tmp_path / "t", form)
    table = open_table(place_of(lake))
    table.prepare(SCHEMA)
    for batch in range(2):
        table.show(staged(lake, batch, 1, [batch])[0])
    options = [word for name, value in lake.options.items() for word in ("--option", f"{name}={value}")]
    path = f"iceberg:{lake.table}" if form == "iceberg" else lake.path
    before = sorted(tmp_path.rglob("*"))
    with only_readable(tmp_path):
        command = [sys.executable, "-c", _WITHOUT_RIGHTS, "lake", "compact", path, *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    said = " ".join(done.stderr.split())
    assert done.returncode == 1, said
    assert f"Error: lake {path}: it cannot be compacted: " in said
    assert "denied" in said
    assert "Traceback" not in said
    assert sorted(tmp_path.rglob("*")) == before


@contextmanager
def only_readable(folder: Path) -> Iterator[None]:
    """Everybody may read a folder, and others than root may not write in it; the modes are as before afterwards."""
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"), *folder.parents)}
    for path, mode in modes.items():
        if path in folder.parents:
            if not mode & 0o001:
                path.chmod(mode | 0o011)
        else:
            path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)

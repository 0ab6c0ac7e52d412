"""Tables in partitions: readers find each value, whatever its text is, and a table stays divided as it was."""

import random
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.lakes import QUERY, lake_at, staged

from headrace.engine import LakeError
from headrace.engine.lakes.places import place_of
from headrace.engine.lakes.tables import open_table
from headrace.engine.lakes.task_files import TaskFiles
from headrace.engine.sink.writer import Task
from headrace.pipelines import Pipeline
from headrace.pipelines.runtime import Lake

COLUMNS = pa.schema([("shop", pa.string()), ("n", pa.int64()), ("size", pa.int8()), ("is_new", pa.bool_()), ("day", pa.date32())])
DIVIDED_BY = ["shop", "size", "is_new", "day"]
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
DAYS = st.dates(date(1, 1, 1), date(9999, 12, 31))
ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["a", "a/b=c", ".", "..", "%20 %", "_x", "é"]) | TEXTS,
        st.integers(0, 9),
        st.none() | st.integers(-128, 127),
        st.none() | st.booleans(),
        st.none() | DAYS,
    ).map(lambda values: dict(zip(COLUMNS.names, values, strict=True))),
    min_size=1,
    max_size=8,
)


def divided_lake(path: Path, format: str) -> Lake:
    app = Pipeline("lake")
    app.source("o/*").lake(path, schema=COLUMNS, format=format, partition_by=DIVIDED_BY)
    return app.graph.lake_steps[0]


def shown(path: Path, format: str, rows: list[dict[str, Any]]) -> None:
    lake = divided_lake(path, format)
    table = open_table(place_of(lake))
    table.prepare(lake.columns.schema, lake.partition_by)
    with TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=True) as files:
        files.write(lake.path, pa.RecordBatch.from_pylist(rows, schema=COLUMNS))
        (written,) = files.finish()
    assert table.show(written)
    assert not table.show(written)


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr({name: row[name] for name in COLUMNS.names}) for row in rows)


@given(ROWS)
@settings(max_examples=25, deadline=None)
def test_readers_find_each_row_of_a_divided_table_of_files(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        shown(path, "parquet", rows)
        kinds = pa.schema([("micro_batch", pa.string()), *(COLUMNS.field(name) for name in DIVIDED_BY)])
        found = ds.dataset(path, partitioning=ds.partitioning(kinds, flavor="hive")).to_table().to_pylist()
        assert in_order(found) == in_order(rows)


@given(ROWS)
@settings(max_examples=25, deadline=None)
def test_readers_find_each_row_of_a_divided_delta_table(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        shown(path, "delta", rows)
        table = DeltaTable(str(path))
        assert in_order(table.to_pyarrow_table().to_pylist()) == in_order(rows)
        some = rows[0]["size"]
        found = table.to_pyarrow_table(filters=[("size", "=", some)]) if some is not None else None
        assert found is None or found.num_rows == sum(row["size"] == some for row in rows)


def test_other_readers_find_the_partitions(tmp_path: Path) -> None:
    shown(tmp_path / "t", "parquet", [{"shop": "a b", "n": 1, "size": 2, "is_new": True, "day": date(2026, 11, 29)}])
    query = f"select shop, n, size, is_new, day from read_parquet('{tmp_path}/t/*/*/*/*/*/*.parquet', hive_partitioning=true)"
    assert duckdb.sql(query).fetchall() == [("a b", 1, 2, "true", date(2026, 11, 29))]


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_table_that_is_divided_otherwise_is_refused_before_the_first_micro_batch(tmp_path: Path, format: str) -> None:
    lake = lake_at(tmp_path, format, ["half"])
    table = open_table(place_of(lake))
    table.prepare(lake.columns.schema, ["half"])
    assert table.show(*staged(lake, 0, 1, [1, 2]))
    table.prepare(lake.columns.schema, ["half"])
    for other in ([], ["n"], ["half", "n"]):
        with pytest.raises(LakeError, match="is partitioned by half, "):
            table.prepare(lake.columns.schema, other)


def test_a_task_writes_a_limited_number_of_partitions_at_once_and_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engine.lakes.task_files.MAX_OPEN", 2)
    monkeypatch.setattr("headrace.engine.lakes.task_files.GROUP_ROWS", 4)
    lake = lake_at(tmp_path, "parquet", ["half"])
    opened: list[int] = []
    with TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=False) as files:
        for turn in range(12):
            columns = {"n": list(range(turn * 5, turn * 5 + 5)), "half": [str((turn + i) % 7) for i in range(5)]}
            files.write(lake.path, pa.RecordBatch.from_pydict(columns, schema=lake.columns.schema))
            opened.append(sum(each.is_open for each in files._tables[lake.path]._partitions.values()))
        (written,) = files.finish()
    assert max(opened) == 2
    assert sum(file.rows for file in written.files) == 60
    assert open_table(place_of(lake)).show(written)
    found = ds.dataset(tmp_path, partitioning="hive").to_table().to_pylist()
    expected = {turn * 5 + i: (turn + i) % 7 for turn in range(12) for i in range(5)}
    assert {row["n"]: row["half"] for row in found} == expected
    assert len(found) == 60


@pytest.mark.parametrize(("partitions", "text_bytes", "least_rows"), [(8, 1_000, 128), (32, 0, 200)])
def test_many_partitions_have_row_groups_as_large_as_one_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, text_bytes: int, least_rows: int
) -> None:
    monkeypatch.setattr("headrace.engine.lakes.task_files.GROUP_ROWS", 256)
    lake, draw = replace(lake_at(tmp_path, "parquet", ["half"]), file_bytes=1 << 20), random.Random(1)
    lake = replace(lake, columns=replace(lake.columns, schema=lake.columns.schema.append(pa.field("text", pa.binary()))))
    with TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=False) as files:
        for first in range(0, 600 * partitions, 400):
            rows = [{"n": n, "half": str(n % partitions), "text": draw.randbytes(text_bytes)} for n in range(first, first + 400)]
            files.write(lake.path, pa.RecordBatch.from_pylist(rows, schema=lake.columns.schema))
        files.finish()
    groups_of_files = [
        [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
        for footer in map(pq.read_metadata, (tmp_path / "_headrace" / "staged").iterdir())
    ]
    assert all(min(groups[:-1], default=least_rows) >= least_rows for groups in groups_of_files)
    assert sum(map(sum, groups_of_files)) == 600 * partitions


WRITES = st.lists(st.lists(st.tuples(st.integers(0, 40) | st.just(0), st.integers(0, 3_000)), max_size=60), max_size=12)


@given(WRITES)
@settings(max_examples=12, deadline=None)
def test_a_task_holds_a_limited_number_of_bytes_and_record_batches_in_any_partitions(
    writes: list[list[tuple[int, int]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr("headrace.engine.lakes.task_files.GROUP_BYTES", 200_000)
        patched.setattr("headrace.engine.lakes.task_files.PIECES", 8)
        lake = lake_at(folder, "parquet", ["half"])
        lake = replace(lake, columns=replace(lake.columns, schema=lake.columns.schema.append(pa.field("text", pa.binary()))))
        with TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=False) as files:
            for write in writes:
                rows = [{"n": size, "half": str(partition), "text": bytes(size)} for partition, size in write]
                files.write(lake.path, pa.RecordBatch.from_pylist(rows, schema=lake.columns.schema))
                waiting = [[*each._waiting, *each._pieces] for each in files._tables[lake.path]._partitions.values()]
                assert sum(4096 + rows.nbytes for some in waiting for rows in some) < 200_000
                assert all(len(each._pieces) < 8 for each in files._tables[lake.path]._partitions.values())
            files.finish()
        written = (Path(folder) / "_headrace" / "staged").glob("*")
        found = Counter(number for path in written for number in pq.read_table(path).column("n").to_pylist())
        assert found == Counter(size for write in writes for _, size in write)

"""Delta tables on HDFS, where a file is renamed to its place: with other writers, and read as a history."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from scripts.brokers import Hdfs
from tests.engine.lakes import QUERY, SCHEMA, lake_at, showing, staged
from tests.engine.test_delta_lakes import numbers_in_delta
from tests.engine.test_history_files import rows
from tests.engine.test_history_tables import expected, orders, planned
from tests.engine.test_lakes_on_s3 import keys

from headrace.engine import LakeError, OlderCheckpoint, compact_lake
from headrace.engine.checkpoint.lake_batches import joined
from headrace.engine.lakes.delta_lake import DeltaLake
from headrace.engine.lakes.task_files import TaskFiles
from headrace.engine.sink.writer import Task


@pytest.fixture
def table(hdfs: Hdfs, tmp_path: Path) -> str:
    return f"{hdfs.url}/{tmp_path.name}/orders"


def test_a_micro_batch_is_in_a_table_on_hdfs_once_beside_another_writer_and_nothing_stays_staged(table: str) -> None:
    lake, first, late = lake_at(table, "delta", ["half"]), DeltaLake(table), DeltaLake(table)
    for each in first, late:
        each.prepare(lake.columns.schema, lake.partition_by)
    (written,) = joined([*staged(lake, 0, 1, [1, 2]), *staged(lake, 0, 1, [3], partition=1)])
    staged(lake, 0, 1, [2, 2])  # an attempt that does not count
    assert (numbers_in_delta(table), first.last_visible(QUERY), len(keys(table))) == ([], -1, 5)
    write_deltalake(table, pa.table({"n": [10], "half": ["odd"]}), mode="append")
    assert [each.show(written) for each in (first, late)] == [True, False]
    assert compact_lake(table, file_bytes=1 << 20).read == 4
    assert (late.show(written), late.last_visible(QUERY)) == (False, 0)
    assert numbers_in_delta(table) == [1, 2, 3, 10]
    assert late.staging.sweep(QUERY, 1, 2) == 2
    assert not [key for key in keys(table) if key.startswith("_headrace")]


def test_queries_that_commit_at_the_same_time_on_hdfs_lose_nothing(table: str) -> None:
    lake = lake_at(table, "delta")
    DeltaLake(table).prepare(lake.columns.schema)

    def commits(query: str) -> None:
        for batch in range(4):
            with TaskFiles([lake], Task(query, "run", batch, 0, 1), sync=False) as files:
                files.write(lake.path, pa.RecordBatch.from_pydict({"n": [batch]}, schema=SCHEMA))
                (written,) = files.finish()
            assert DeltaLake(table).show(written)

    queries = [f"{QUERY[:-1]}{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(commits, queries))
    assert numbers_in_delta(table) == sorted([0, 1, 2, 3] * 4)
    assert [DeltaLake(table).last_visible(query) for query in queries] == [3] * 4


def test_an_older_checkpoint_and_a_lost_file_are_named_and_a_task_that_fails_leaves_no_file(tmp_path: Path, table: str) -> None:
    lake, delta = lake_at(table, "delta"), DeltaLake(table)
    delta.prepare(SCHEMA)
    (written,), (lost,) = staged(lake, 0, 1, [1]), staged(lake, 1, 1, [3])
    assert delta.show(written)
    with pytest.raises(OlderCheckpoint, match="has micro-batch 0 of this query, and the checkpoint continues with 0"):
        showing([lake], tmp_path).resume(QUERY, 0, (), 2)
    delta.staging.discard(lost.files[0].name)
    delta.staging.discard(lost.files[0].name)
    with pytest.raises(LakeError, match=f"micro-batch 1 .* is committed, and its file {lost.files[0].name} is gone or damaged"):
        delta.show(lost)
    files = TaskFiles([lake], Task(QUERY, "run", 2, 0, 1), sync=True)
    files.write(lake.path, pa.RecordBatch.from_pydict({"n": list(range(200_000))}, schema=SCHEMA))
    files.__exit__(KeyError, KeyError(), None)
    assert keys(table) == {written.files[0].name}


def test_tables_on_hdfs_are_histories(table: str) -> None:
    write_deltalake(table, orders(3, 1, 2, 0), partition_by=["shop"])
    index = planned(table)
    write_deltalake(table, orders(5), mode="append")
    assert rows(index) == expected(0, 1, 2, 3)
    assert len(DeltaTable(table).file_uris()) == 5

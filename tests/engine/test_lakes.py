"""Tables of files: readers see whole committed micro-batches, each once, whoever dies, wakes or writes when."""

import ctypes
import os
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from tests.engine.lakes import QUERY, SCHEMA, Drivers, lake_at, numbers_in, showing, staged

from headrace.contract.backoff import Backoff
from headrace.engine import LakeError, OlderCheckpoint
from headrace.engine.applications.stages import results
from headrace.engine.checkpoint.fence import Fence
from headrace.engine.checkpoint.folder import LocalFolder
from headrace.engine.checkpoint.lake_batches import LakeBatch, LakeFile, joined
from headrace.engine.checkpoint.manifests import Entry, Manifest, ManifestLog
from headrace.engine.lakes.commits import Showing
from headrace.engine.lakes.names import folder_of
from headrace.engine.lakes.parquet_table import ParquetTable
from headrace.engine.lakes.places import place_of
from headrace.engine.lakes.tables import open_table
from headrace.engine.lakes.task_files import TaskFiles
from headrace.engine.sink.writer import Task
from headrace.pipelines import Pipeline
from headrace.pipelines.runtime import Lake


def test_files_of_a_micro_batch_are_seen_after_its_commit_and_once_however_often_it_is_shown(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    written = joined([*staged(lake, 3, 1, [1, 2]), *staged(lake, 3, 1, [3], partition=1)])
    staged(lake, 3, 1, [2, 2])  # an attempt that does not count
    assert numbers_in(tmp_path) == []
    table = ParquetTable(str(tmp_path), sync=True)
    assert [table.show(each) for each in (*written, *written)] == [True, False]
    assert (numbers_in(tmp_path), table.last_visible(QUERY)) == ([1, 2, 3], 3)
    shutil.rmtree(next(tmp_path.glob("micro_batch=*")))
    assert not table.show(written[0]), "what somebody has removed stays away"
    assert table.sweep(QUERY, 4, 2) == 1
    assert os.listdir(tmp_path / "_headrace" / "staged") == []


def test_a_copy_of_a_checkpoint_that_writes_to_the_same_table_is_refused_and_loses_nothing_silently(tmp_path: Path) -> None:
    lake, table = lake_at(tmp_path), ParquetTable(str(tmp_path))
    (written,), (copied,) = staged(lake, 0, 1, [1]), staged(lake, 0, 1, [2])
    assert table.show(written)
    with pytest.raises(LakeError, match=r"has another micro-batch 0 .* a copy of the checkpoint writes to the table"):
        table.show(copied)
    assert numbers_in(tmp_path) == [1]


def test_a_file_that_is_gone_or_damaged_is_an_error_that_names_it(tmp_path: Path) -> None:
    lake, table = lake_at(tmp_path), ParquetTable(str(tmp_path))
    (written,) = staged(lake, 0, 1, [1])
    file = tmp_path / "_headrace" / "staged" / written.files[0].name
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(LakeError, match=f"micro-batch 0 .* is committed, and its file {file.name} is gone or damaged"):
        table.show(written)
    assert numbers_in(tmp_path) == []
    next((tmp_path / "_headrace" / "ready").glob("*/*")).unlink()
    with pytest.raises(LakeError, match="is gone or damaged; restore the table and the checkpoint"):
        table.show(written)


def test_a_foreign_file_in_the_folder_of_a_micro_batch_is_an_error_and_others_stay_untouched(tmp_path: Path) -> None:
    lake, table = lake_at(tmp_path), ParquetTable(str(tmp_path))
    (tmp_path / "_notes.txt").write_text("of somebody else")
    (written,) = staged(lake, 0, 1, [1])
    table.show(written)
    (again,) = staged(lake, 1, 1, [2])
    foreign = tmp_path / folder_of(QUERY, 1)
    foreign.mkdir()
    (foreign / "other.parquet").write_bytes(b"x")
    with pytest.raises(LakeError, match=r"the folder .* has another file, other\.parquet; move it elsewhere"):
        table.show(again)
    (foreign / "other.parquet").unlink()
    assert table.show(again)
    assert (tmp_path / "_notes.txt").read_text() == "of somebody else"
    assert numbers_in(tmp_path) == [1, 2]


def test_a_checkpoint_that_was_set_back_is_refused(tmp_path: Path) -> None:
    lake = lake_at(tmp_path / "table")
    (written,) = staged(lake, 5, 1, [1])
    ParquetTable(lake.path).show(written)
    showing = Showing([lake], Fence(ManifestLog(LocalFolder(tmp_path / "manifests")), None))
    with pytest.raises(OlderCheckpoint, match="has micro-batch 5 of this query, and the checkpoint continues with 5"):
        showing.resume(QUERY, 5, (), 2)
    showing.resume(QUERY, 6, (written,), 2)
    showing.close(lambda: None)


def test_storage_that_cannot_be_written_fails_with_what_to_do_and_the_same_start_shows_it_later(tmp_path: Path) -> None:
    lake = lake_at(tmp_path / "table")
    (written,) = staged(lake, 0, 1, [1])
    (tmp_path / "table" / "_headrace" / "ready").write_text("in the way")
    showing = Showing([lake], Fence(ManifestLog(LocalFolder(tmp_path / "manifests")), None))
    showing.noted(0, (written,))
    showing.committed(0)
    with pytest.raises(LakeError, match=r"micro-batch 0 is committed, and cannot be shown: .* Nothing is lost"):
        showing.settle()
    (tmp_path / "table" / "_headrace" / "ready").unlink()
    showing.settle()
    assert numbers_in(tmp_path / "table") == [1]
    showing.close(lambda: 0)


@contextmanager
def no_rights(folder: Path) -> Iterator[None]:
    """Nothing in a folder, which nobody else may read, can be read or written by this thread, even if it is root's."""
    closed = [above for above in folder.parents if not above.stat().st_mode & 0o001]
    folder.chmod(0o700)
    if os.geteuid() == 0:
        for above in closed:
            above.chmod(0o711)
        ctypes.CDLL(None).setfsuid(65534)
    else:
        folder.chmod(0)
    try:
        yield
    finally:
        if os.geteuid() == 0:
            ctypes.CDLL(None).setfsuid(0)
        for one in (folder, *closed):
            one.chmod(0o700)


@pytest.mark.parametrize("format", ["parquet", "delta", "iceberg"])
def test_a_task_without_rights_names_the_table_and_writes_once_it_has_them(tmp_path: Path, format: str) -> None:
    lake = lake_at(tmp_path / "table", format)
    with (
        no_rights(tmp_path),
        pytest.raises(LakeError, match=r"lake .*/table: a task cannot write its files: .*denied"),
    ):
        staged(lake, 0, 1, [1])
    (written,) = staged(lake, 0, 1, [1])
    assert [file.rows for file in written.files] == [1]


def test_a_table_without_rights_is_named_and_shown_later_and_a_start_says_what_it_cannot_read(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    lake, shows = lake_at(folder / "table"), showing([lake_at(folder / "table")], tmp_path)
    (written,) = staged(lake, 0, 1, [1])
    shows.noted(0, (written,))
    with no_rights(folder):
        with pytest.raises(LakeError, match=r"micro-batch 0 is committed, and cannot be shown: .*denied.* Nothing is lost"):
            shows.settle()
        with pytest.raises(LakeError, match=r"lake .*/table cannot be read: .*Permission denied.*start again"):
            showing([lake], tmp_path).resume(QUERY, 1, (written,), 2)
    assert numbers_in(folder / "table") == []
    showing([lake], tmp_path).resume(QUERY, 1, (written,), 2)
    assert numbers_in(folder / "table") == [1]
    shows.settle()
    assert numbers_in(folder / "table") == [1]


def test_a_task_that_fails_leaves_no_file_and_a_large_one_begins_further_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_at(tmp_path)
    files = TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=True)
    files.write(lake.path, pa.RecordBatch.from_pydict({"n": list(range(200_000))}, schema=SCHEMA))
    assert len(os.listdir(tmp_path / "_headrace" / "staged")) == 1
    files.__exit__(KeyError, KeyError(), None)
    assert os.listdir(tmp_path / "_headrace" / "staged") == []
    monkeypatch.setattr("headrace.engine.lakes.task_files.GROUP_ROWS", 10)
    with TaskFiles([replace(lake, file_bytes=160)], Task(QUERY, "run", 0, 0, 1), sync=True) as files:
        for first in range(0, 40, 5):
            files.write(lake.path, pa.RecordBatch.from_pydict({"n": list(range(first, first + 5))}, schema=SCHEMA))
        (written,) = files.finish()
    assert [file.rows for file in written.files] == [10, 10, 10, 10]


@pytest.mark.parametrize("rows_of_a_write", [7, 100, 3_000])
@pytest.mark.parametrize("partition_by", [(), ("half",)])
def test_files_are_about_as_large_as_the_application_says(
    tmp_path: Path, rows_of_a_write: int, partition_by: tuple[str, ...]
) -> None:
    kind = pa.schema([("n", pa.int64()), ("text", pa.binary()), ("half", pa.string())])
    app, draw = Pipeline("lake"), random.Random(1)
    app.source("n/*", decode=int).lake(tmp_path / "t", schema=kind, partition_by=partition_by, file_size="1mb")
    (lake,) = app.graph.lake_steps
    with TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=False) as files:
        for first in range(0, 3_000, rows_of_a_write):
            numbers = range(first, min(3_000, first + rows_of_a_write))
            rows = [{"n": n, "text": draw.randbytes(2_000), "half": "ab"[n >= 1_500]} for n in numbers]
            files.write(lake.path, pa.RecordBatch.from_pylist(rows, schema=kind))
        (written,) = files.finish()
    assert all(file.bytes < 1_500_000 for file in written.files)
    assert 4 <= len(written.files) <= 12, "6 MB of rows, each folder's last file of any size"
    shown = showing([lake], tmp_path)
    shown.noted(0, (written,))
    shown.settle()
    found = ds.dataset(tmp_path / "t", partitioning="hive").to_table(columns=["n"]).column("n").to_pylist()
    assert sorted(found) == list(range(3_000))


def test_what_a_killed_run_has_staged_is_deleted_once_its_micro_batch_is_committed_without_it(tmp_path: Path) -> None:
    lake, folder = lake_at(tmp_path / "t"), tmp_path / "t" / "_headrace" / "staged"
    for batch in 3, 4, 5:
        staged(lake, batch, 1, [1])
    shows = showing([lake], tmp_path)
    shows.resume(QUERY, 4, (), 2)
    assert len(os.listdir(folder)) == 2, "a run that was replaced may still commit one of these"
    written = staged(lake, 4, 2, [2])
    shows.noted(4, written)
    shows.settle()
    assert [name.split("-")[2] for name in os.listdir(folder)] == ["5"]
    assert numbers_in(tmp_path / "t") == [2]


class FailingTable(ParquetTable):
    """A table on a storage that fails a number of times."""

    def __init__(self, path: str, failures: int) -> None:
        super().__init__(path)
        self._failures = failures
        self.attempts = 0
        self.was_shown = threading.Event()

    def show(self, batch: LakeBatch) -> bool:
        self.attempts += 1
        if self.attempts <= self._failures:
            raise OSError("the storage is away")
        shown = super().show(batch)
        self.was_shown.set()
        return shown


def shows_in(table: FailingTable, lake: Lake, folder: Path, pause_s: float) -> Showing:
    fence = Fence(ManifestLog(LocalFolder(folder / "manifests")), None)
    return Showing([lake], fence, opened=lambda path, form: table, backoff=lambda: Backoff(pause_s, pause_s))


def test_a_storage_that_fails_while_the_application_idles_is_tried_until_it_is_back(tmp_path: Path) -> None:
    lake, table = lake_at(tmp_path / "t"), FailingTable(str(tmp_path / "t"), 3)
    shows = shows_in(table, lake, tmp_path, 0.001)
    shows.noted(0, staged(lake, 0, 1, [1]))
    shows.committed(0)
    assert table.was_shown.wait(60)
    shows.close(lambda: 0)
    assert (table.attempts, numbers_in(tmp_path / "t")) == (4, [1])


def test_the_next_micro_batch_and_the_end_wait_for_no_pause(tmp_path: Path) -> None:
    lake, table = lake_at(tmp_path / "t"), FailingTable(str(tmp_path / "t"), 1_000)
    shows = shows_in(table, lake, tmp_path, 100_000.0)
    shows.noted(0, staged(lake, 0, 1, [1]))
    shows.committed(0)
    with pytest.raises(LakeError, match="micro-batch 0 is committed, and cannot be shown: the storage is away"):
        shows.settle()
    shows.committed(0)
    shows.close(lambda: 0)
    assert numbers_in(tmp_path / "t") == []


def test_a_copy_of_an_older_checkpoint_that_a_command_made_is_refused(tmp_path: Path) -> None:
    lake, table = lake_at(tmp_path / "t"), ParquetTable(str(tmp_path / "t"))
    written = [staged(lake, batch, 1, [batch])[0] for batch in (0, 1)]
    showing([lake], tmp_path).resume("of-another-query", 1, written[:1], 1)
    table.show(written[1])
    with pytest.raises(OlderCheckpoint, match="has micro-batch 1 of this query, and the checkpoint continues with 1"):
        showing([lake], tmp_path).resume("of-another-query", 1, written[:1], 1)
    assert numbers_in(tmp_path / "t") == [0, 1]


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_table_that_was_moved_is_an_error_until_a_link_leads_to_it(tmp_path: Path, form: str) -> None:
    lake = lake_at(tmp_path / "t", form)
    showing([lake], tmp_path).resume(QUERY, 0, (), 1)
    last = staged(lake, 0, 1, [1])
    open_table(place_of(lake)).show(last[0])
    (tmp_path / "t").rename(tmp_path / "moved")
    moved = lake_at(tmp_path / "moved", form)
    with pytest.raises(LakeError, match="the folder is gone: restore it; if the table was moved, make a link"):
        showing([moved], tmp_path).resume(QUERY, 1, last, 2)
    assert not (tmp_path / "t").exists()
    (tmp_path / "t").symlink_to(tmp_path / "moved")
    showing([moved], tmp_path).resume(QUERY, 1, last, 2)
    assert open_table(place_of(moved)).last_visible(QUERY) == 0


def test_columns_of_another_type_than_those_of_the_last_micro_batch_are_refused(tmp_path: Path) -> None:
    lake, table = lake_at(tmp_path), ParquetTable(str(tmp_path))
    table.prepare(SCHEMA)
    table.show(*staged(lake, 0, 1, [1]))
    for fitting in SCHEMA, pa.schema([("m", pa.string()), ("n", pa.int64())]), pa.schema([("m", pa.time32("s"))]):
        table.prepare(fitting)
    for other in pa.schema([("n", pa.string())]), pa.schema([("N", pa.uint64())]), pa.schema([("n", pa.timestamp("us"))]):
        with pytest.raises(LakeError, match=r"the column n is INT64 .* now .*, and readers cannot read both: rename the field"):
            table.prepare(other)


def test_a_task_that_cannot_write_names_the_table(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("in the way")
    with pytest.raises(LakeError, match=r"lake .*/t: a task cannot write its files: "):
        staged(lake_at(tmp_path / "t"), 0, 1, [1])


def test_blocks_of_large_rows_are_not_joined_beyond_what_one_column_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_BYTES", 100)
    blocks = [("t", pa.RecordBatch.from_pydict({"n": [b"x" * size]})) for size in (60, 60, 60, 200, 1, 1)]
    joined_blocks = list(results.joined(iter([*blocks, ("u", blocks[0][1])])))
    assert [(table, block.num_rows) for table, block in joined_blocks] == [("t", 2), ("t", 2), ("t", 2), ("u", 1)]
    assert pa.Table.from_batches([block for _, block in joined_blocks]).num_rows == 7


def test_manifests_have_files_of_lakes_beside_states_and_those_without_are_as_before() -> None:
    entries = {(1, 0): Entry("a", 0, 1, ("a",), 0)}
    written = (LakeBatch("/t", "parquet", QUERY, 7, (LakeFile("f", 10, 2),)),)
    manifest = Manifest(entries).after({}, written)
    assert Manifest.loads(manifest.dumps()) == manifest
    assert Manifest.loads(manifest.dumps(whole=False)).lakes == ()
    assert manifest.after({}).dumps() == Manifest(entries).dumps() == '[[1,0,"a",0,1,["a"],0]]'


TestDrivers = Drivers.TestCase
TestDrivers.settings = settings(deadline=None, max_examples=60, stateful_step_count=30, derandomize=True)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.int64(), pa.decimal128(9, 1), pa.float16(), pa.dictionary(pa.int32(), pa.string())]
)
def test_a_file_has_dictionaries_of_the_columns_whose_values_repeat_and_of_no_others(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([("few", pa.string()), ("many", pa.int64()), ("any", kind), ("none", pa.float64())])
    app = Pipeline("lake")
    app.source("n/*").lake(tmp_path / "t", schema=schema)
    (lake,) = app.graph.lake_steps
    count = 10_000
    values = {"few": ["a", "b"] * (count // 2), "many": list(range(count)), "any": [None] * count, "none": [None] * count}
    with TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=False) as files:
        files.write(lake.path, pa.RecordBatch.from_pydict(values, schema=schema))
        (written,) = files.finish()
    (path,) = (tmp_path / "t" / "_headrace" / "staged").iterdir()
    group = pq.read_metadata(path).row_group(0)
    assert [group.column(number).has_dictionary_page for number in (0, 1)] == [True, False]
    assert pq.read_table(path).num_rows == sum(file.rows for file in written.files) == count

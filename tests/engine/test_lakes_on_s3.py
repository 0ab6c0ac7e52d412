"""Delta tables on S3, where no file can be renamed: by a model of such a store, and on a server."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import settings
from hypothesis.stateful import Bundle
from pyarrow.fs import FileInfo, FileSelector, LocalFileSystem, SubTreeFileSystem
from pyiceberg.catalog.sql import SqlCatalog
from scripts.brokers import S3
from tests.engine.lakes import QUERY, SCHEMA, Drivers, lake_at, showing, staged
from tests.engine.one_at_a_time import Pausing, Stepped
from tests.engine.test_delta_lakes import DriversOnDelta, numbers_in_delta
from tests.engine.test_history_files import rows
from tests.engine.test_iceberg_lakes import DriversOnIceberg

from headrace.engine import History, LakeError, OlderCheckpoint, compact_lake
from headrace.engine.checkpoint.lake_batches import joined
from headrace.engine.history.order import build
from headrace.engine.lakes import delta_lake, iceberg_lake, task_files
from headrace.engine.lakes.compaction import Compaction
from headrace.engine.lakes.delta_lake import DeltaLake
from headrace.engine.lakes.iceberg_lake import IcebergLake
from headrace.engine.lakes.objects import ObjectStaging, of_deltalake, reason_of
from headrace.engine.lakes.places import Place, place_of
from headrace.engine.lakes.staging import Staging
from headrace.engine.lakes.tables import open_table
from headrace.engine.lakes.task_files import TaskFiles
from headrace.engine.sink.writer import Task
from headrace.pipelines import Pipeline


def s3_environ(s3: S3) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": s3.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": s3.user,
        "AWS_SECRET_ACCESS_KEY": s3.password,
    }


class Objects:
    """Objects in a folder, which are copied and deleted, and never renamed; others may do anything between any two requests."""

    def __init__(self, folder: Path, pauses: Pausing) -> None:
        self._pauses = pauses
        self._files = SubTreeFileSystem(str(folder), LocalFileSystem())

    def open_output_stream(self, path: str) -> pa.NativeFile:
        self._files.create_dir(path.rpartition("/")[0])
        return self._files.open_output_stream(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        self._pauses.pause()
        return self._files.open_input_file(path)

    def move(self, source: str, target: str) -> None:
        self._pauses.pause()
        data = self._files.open_input_file(source).read()
        self._files.create_dir(target.rpartition("/")[0] or ".")
        with self._files.open_output_stream(target) as file:
            file.write(data)
        self.delete_file(source)

    def delete_file(self, path: str) -> None:
        self._pauses.pause()
        if self._files.get_file_info(path).is_file:  # S3 answers alike if there is none.
            self._files.delete_file(path)

    def get_file_info(self, asked: list[str] | FileSelector) -> list[FileInfo]:
        self._pauses.pause()
        found: list[FileInfo] = self._files.get_file_info(asked)
        return found


class DriversOnObjects(DriversOnDelta):
    """The same with a store of objects."""

    drivers: Bundle[Stepped] = Drivers.drivers

    def __init__(self) -> None:
        super().__init__()
        for module in delta_lake, task_files:
            self.patched.setattr(module, "staging_at", self.staging_at)

    def staging_at(self, place: Place, *, sync: bool) -> Staging:
        return ObjectStaging(place.path, Objects(Path(place.path), self.os))


class DriversOnIcebergObjects(DriversOnIceberg):
    """The same with an Iceberg table."""

    drivers: Bundle[Stepped] = Drivers.drivers

    def __init__(self) -> None:
        super().__init__()
        for module in iceberg_lake, task_files:
            self.patched.setattr(module, "staging_at", self.staging_at)

    def staging_at(self, place: Place, *, sync: bool) -> Staging:
        return ObjectStaging(place.path, Objects(Path(place.path), self.os), below="data")


@pytest.fixture
def table(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3_environ(s3).items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3.bucket}/{tmp_path.name}"


def keys(table: str) -> set[str]:
    """The objects of a table beside its log."""
    found = of_deltalake(table, {}).get_file_info(FileSelector("", recursive=True))
    return {info.path for info in found if info.is_file and "_delta_log" not in info.path}


def test_a_micro_batch_is_in_a_table_on_s3_once_beside_another_writer_and_nothing_stays_staged(table: str) -> None:
    lake, first, late = lake_at(table, "delta"), DeltaLake(table), DeltaLake(table)
    first.prepare(lake.columns.schema)
    late.prepare(lake.columns.schema)
    (written,) = joined([*staged(lake, 0, 1, [1, 2]), *staged(lake, 0, 1, [3], partition=1)])
    staged(lake, 0, 1, [2, 2])  # an attempt that does not count
    assert (numbers_in_delta(table), first.last_visible(QUERY), len(keys(table))) == ([], -1, 3)
    write_deltalake(table, pa.table({"n": [10]}, schema=SCHEMA), mode="append")
    assert [each.show(written) for each in (first, late)] == [True, False]
    DeltaTable(table).optimize.compact()
    assert (late.show(written), late.last_visible(QUERY)) == (False, 0)
    assert numbers_in_delta(table) == [1, 2, 3, 10]
    assert late.staging.sweep(QUERY, 1, 2) == 1
    assert not [key for key in keys(table) if key.startswith("_headrace")]


def test_a_driver_that_died_between_the_copy_and_the_deletion_is_continued(s3: S3, table: str) -> None:
    lake, delta = lake_at(table, "delta"), DeltaLake(table)
    delta.prepare(SCHEMA)
    (written,) = staged(lake, 0, 1, [1])
    name, folder = written.files[0].name, table.replace("s3:/", s3.url)
    copied = {"x-amz-copy-source": f"{table.removeprefix('s3:/')}/_headrace/staged/{name}"}
    with urllib.request.urlopen(urllib.request.Request(f"{folder}/{name}", method="PUT", headers=copied)) as answer:
        assert answer.status == 200
    assert keys(table) == {name, f"_headrace/staged/{name}"}
    assert delta.show(written)
    assert (numbers_in_delta(table), keys(table)) == ([1], {name})


def test_a_copy_of_a_checkpoint_and_an_older_one_are_refused_on_s3_and_a_lost_object_is_named(tmp_path: Path, table: str) -> None:
    lake, delta = lake_at(table, "delta"), DeltaLake(table)
    delta.prepare(SCHEMA)
    (written,), (copied,), (lost,) = staged(lake, 0, 1, [1]), staged(lake, 0, 1, [2]), staged(lake, 1, 1, [3])
    assert delta.show(written)
    with pytest.raises(LakeError, match=r"has another micro-batch 0 .* a copy of the checkpoint writes to the table"):
        delta.show(copied)
    with pytest.raises(OlderCheckpoint, match="has micro-batch 0 of this query, and the checkpoint continues with 0"):
        showing([lake], tmp_path).resume(QUERY, 0, (), 2)
    delta.staging.discard(lost.files[0].name)
    delta.staging.discard(lost.files[0].name)
    with pytest.raises(LakeError, match=f"micro-batch 1 .* is committed, and its file {lost.files[0].name} is gone or damaged"):
        delta.show(lost)
    assert numbers_in_delta(table) == [1]


def test_a_task_that_fails_leaves_no_object_and_one_without_a_bucket_names_the_table(table: str) -> None:
    lake = lake_at(table, "delta")
    files = TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=True)
    files.write(lake.path, pa.RecordBatch.from_pydict({"n": list(range(200_000))}, schema=SCHEMA))
    files.__exit__(KeyError, KeyError(), None)
    assert keys(table) == set()
    with pytest.raises(LakeError, match=r"lake s3://no-bucket/t: a task cannot write its files: .*NoSuchBucket|404 Not Found"):
        staged(lake_at("s3://no-bucket/t", "delta"), 0, 1, [1])


def test_a_micro_batch_is_in_an_iceberg_table_on_s3_once_and_its_files_are_joined(table: str, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    options = lake_at(tmp_path / "t", "iceberg").options
    app = Pipeline("lake")
    schema = pa.schema([*SCHEMA, ("half", pa.string())])
    more: dict[str, Any] = {"table": "test.lake.numbers", "options": options, "partition_by": ["half"]}
    app.source("n/*", decode=int).lake(table, schema=schema, format="iceberg", **more)
    (lake,) = app.graph.lake_steps
    first, late = IcebergLake(place_of(lake), sync=True), IcebergLake(place_of(lake))
    for each in first, late:
        each.prepare(lake.columns.schema, lake.partition_by)
    (written,) = joined([*staged(lake, 0, 1, [1, 2]), *staged(lake, 0, 1, [3], partition=1)])
    staged(lake, 0, 1, [2, 2])  # an attempt that does not count
    assert first.last_visible(QUERY) == -1
    assert [each.show(written) for each in (first, late)] == [True, False]
    found = SqlCatalog("test", **s3_properties(options)).load_table("lake.numbers")
    found.append(pa.table({"n": [10], "half": ["odd"]}))
    assert compact_lake("iceberg:test.lake.numbers", file_bytes=1 << 20, options=options) == Compaction(4, 2)
    (second,), (lost,) = staged(lake, 1, 1, [4]), staged(lake, 2, 1, [5])
    assert (late.show(written), late.show(second), late.last_visible(QUERY)) == (False, True, 1)
    late.staging.discard(lost.files[0].name)
    late.staging.discard(lost.files[0].name)
    with pytest.raises(LakeError, match=f"micro-batch 2 .* is committed, and its file {lost.files[0].name} is gone or damaged"):
        late.show(lost)
    assert sorted(found.refresh().scan().to_arrow()["n"].to_pylist()) == [1, 2, 3, 4, 10]
    assert late.staging.sweep(QUERY, 2, 2) == 2
    assert not [key for key in keys(table) if key.startswith("_headrace")]
    history = build(History([found.metadata_location], {"value": "n", "event_time": "n", "key": "half"}), ["n/*"])
    assert [value for _, value in rows(history)] == [b"1", b"2", b"3", b"4", b"10"]


_REFUSED = "(lacked the necessary privileges|403|[Dd]enied|Forbidden)"


@pytest.fixture
def read_only(s3: S3) -> Iterator[str]:
    # In a process of its own: deltalake keeps Python's lock while it waits for an answer.
    command = [sys.executable, "-m", "tests.engine.read_only_s3", urlsplit(s3.url).netloc]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as front:
        assert front.stdout is not None
        yield f"http://127.0.0.1:{front.stdout.readline().strip()}"
        front.terminate()


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_bucket_that_refuses_writing_is_named_and_what_was_committed_is_shown_once_it_permits_it(
    table: str, read_only: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = lake_at(tmp_path / "t", form).options
    app = Pipeline("lake")
    more: dict[str, Any] = {"table": "test.lake.numbers", "options": options} if form == "iceberg" else {}
    app.source("n/*", decode=int).lake(table, schema=SCHEMA, format=form, **more)
    (lake,) = app.graph.lake_steps
    open_table(place_of(lake)).prepare(SCHEMA)
    (written,) = staged(lake, 0, 1, [1])
    permitted = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", read_only)
    with pytest.raises(LakeError, match=rf"lake {table}: a task cannot write its files: .*{_REFUSED}"):
        staged(lake, 1, 1, [2])
    shows = showing([lake], tmp_path)
    shows.noted(0, (written,))
    with pytest.raises(
        LakeError, match=rf"lake {table}: micro-batch 0 is committed, and cannot be shown: .*{_REFUSED}.* Nothing is lost"
    ):
        shows.settle()
    monkeypatch.setenv("AWS_ENDPOINT_URL", permitted)
    again = showing([lake], tmp_path)
    again.resume(QUERY, 1, (written,), 2)
    assert open_table(place_of(lake)).last_visible(QUERY) == 0


def s3_properties(options: Mapping[str, str]) -> dict[str, str]:
    return {**options, "s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1", "s3.request-timeout": "60"}


def test_an_error_of_the_store_is_one_line_without_colours() -> None:
    arrow = "\x1b[31m\u21b3\x1b[0m"
    said = f"Generic S3 error\n   {arrow} Error performing GET\n  {arrow} 404 Not Found\n <?xml version>\n <Error/>"
    assert reason_of(OSError(said)) == "Generic S3 error: Error performing GET: 404 Not Found"


TestDriversOnIcebergObjects = DriversOnIcebergObjects.TestCase
TestDriversOnIcebergObjects.settings = settings(deadline=None, max_examples=8, stateful_step_count=20, derandomize=True)
TestDriversOnObjects = DriversOnObjects.TestCase
TestDriversOnObjects.settings = settings(deadline=None, max_examples=15, stateful_step_count=20, derandomize=True)

"""A checkpoint of an earlier version survives its conversion, whichever operation on files fails or is the last one."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headrace.engine import CheckpointError
from headrace.engine.applications._bucket_files import BucketFiles
from headrace.engine.applications._durable import load, save
from headrace.engine.applications._segments import DirtyKeys
from headrace.engine.applications._spark_states import SparkBucket, SparkStates, stored_in_files, take_over
from headrace.engine.applications._store import read_head
from headrace.engine.checkpoint._folder import LocalFolder
from headrace.engine.checkpoint._manifests import CONVERTED, MANIFESTS, STATES, ManifestLog
from headrace.engine.checkpoint._state_files import LocalFiles
from headrace.pipelines import Pipeline
from headrace.pipelines.runtime import StateClass, States

BATCH = 7
KILLED = 9
CHANGES = ("open", "writev", "link", "unlink", "mkdir", "rmdir")
CLASSES = {"count": StateClass(list, "count")}


def count_up(value: int, state: list[int]) -> int:
    state.append(value)
    return value


def application() -> Pipeline:
    app = Pipeline("counts")
    app.source("n/*", decode=int).key_by(lambda value: value).stateful(count_up, list, name="count").sink("out")
    return app


@dataclass
class Memory:
    """Pieces as Spark's state store has them."""

    all: dict[int, bytes] = field(default_factory=dict)

    def read(self, number: int) -> bytes:
        return self.all[number]

    def write(self, number: int, piece: bytes) -> None:
        self.all[number] = piece

    def drop(self, numbers: Any) -> None:
        for number in numbers:
            del self.all[number]


@dataclass
class Store:
    changes: Memory = field(default_factory=Memory)
    segments: Memory = field(default_factory=Memory)
    head: bytes | None = None

    def read_head(self) -> bytes | None:
        return self.head

    def write_head(self, head: bytes) -> None:
        self.head = head


def stored(bucket: int) -> SparkBucket:
    """A bucket whose states are in pieces."""
    store, kept = Store(), {"count": States()}
    kept["count"].update({f"{bucket}-{number}": [number] * 20 for number in range(600)})
    save(store, read_head(store), kept, DirtyKeys(), {"count": dict.fromkeys(kept["count"])}, CLASSES, {})
    assert store.changes.all or store.segments.all
    return SparkBucket(store.head or b"", store.changes, store.segments)  # type: ignore[arg-type]


@dataclass
class Log:
    """The logs of a checkpoint with states in Spark's state store."""

    folder: Path

    def last_committed_batch(self) -> int:
        return BATCH

    def committed_by(self, batch: int) -> None:
        """The version that committed it did not name its run."""

    def steps(self) -> dict[str, str]:
        return {"count": "recorded"}

    def has_spark_states(self) -> bool:
        return (self.folder / "state").exists()

    def delete_spark_states(self) -> None:
        if self.has_spark_states():
            shutil.rmtree(self.folder / "state")


@pytest.fixture(autouse=True)
def spark_states(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_operator(states: SparkStates) -> Iterator[list[tuple[int, SparkBucket]]]:
        assert (Path(states._checkpoint.removeprefix("file:")) / "state" / "0").exists(), "Spark's states were deleted too early"
        yield [(bucket, stored(bucket)) for bucket in range(2)]

    monkeypatch.setattr(SparkStates, "by_operator", by_operator)


def checkpoint(path: Path) -> Path:
    (path / "state").mkdir(parents=True)
    (path / "state" / "0").write_text("Spark's")
    return path


def convert(path: Path) -> None:
    take_over(None, Log(path), f"file:{path}", application().graph, ())  # type: ignore[arg-type]


def check(path: Path) -> None:
    manifest = ManifestLog(LocalFolder(path / MANIFESTS)).read(BATCH)
    assert manifest is not None
    found: dict[object, object] = {}
    for at, entry in manifest.entries.items():
        store = BucketFiles(LocalFiles(path / STATES), at, entry)
        found.update(load(store, read_head(store), CLASSES)["count"])
    assert found == {f"{bucket}-{number}": [number] * 20 for bucket in range(2) for number in range(600)}


class Faulty:
    """The system's calls that change a disk, one of which has a fault."""

    def __init__(self, patch: pytest.MonkeyPatch, step: int, fault: Callable[[], None]) -> None:
        self.left, self._fault = step, fault
        for name in CHANGES:
            patch.setattr(os, name, self._call(name, getattr(os, name)))

    def _call(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **words: Any) -> Any:
            self.left -= 1
            if self.left == -1:
                if name == "writev":
                    os.write(arguments[0], bytes(arguments[1][0])[:5])
                self._fault()
            return real(*arguments, **words)

        return call


def disk_is_full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_at_any_step_leaves_a_checkpoint_that_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in count():
        path = checkpoint(tmp_path / str(step))
        with monkeypatch.context() as patch:
            faulty = Faulty(patch, step, disk_is_full)
            try:
                convert(path)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
        convert(path)
        check(path)
        assert not (path / "state").exists()
        if faulty.left >= 0:
            break
    assert step > 10


def test_a_driver_that_is_killed_at_any_step_leaves_a_checkpoint_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in count():
        path = checkpoint(tmp_path / str(step))
        child = os.fork()
        if not child:
            Faulty(monkeypatch, step, lambda: os._exit(KILLED))
            convert(path)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        convert(path)
        check(path)
        assert not (path / "state").exists()
        if os.waitstatus_to_exitcode(status) == 0:
            break
        assert os.waitstatus_to_exitcode(status) == KILLED
    assert step > 10


@pytest.mark.parametrize("torn", ["", "[[1,0,"])
def test_a_torn_manifest_of_an_earlier_version_is_written_again(tmp_path: Path, torn: str) -> None:
    path = checkpoint(tmp_path)
    (path / MANIFESTS).mkdir(parents=True)
    (path / MANIFESTS / f"{BATCH}.{CONVERTED}").write_text(torn)
    manifests = ManifestLog(LocalFolder(path / MANIFESTS))
    assert stored_in_files(Log(path), manifests, BATCH) is None  # type: ignore[arg-type]
    convert(path)
    check(path)


def test_a_manifest_that_is_damaged_later_is_not_replaced(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    convert(path)
    (path / MANIFESTS / f"{BATCH}.{CONVERTED}").write_text("[[1,0,")
    with pytest.raises(CheckpointError, match="is not a manifest of states"):
        convert(path)


def test_of_two_drivers_that_convert_a_checkpoint_the_first_ones_copy_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = checkpoint(tmp_path)
    write = ManifestLog.write
    with monkeypatch.context() as patch:

        def meanwhile(log: ManifestLog, *arguments: Any) -> None:
            """Another driver converts the checkpoint."""
            patch.setattr(ManifestLog, "write", write)
            convert(path)
            write(log, *arguments)

        patch.setattr(ManifestLog, "write", meanwhile)
        convert(path)
    check(path)

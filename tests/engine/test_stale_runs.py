"""A run that another one has replaced changes nothing in the states of a checkpoint, whenever it was frozen and wakes up."""

import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from headrace.engine._errors import CheckpointError
from headrace.engine.applications.batches.commits import Commits
from headrace.engine.applications.stages.reports import Report
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.checkpoint.folder import LocalFolder
from headrace.engine.checkpoint.manifests import Bucket, Manifest, ManifestLog, new_file, origin_of
from headrace.engine.checkpoint.runs import RunLog
from headrace.engine.checkpoint.state_files import LocalFiles

BUCKETS: list[Bucket] = [(1, 0), (1, 1), (2, 0)]
BEFORE = 5
"""The micro-batches that are committed before two runs meet."""


class Watched:
    """A folder as one driver sees it; it calls a hook before each operation."""

    def __init__(self, path: Path, before: Callable[[], None]) -> None:
        self._folder, self._before = LocalFolder(path), before

    def names(self) -> list[str]:
        self._before()
        return self._folder.names()

    def read(self, name: str) -> str:
        self._before()
        return self._folder.read(name)

    def write(self, name: str, text: str) -> None:
        self._before()
        self._folder.write(name, text)

    def delete(self, name: str) -> None:
        self._before()
        self._folder.delete(name)


@dataclass
class Checkpoint:
    """A checkpoint whose every micro-batch changes two of three buckets."""

    path: Path
    committed: int = -1
    states: dict[Bucket, int] = field(default_factory=dict)
    """The last committed micro-batch that has changed each bucket."""
    owners: dict[int, int] = field(default_factory=dict)
    """The run that has committed each micro-batch, which its entry in the commit log names."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def files(self) -> LocalFiles:
        return LocalFiles(self.path / "states")

    @property
    def manifests(self) -> ManifestLog:
        return ManifestLog(LocalFolder(self.path / "states" / "manifests"))

    def check(self) -> None:
        manifest = self.manifests.read(self.committed, self.owners[self.committed])
        assert manifest is not None
        for at, batch in self.states.items():
            store = BucketFiles(self.files, at, manifest.entries[at])
            assert {number: store.segments.read(number) for number in store.segments.places} == {
                number: b"%d" % (batch if number == batch % 2 else batch - 3)
                for number in (0, 1)
                if batch >= 3 or number == batch % 2
            }


class Driver:
    """A driver, which has begun a run."""

    def __init__(self, checkpoint: Checkpoint, name: str, before: Callable[[], None] = lambda: None, retained: int = 1) -> None:
        self.checkpoint = checkpoint
        self._before = before
        self.batch = checkpoint.committed + 1
        self.is_over = False
        states, manifests, runs = (Watched(checkpoint.path / folder, before) for folder in ("states", "states/manifests", "runs"))
        log = RunLog(runs)
        self.run = log.begin(name, checkpoint.committed, lambda batch: None)
        self.commits = Commits(
            states, ManifestLog(manifests), None, (), checkpoint.committed, log, retained, checkpoint.owners.get
        )
        self.commits.began("query", name, self.run.number)

    def attempt(self, at: Bucket, manifest: Manifest) -> Report:
        """A task processes a bucket: every third micro-batch changes it, and alternates between two pieces."""
        store = BucketFiles(self.checkpoint.files, at, manifest.entries.get(at))
        store.segments.write(self.batch % 2, b"%d" % self.batch)
        store.write_head(b"")
        return Report({at: store.finish(self.batch, self.run.number)})

    @property
    def is_replaced(self) -> bool:
        """Whether another run has started while this one was frozen."""
        return isinstance(self._before, Frozen) and self._before.newer is not None

    def changed(self) -> list[Bucket]:
        return [BUCKETS[self.batch % 3]]

    def micro_batch(self) -> bool:
        """Runs a micro-batch; returns whether it was committed."""
        answer = self.commits.begin(str(self.run.number), str(self.batch))
        if answer.startswith("!"):
            assert "Replaced: another driver" in answer, answer
            return False
        manifest = Manifest.loads(answer)
        try:
            reports = [self.attempt(at, manifest) for at in self.changed()]
        except CheckpointError as error:
            # A newer run removes what only older manifests name.
            if self.is_replaced and "is missing: a driver that has started meanwhile may have removed it" in str(error):
                return False
            raise
        wrong = self.commits.commit(self.batch, packed(reports))
        if wrong is not None:
            assert "Replaced: another driver" in wrong, wrong
            return False
        with self.checkpoint.lock:
            if self.checkpoint.committed >= self.batch:
                return False  # commits/N exists
            self.checkpoint.committed = self.batch
            self.checkpoint.owners[self.batch] = self.run.number
            self.checkpoint.states.update(dict.fromkeys(self.changed(), self.batch))
        self.batch += 1
        return True

    def run_for(self, batches: int) -> "Driver":
        """Runs micro-batches until one fails, which ends the query."""
        for _ in range(batches):
            self.is_over = self.is_over or not self.micro_batch()
        return self


@dataclass
class Frozen:
    """Freezes a run before one of its steps, while another run continues."""

    step: int
    meanwhile: Callable[[], Driver]
    is_armed: bool = False
    newer: Driver | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> None:
        with self.lock:  # no thread of a frozen process does anything
            if self.is_armed and self.newer is None:
                self.step -= 1
                if self.step < 0:
                    self.newer = self.meanwhile()


def packed(reports: list[Report]) -> bytes:
    blocks = [report.row(0).block for report in reports]
    return b"".join(struct.pack("!i", len(block)) + block for block in blocks)


@pytest.mark.parametrize("retained", [1, 3])
@pytest.mark.parametrize("meanwhile", [0, 1, 2, 6])
def test_a_run_may_be_replaced_before_any_of_its_steps(tmp_path: Path, meanwhile: int, retained: int) -> None:
    for step in count():
        checkpoint = Checkpoint(tmp_path / str(step))
        Driver(checkpoint, "a", retained=retained).run_for(BEFORE).commits.close()
        frozen = Frozen(step, lambda at=checkpoint: Driver(at, "c", retained=retained).run_for(meanwhile))
        stale = Driver(checkpoint, "b", frozen, retained)
        frozen.is_armed = True
        stale.run_for(4).commits.close()
        if frozen.newer is None:
            assert step > 10
            return
        checkpoint.check()
        frozen.newer.run_for(2).commits.close()
        checkpoint.check()
        last = Driver(checkpoint, "d", retained=retained)
        assert last.micro_batch()
        assert last.micro_batch()
        last.commits.close()
        checkpoint.check()


def test_a_run_that_was_frozen_before_its_first_micro_batch_deletes_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    Driver(checkpoint, "a").run_for(BEFORE).commits.close()
    stale = Driver(checkpoint, "b")
    Driver(checkpoint, "c").run_for(4).commits.close()
    there = sorted(path.name for path in tmp_path.rglob("*"))
    assert stale.commits.begin("2", str(BEFORE)).startswith("!headrace.engine._errors.Replaced: another driver has started")
    stale.commits.close()
    assert sorted(path.name for path in tmp_path.rglob("*")) == there
    checkpoint.check()


def test_a_replaced_run_writes_no_manifest(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    stale = Driver(checkpoint, "a").run_for(BEFORE)
    manifest = Manifest.loads(stale.commits.begin("1", str(BEFORE)))
    Driver(checkpoint, "b").run_for(4).commits.close()
    wrong = stale.commits.commit(BEFORE, packed([stale.attempt((1, 0), manifest)]))
    stale.commits.close()
    assert wrong is not None
    assert "Replaced: another driver has started" in wrong
    assert f"{BEFORE}.1" not in checkpoint.manifests._folder.names()
    checkpoint.check()


def test_files_of_a_later_run_are_never_left_behind_ones(tmp_path: Path) -> None:
    """Its manifest does not name them yet, as its micro-batch still runs."""
    checkpoint = Checkpoint(tmp_path)
    Driver(checkpoint, "a").run_for(BEFORE).commits.close()
    stale = Driver(checkpoint, "b")
    newer = Driver(checkpoint, "c")
    manifest = Manifest.loads(newer.commits.begin("3", str(BEFORE)))
    report = newer.attempt((1, 1), manifest)
    assert not stale.micro_batch()
    stale.commits.close()
    assert newer.commits.commit(BEFORE, packed([report])) is None
    newer.commits.close()
    assert {entry.file for entry in report.states.values()} <= {path.name for path in (tmp_path / "states").iterdir()}


def test_without_a_run_log_a_manifest_of_a_later_run_tells_of_it(tmp_path: Path) -> None:
    log = ManifestLog(LocalFolder(tmp_path / "manifests"))
    for batch, run in (2, 1), (3, 1), (4, 3):
        log.write(batch, run, Manifest())
    commits = Commits(LocalFolder(tmp_path), log, None, ())
    assert "Replaced: another driver has continued this query" in commits.begin("2", "4")
    commits.close()


@pytest.mark.parametrize("batch", [1, 7])
def test_a_missing_manifest_is_an_error_and_nothing_is_deleted(tmp_path: Path, batch: int) -> None:
    files = [new_file((1, 0), number, 1) for number in range(batch)]
    for name in files:
        (tmp_path / name).touch()
    commits = Commits(LocalFolder(tmp_path), ManifestLog(LocalFolder(tmp_path / "manifests")), None, ())
    answer = commits.begin("2", str(batch))
    commits.close()
    assert answer.startswith("!headrace.engine._errors.CheckpointError: ")
    assert f"no manifest of the states after micro-batch {batch - 1}" in answer
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)


def test_the_first_micro_batch_needs_no_manifest(tmp_path: Path) -> None:
    commits = Commits(LocalFolder(tmp_path), ManifestLog(LocalFolder(tmp_path / "manifests")), None, ())
    assert commits.begin("1", "0") == "[]"
    commits.close()


def test_a_manifest_that_cannot_be_read_spares_everything(tmp_path: Path) -> None:
    """Nobody knows what it names."""
    checkpoint = Checkpoint(tmp_path)
    Driver(checkpoint, "a").run_for(BEFORE).commits.close()
    (tmp_path / "states" / new_file((1, 0), 1, 1)).touch()
    (tmp_path / "states" / "manifests" / "9.1").write_text("[[1,")
    there = {path.name for path in (tmp_path / "states").iterdir()}
    Driver(checkpoint, "b").run_for(1).commits.close()
    assert there <= {path.name for path in (tmp_path / "states").iterdir()}


def test_a_start_deletes_what_earlier_runs_have_left_and_no_manifest_names(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    Driver(checkpoint, "a").run_for(BEFORE).commits.close()
    states = tmp_path / "states"
    left = [new_file((1, 0), BEFORE - 1, 1), "1-0-2-0123456789abcdef", f"manifests/.{BEFORE - 1}.1.0123.tmp"]
    kept = [
        new_file((1, 0), BEFORE, 1),  # a run that was replaced may still commit it
        new_file((1, 0), BEFORE, 2),
        new_file((1, 0), BEFORE - 1, 3),
        f"1-0-{BEFORE + 9}-0123456789abcdef",
        "1-0-notes.txt",
        "notes",
    ]
    for name in (*left, *kept):
        (states / name).touch()
    Driver(checkpoint, "b").run_for(1).commits.close()
    assert not [name for name in left if (states / name).exists()]
    assert [name for name in kept if (states / name).exists()] == kept
    checkpoint.check()


def test_a_file_says_which_micro_batch_and_run_have_written_it() -> None:
    of_run, of_none = origin_of(new_file((2, 5), 17, 3)), origin_of(new_file((2, 5), 17, None))
    assert of_run is not None
    assert (of_run.batch, of_run.run) == (17, 3)
    assert of_none is not None
    assert (of_none.batch, of_none.run) == (17, None)
    assert [origin_of(name) for name in ("manifests", "a-b-c-d", "1-2-x", ".1-2-3-4")] == [None] * 4


def test_a_manifest_is_never_replaced(tmp_path: Path) -> None:
    log = ManifestLog(LocalFolder(tmp_path))
    log.write(3, 1, Manifest())
    with pytest.raises(FileExistsError):
        log.write(3, 1, Manifest())
    assert [path.name for path in tmp_path.iterdir()] == ["3.1"]

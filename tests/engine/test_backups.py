"""A backup of a checkpoint is what a micro-batch committed, whatever its query does meanwhile; and what is torn is named."""

import json
import os
import struct
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.engine import CheckpointError, back_up_checkpoint, restore_checkpoint, verify_checkpoint
from headrace.engine.applications.batches.commits import Commits
from headrace.engine.applications.stages.reports import Report
from headrace.engine.applications.states import garbage
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.checkpoint.backups import back_up
from headrace.engine.checkpoint.folder import LocalFolder
from headrace.engine.checkpoint.log import owner_named_in
from headrace.engine.checkpoint.manifests import Bucket, Manifest, ManifestLog
from headrace.engine.checkpoint.runs import RunLog
from headrace.engine.checkpoint.state_files import LocalFiles
from headrace.engine.checkpoint.trees import Digest, LocalTree

BUCKETS: list[Bucket] = [(1, 0), (1, 1), (2, 0)]
Pieces = dict[Bucket, dict[int, bytes]]
OFFSETS = {"batchTimestampMs": 1, "conf": {"spark.sql.shuffle.partitions": "2"}}


class AtOnce:
    """Runs what a thread would run, so that each test has one order of operations."""

    def __init__(self, threads: int, name: str) -> None:
        pass

    def submit(self, call: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(call(*arguments))
        return done

    def shutdown(self) -> None:
        pass


@pytest.fixture(autouse=True)
def one_order_of_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "ThreadPoolExecutor", AtOnce)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # the disk is not in question


class WatchedFolder(LocalFolder):
    """A folder that announces each operation to its owner."""

    def __init__(self, path: Path, before: Callable[[], None]) -> None:
        super().__init__(path)
        self._before = before

    def names(self) -> list[str]:
        self._before()
        return super().names()

    def read(self, name: str) -> str:
        self._before()
        return super().read(name)

    def write(self, name: str, text: str) -> None:
        self._before()
        super().write(name, text)

    def delete(self, name: str) -> None:
        self._before()
        super().delete(name)


class Died(BaseException):
    """The driver dies, whatever it would catch."""


@dataclass(frozen=True)
class Step:
    """What a micro-batch does: the buckets that it changes, and how many attempts of each come to nothing."""

    changes: tuple[int, ...]
    attempts: int = 0
    dies_at: int | None = None
    """The operation before which the driver dies; another one then repeats the micro-batch."""


@dataclass
class Query:
    """A query that writes a checkpoint as the engine and Spark do: offsets, states, manifest, commit."""

    path: Path
    retained: int = 1
    before: Callable[[], None] = lambda: None
    batch: int = 0
    committed: int = -1
    history: dict[int, Pieces] = field(default_factory=dict)
    """The states after each committed micro-batch."""
    starts: int = 0
    started: bool = False

    def folder(self, name: str) -> WatchedFolder:
        return WatchedFolder(self.path / name, lambda: self.before())

    def start(self) -> None:
        """A driver starts; the one before may have died anywhere."""
        self.starts += 1
        if "metadata" not in self.folder("").names():
            self.folder("").write("metadata", json.dumps({"id": "query"}))
        name, log = f"run-{self.starts}", RunLog(self.folder("headrace/runs"))
        self.present = log.begin(name, self.committed if self.committed >= 0 else None, lambda batch: None)
        manifests = ManifestLog(self.folder("headrace/states/manifests"))
        self.commits = Commits(self.folder("headrace/states"), manifests, None, (), self.committed, log, self.retained)
        self.commits.began("query", name, self.present.number)
        self.batch = self.committed + 1
        self.started = True

    def run(self, step: Step) -> None:
        """Runs a micro-batch, in a second run if the driver dies."""
        alive, left = self.before, step.dies_at

        def before() -> None:
            nonlocal left
            alive()
            if left is not None:
                left -= 1
                if left < 0:
                    raise Died

        self.before = before
        batch = self.committed + 1
        try:
            self.micro_batch(step)
        except Died:
            left = None
            self.started = False
            if self.committed < batch:
                self.micro_batch(step)
        finally:
            self.before = alive

    def micro_batch(self, step: Step) -> None:
        if not self.started:
            self.start()
        offsets, commits = self.folder("offsets"), self.folder("commits")
        if str(self.batch) not in offsets.names():
            offsets.write(str(self.batch), f"v1\n{json.dumps(OFFSETS)}\n-")
        answer = self.commits.begin(str(self.present.number), str(self.batch))
        assert not answer.startswith("!"), answer
        manifest = Manifest.loads(answer)
        states: Pieces = {at: dict(pieces) for at, pieces in self.history.get(self.committed, {}).items()}
        reports = []
        for number in step.changes:
            at = BUCKETS[number]
            for _ in range(step.attempts + 1):
                store = BucketFiles(LocalFiles(self.path / "headrace/states"), at, manifest.entries.get(at))
                piece = b"%d of %d" % (self.batch, number)
                self.before()
                store.segments.write(self.batch % 2, piece)
                store.write_head(b"")
                entry = store.finish(self.batch, self.present.number)
            states.setdefault(at, {})[self.batch % 2] = piece
            reports.append(Report({at: entry}))
        wrong = self.commits.commit(self.batch, packed(reports))
        assert wrong is None, wrong
        self.before()
        self.history[self.batch] = states
        commits.write(str(self.batch), f'v1\n{{"nextBatchWatermarkMs":0}}\n{json.dumps({"headraceRun": self.present.id})}')
        self.committed = self.batch
        self.batch += 1
        for folder in (offsets, commits):
            for name in folder.names():
                if int(name) < self.committed - self.retained:
                    folder.delete(name)


def packed(reports: list[Report]) -> bytes:
    blocks = [report.row(0).block for report in reports]
    return b"".join(struct.pack("!i", len(block)) + block for block in blocks)


def check(checkpoint: Path, history: dict[int, Pieces]) -> int:
    """Checks that a checkpoint has the states of its last committed micro-batch; returns that."""
    logs = {log: {int(name) for name in os.listdir(checkpoint / log)} for log in ("offsets", "commits")}
    batch = max(logs["commits"])
    assert max(logs["offsets"]) == batch, "an unfinished micro-batch stays out"
    if batch:
        assert batch - 1 in logs["offsets"] & logs["commits"], "Spark reads the last two"
    runs = RunLog(LocalFolder(checkpoint / "headrace/runs"))
    owner = owner_named_in((checkpoint / "commits" / str(batch)).read_text())
    manifest = ManifestLog(LocalFolder(checkpoint / "headrace/states/manifests")).read(batch, runs.number_of(owner or ""))
    assert manifest is not None
    found = {}
    for at, entry in manifest.entries.items():
        store = BucketFiles(LocalFiles(checkpoint / "headrace/states"), at, entry)
        found[at] = {number: store.segments.read(number) for number in store.segments.places}
    assert found == history[batch]
    named = {*manifest.files, "manifests"}
    assert set(os.listdir(checkpoint / "headrace/states")) == named, (
        "nothing of a later micro-batch, and nothing that is not needed"
    )
    return batch


def restored(backup: Path, into: Path, history: dict[int, Pieces]) -> int:
    assert verify_checkpoint(str(backup)).wrong == ()
    assert restore_checkpoint(str(backup), str(into)).batch == check(into, history)
    assert verify_checkpoint(str(into)).wrong == ()
    return check(into, history)


STEPS = [Step((0, 1, 2)), Step((0,), 1), Step(()), Step((1, 2)), Step((0,), dies_at=4), Step((2,), 2), Step((0, 1)), Step((1,))]


def test_a_backup_before_any_operation_of_the_query_is_what_was_committed_by_then(tmp_path: Path) -> None:
    taken = list[int]()
    query = Query(tmp_path / "checkpoint")

    def before() -> None:
        if query.committed < 0:
            return
        number, committed = len(taken), query.committed
        backup, into = tmp_path / f"backup-{number}", tmp_path / f"restored-{number}"
        taken.append(-1)  # remains if the query takes what fails here for an error of its own
        back_up_checkpoint(str(query.path), str(backup))
        found = restored(backup, into, query.history)
        assert found == committed
        taken[-1] = found

    query.before = before
    for step in STEPS:
        query.run(step)
    assert set(taken) == set(range(len(STEPS)))
    assert len(taken) > 100


class InterruptedTree(LocalTree):
    """A checkpoint whose reader is held up before each of its operations."""

    def __init__(self, root: Path, before: Callable[[], None]) -> None:
        super().__init__(root)
        self._at, self._before = root, before

    def folder(self, name: str) -> LocalFolder:
        return WatchedFolder(self._at / name, self._before)

    def below(self, name: str) -> list[str]:
        self._before()
        return super().below(name)

    def held_up(self) -> None:
        self._before()


class TakingTree(LocalTree):
    """A backup whose writer is held up before each copy."""

    def take(self, name: str, source: LocalTree, other: str) -> Digest:
        assert isinstance(source, InterruptedTree)
        source.held_up()
        return super().take(name, source, other)


steps = st.builds(
    Step,
    st.lists(st.integers(0, 2), unique=True, min_size=1).map(tuple),
    st.integers(0, 1),
    st.sampled_from([None, None, None, 0, 3, 7, 12, 20]),
)
# How many micro-batches are committed before an operation: now and then so many that what it is about to read is gone.
pauses = st.lists(st.sampled_from([0, 0, 0, 1, 2, 5]), min_size=10, max_size=80)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, min_size=10, max_size=40), st.integers(1, 2), pauses, st.integers(1, 8))
def test_a_query_that_commits_while_it_is_copied_is_copied_as_of_one_of_its_micro_batches(
    tmp_path_factory: pytest.TempPathFactory, history: list[Step], retained: int, advances: list[int], first: int
) -> None:
    folder = tmp_path_factory.mktemp("query")
    query, waiting, pace = Query(folder / "checkpoint", retained), list(history), iter(advances)
    for step in waiting[:first]:
        query.run(step)
    del waiting[:first]
    before = query.committed

    def advance() -> None:
        for _ in range(next(pace, 0)):
            if waiting:
                query.run(waiting.pop(0))

    back_up(InterruptedTree(query.path, advance), TakingTree(folder / "backup"))
    assert before <= restored(folder / "backup", folder / "restored", query.history) <= query.committed


# What is torn


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    query = Query(tmp_path / "checkpoint")
    for step in STEPS:
        query.run(step)
    back_up_checkpoint(str(query.path), str(tmp_path / "backup"))
    return tmp_path / "backup"


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "harm", [damage, lambda path: os.truncate(path, path.stat().st_size // 2), os.unlink], ids=["bit", "half", "gone"]
)
def test_each_file_of_a_backup_that_is_torn_is_named_and_not_restored(
    tmp_path: Path, backup: Path, harm: Callable[[Path], None]
) -> None:
    for number, path in enumerate(files_of(backup)):
        content = path.read_bytes()
        harm(path)
        name = str(path.relative_to(backup)).removeprefix("files/")
        found = verify_checkpoint(str(backup))
        assert any(name in sentence for sentence in found.wrong), (name, found)
        into = tmp_path / f"into-{number}"
        with pytest.raises(CheckpointError, match=r"whole|damaged|not a backup"):
            restore_checkpoint(str(backup), str(into))
        assert not into.exists() or "headrace-unfinished" in os.listdir(into), "no query starts on it"
        path.write_bytes(content)
    assert verify_checkpoint(str(backup)).wrong == ()


@pytest.mark.parametrize(
    "harm", [damage, lambda path: os.truncate(path, path.stat().st_size // 2), os.unlink], ids=["bit", "half", "gone"]
)
def test_states_that_are_damaged_in_the_checkpoint_are_named_before_they_are_relied_on(
    tmp_path: Path, backup: Path, harm: Callable[[Path], None]
) -> None:
    checkpoint = tmp_path / "checkpoint"
    batch = max(int(name) for name in os.listdir(checkpoint / "commits"))
    manifests = ManifestLog(LocalFolder(checkpoint / "headrace/states/manifests"))
    manifest = manifests.read(batch)
    assert manifest is not None
    file = next(iter(manifest.entries.values())).file
    harm(checkpoint / "headrace/states" / file)
    assert any(file in sentence for sentence in verify_checkpoint(str(checkpoint)).wrong)
    with pytest.raises(CheckpointError, match="not whole"):
        back_up_checkpoint(str(checkpoint), str(tmp_path / "another"))
    assert verify_checkpoint(str(tmp_path / "another")).wrong, "what was begun is no backup"


def test_what_exists_is_not_overwritten(tmp_path: Path, backup: Path) -> None:
    with pytest.raises(CheckpointError, match="exists; name a new folder"):
        back_up_checkpoint(str(tmp_path / "checkpoint"), str(backup))
    with pytest.raises(CheckpointError, match="exists; name a new folder"):
        restore_checkpoint(str(backup), str(tmp_path / "checkpoint"))


def test_a_folder_without_a_committed_micro_batch_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        with pytest.raises(CheckpointError, match="no committed micro-batch"):
            back_up_checkpoint(str(folder), str(tmp_path / "backup"))
    assert not (tmp_path / "backup").exists()


def test_entries_of_a_micro_batch_that_is_not_committed_and_hidden_files_stay_out(tmp_path: Path, backup: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets" / str(len(STEPS))).write_text("v1\n{}\n-")
    (checkpoint / "headrace/states/1-0-8-9-torn").write_bytes(b"half")
    (checkpoint / "commits" / f".{len(STEPS)}.1.tmp").write_text("v1")
    back_up_checkpoint(str(checkpoint), str(tmp_path / "another"))
    assert [str(path.relative_to(tmp_path / "another")) for path in files_of(tmp_path / "another")] == [
        str(path.relative_to(backup)) for path in files_of(backup)
    ]

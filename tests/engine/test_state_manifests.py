"""The manifests of states: what a driver that dies at any moment leaves behind is enough for the next one."""

import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.engine import CheckpointError
from headrace.engine.applications.batches.commits import Commits
from headrace.engine.applications.stages.reports import Report
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.checkpoint.folder import LocalFolder
from headrace.engine.checkpoint.manifests import Bucket, Entry, Manifest, ManifestLog
from headrace.engine.checkpoint.state_files import LocalFiles

BUCKETS: list[Bucket] = [(1, 0), (1, 1), (2, 0)]


class Died(Exception):
    """The driver dies."""


@dataclass
class World:
    """A checkpoint, and what its states should be.

    Attributes:
        folder: The folder of states.
        committed: The last micro-batch in the commit log.
        pieces: The pieces of each bucket after it.
        runs: The number of runs.
    """

    folder: Path
    draw: random.Random
    committed: int | None = None
    pieces: dict[Bucket, dict[int, bytes]] = field(default_factory=lambda: {bucket: {} for bucket in BUCKETS})
    runs: int = 0

    @property
    def manifests(self) -> ManifestLog:
        return ManifestLog(LocalFolder(self.folder / "manifests"))

    def store(self, bucket: Bucket, manifest: Manifest) -> BucketFiles:
        return BucketFiles(LocalFiles(self.folder), bucket, manifest.entries.get(bucket))

    def run(self, batches: int) -> None:
        """One run, which may die in any micro-batch, before or after its manifest, or after its commit."""
        self.runs += 1
        commits = Commits(LocalFolder(self.folder), self.manifests, None, ())
        try:
            for _ in range(batches):
                self._micro_batch(commits)
        except Died:
            pass
        finally:
            commits.close()

    def _micro_batch(self, commits: Commits) -> None:
        batch = 0 if self.committed is None else self.committed + 1
        manifest = Manifest.loads(commits.begin(str(self.runs), str(batch)))
        pieces = {bucket: dict(kept) for bucket, kept in self.pieces.items()}
        reports = []
        for bucket in self.draw.sample(BUCKETS, self.draw.randrange(len(BUCKETS) + 1)):
            for _ in range(self.draw.choice([1, 1, 2])):  # the last attempt counts
                pieces[bucket], entry = self._attempt(bucket, manifest, batch)
            reports.append(Report({bucket: entry}))
        self._may_die()
        assert commits.commit(batch, packed(reports)) is None
        self._may_die()
        self.committed, self.pieces = batch, pieces
        self._may_die()

    def _attempt(self, bucket: Bucket, manifest: Manifest, batch: int) -> tuple[dict[int, bytes], Entry]:
        store = self.store(bucket, manifest)
        kept = dict(self.pieces[bucket])
        for number in self.draw.sample(range(6), 3):
            if number in kept and self.draw.random() < 0.3:
                store.segments.drop([number])
                del kept[number]
            else:
                kept[number] = self.draw.randbytes(self.draw.randrange(40))
                store.segments.write(number, kept[number])
        store.write_head(b"%d" % batch)
        return kept, store.finish(batch, self.runs)

    def _may_die(self) -> None:
        if self.draw.random() < 0.1:
            raise Died


def packed(reports: list[Report]) -> bytes:
    blocks = [report.row(0).block for report in reports]
    return b"".join(struct.pack("!i", len(block)) + block for block in blocks)


@pytest.mark.parametrize("seed", range(20))
def test_states_are_those_after_the_last_commit_whenever_the_driver_dies(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, random.Random(seed))
    for _ in range(12):
        world.run(world.draw.randrange(1, 15))
        if world.committed is None:
            continue
        manifest = world.manifests.read(world.committed)
        assert manifest is not None
        for bucket, kept in world.pieces.items():
            store = world.store(bucket, manifest)
            assert {number: store.segments.read(number) for number in store.segments.places} == kept
    world.runs += 1
    last = Commits(LocalFolder(tmp_path), world.manifests, None, ())
    needed = Manifest.loads(last.begin(str(world.runs), str(0 if world.committed is None else world.committed + 1)))
    last.close()
    if world.committed is not None:
        found = world.manifests.read(world.committed)
        assert found is not None
        assert {at: entry.file for at, entry in needed.entries.items()} == {at: entry.file for at, entry in found.entries.items()}
        left = {path.name for path in tmp_path.iterdir() if path.is_file()}
        assert found.files <= left
        assert {name for name in left if int(name.split("-")[2]) <= world.committed} <= {
            name for manifest in world.manifests.read_all().values() for name in manifest.files
        }


def entry(name: str) -> Entry:
    return Entry(name, 0, 1, (name,), 0)


@pytest.fixture
def log(tmp_path: Path) -> ManifestLog:
    return ManifestLog(LocalFolder(tmp_path / "manifests"))


def test_the_manifest_of_the_latest_run_counts(log: ManifestLog) -> None:
    for run in 9, 10:
        log.write(7, run, Manifest({(1, 0): entry(f"1-0-7-{run}")}))
    found = log.read(7)
    assert found is not None
    assert found.files == {"1-0-7-10"}
    assert log.read(6) is None


def test_the_manifest_of_the_run_that_has_committed_a_micro_batch_counts_where_it_is_known(tmp_path: Path) -> None:
    """A run that was replaced may commit what it had begun, after its successor has written a manifest of it."""
    log = ManifestLog(LocalFolder(tmp_path / "manifests"))
    for run in 4, 5:
        log.write(7, run, Manifest({(1, 0): entry(f"1-0-7-{run}-a")}))
    for known, counts in (4, 4), (5, 5), (None, 5), (9, 5):
        commits = Commits(LocalFolder(tmp_path), log, None, (), committed_by={7: known}.get)
        assert Manifest.loads(commits.begin("6", "8")).entries[1, 0].file == f"1-0-7-{counts}-a"
        commits.close()


def test_a_micro_batch_that_another_driver_has_committed_meanwhile_continues_from_the_one_before(tmp_path: Path) -> None:
    log = ManifestLog(LocalFolder(tmp_path / "manifests"))
    for batch in 6, 7:
        log.write(batch, 1, Manifest({(1, 0): entry(f"1-0-{batch}-a")}))
    commits = Commits(LocalFolder(tmp_path), log, None, ())
    assert Manifest.loads(commits.begin("2", "7")).entries[1, 0].file == "1-0-6-a"
    commits.close()


def test_a_manifest_that_is_not_whole_is_an_error_that_names_it(log: ManifestLog, tmp_path: Path) -> None:
    log.write(7, 1, Manifest({(1, 0): entry("a")}))
    (tmp_path / "manifests" / "7.1").write_text("[[1, 0,")
    with pytest.raises(CheckpointError, match=r"headrace/states/manifests/7\.1 .* is not a manifest of states"):
        log.read(7)


def test_errors_of_the_driver_are_told_and_not_raised(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "3.1").write_text("nothing")
    commits = Commits(LocalFolder(tmp_path), ManifestLog(LocalFolder(tmp_path / "manifests")), None, ())
    assert commits.begin("2", "4").startswith("!headrace.engine._errors.CheckpointError: headrace/states/manifests/3.1 ")
    assert "without having begun" in str(commits.commit(4, b""))
    commits.close()


def flipped(content: bytes, draw: random.Random) -> bytes:
    damaged = bytearray(content)
    damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


@pytest.mark.parametrize("what", ["pieces", "description"])
def test_a_flipped_bit_in_a_file_of_states_is_an_error_that_names_it(tmp_path: Path, what: str) -> None:
    draw, at = random.Random(7), (1, 0)
    store = BucketFiles(LocalFiles(tmp_path), at, None)
    for number in range(5):
        store.changes.write(number, draw.randbytes(300))
        store.segments.write(number, draw.randbytes(300))
    store.write_head(draw.randbytes(100))
    last = store.finish(3, 1)
    file = tmp_path / last.file
    good, start = file.read_bytes(), last.offset
    for _ in range(300):
        file.write_bytes(
            flipped(good[:start], draw) + good[start:] if what == "pieces" else good[:start] + flipped(good[start:], draw)
        )
        with pytest.raises(
            CheckpointError, match=rf"headrace/states/{last.file} in the checkpoint is damaged: .*restore the file"
        ):
            read_all(tmp_path, at, last)
    file.write_bytes(good)
    read_all(tmp_path, at, last)


def read_all(folder: Path, at: Bucket, last: Entry) -> None:
    store = BucketFiles(LocalFiles(folder), at, last)
    for pieces in store.changes, store.segments:
        for number in pieces.places:
            pieces.read(number)


def test_a_flipped_bit_in_a_manifest_is_an_error_that_names_it(log: ManifestLog, tmp_path: Path) -> None:
    log.write(7, 1, Manifest({(level, bucket): entry(f"{level}-{bucket}-7-1-a") for level in (1, 2) for bucket in range(8)}))
    file, draw = tmp_path / "manifests" / "7.1", random.Random(7)
    good = file.read_bytes()
    for _ in range(300):
        file.write_bytes(flipped(good, draw))
        with pytest.raises(
            CheckpointError, match=r"headrace/states/manifests/7\.1 .* is not a manifest of states .*restore the file"
        ):
            log.read(7)

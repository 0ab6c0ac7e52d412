"""The files that a micro-batch writes for a bucket, and names in its manifest, do not grow with states that did not change."""

import random
from pathlib import Path

import pytest

from headrace.engine.applications.states import durable, segments, store
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.durable import catch_up, load, save
from headrace.engine.applications.states.segments import DirtyKeys
from headrace.engine.applications.states.store import MERGED, TIER_BYTES, due, read_head
from headrace.engine.checkpoint.manifests import Entry
from headrace.engine.checkpoint.state_files import LocalFiles
from headrace.pipelines.runtime import StateClass, States

CLASSES = {"s": StateClass(bytes, "s")}
FINAL = TIER_BYTES * MERGED**2
TIERS = 3


@pytest.mark.parametrize("seed", range(8))
def test_pieces_are_few_and_each_byte_is_written_a_few_times(seed: int) -> None:
    draw = random.Random(seed)
    largest = draw.choice([TIER_BYTES, 3 * TIER_BYTES, FINAL // 2, 2 * FINAL])
    pieces: list[int] = []
    arrived = written = 0
    for _ in range(3_000):
        new = draw.randrange(TIER_BYTES, largest + 1) if draw.random() < 0.9 else TIER_BYTES
        arrived += new
        merged = due([new, *reversed(pieces)], FINAL)
        assert 1 <= merged <= len(pieces) + 1
        rest = len(pieces) - (merged - 1)
        new += sum(pieces[rest:])
        written += new
        pieces[rest:] = [new]
        open_ = sum(size < FINAL for size in pieces)
        assert open_ < MERGED * TIERS, pieces
        assert len(pieces) - open_ <= arrived / FINAL
    assert written <= (TIERS + 1) * arrived


def test_a_piece_that_is_final_leaves_none_open_before_it() -> None:
    assert due([FINAL, 1, 2, 3, FINAL, 4], FINAL) == 4
    assert due([FINAL], FINAL) == 1
    assert due([1, FINAL, 1], FINAL) == 1


class Bucket:
    """A bucket in one worker."""

    def __init__(self, folder: Path) -> None:
        self.files = LocalFiles(folder)
        self.folder = folder
        self.kept: dict[str, States] = {"s": States()}
        self.dirty = DirtyKeys()
        self.entry: Entry | None = None

    def save(self, batch: int, changed: dict[str, bytes | None]) -> int:
        """Saves a micro-batch; returns how much it has written, in bytes."""
        for key, value in changed.items():
            if value is None:
                self.kept["s"].pop(key, None)
            else:
                self.kept["s"][key] = value
        store = BucketFiles(self.files, (1, 0), self.entry)
        save(store, read_head(store), self.kept, self.dirty, {"s": dict.fromkeys(changed)}, CLASSES, {})
        before, self.entry = self.entry, store.finish(batch)
        for old in set(before.needs if before else ()) - set(self.entry.needs):
            (self.folder / old).unlink()
        return (self.folder / self.entry.file).stat().st_size

    def check(self) -> None:
        store = BucketFiles(self.files, (1, 0), self.entry)
        assert dict(load(store, read_head(store), CLASSES)["s"]) == dict(self.kept["s"])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything begins with a hundredth of the states."""
    monkeypatch.setattr(durable, "FOLD_BYTES", 10_000)
    monkeypatch.setattr(durable, "INLINE_BYTES", 160)
    monkeypatch.setattr(store, "TIER_BYTES", 160)
    monkeypatch.setattr(store, "FINAL_BYTES", 40_000)
    monkeypatch.setattr(segments, "SEGMENT_KEYS", 160)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(4))
def test_states_are_those_that_were_saved_and_a_worker_that_is_behind_catches_up(tmp_path: Path, seed: int) -> None:
    draw, bucket = random.Random(seed), Bucket(tmp_path)
    behind: tuple[int, dict[str, States]] = (0, {"s": States()})
    for batch in range(400):
        most = draw.choice([1, 5, 5, 30]) if batch != 200 else 800
        keys = [f"k{draw.randrange(1_500)}" for _ in range(most)]
        bucket.save(batch, {key: None if draw.random() < 0.1 else draw.randbytes(draw.randrange(60)) for key in keys})
        store = BucketFiles(bucket.files, (1, 0), bucket.entry)
        head = read_head(store)
        number, kept = behind
        if number >= head.floor:
            catch_up(store, head, number, kept, CLASSES)
            assert dict(kept["s"]) == dict(bucket.kept["s"])
        if draw.random() < 0.2 or number < head.floor:
            behind = head.number, load(store, head, CLASSES)
            bucket.check()


@pytest.mark.usefixtures("small")
def test_files_and_bytes_of_a_micro_batch_do_not_grow_with_the_bucket(tmp_path: Path) -> None:
    files: dict[int, int] = {}
    written: dict[int, float] = {}
    for keys in (2_000, 20_000):
        draw, bucket = random.Random(1), Bucket(tmp_path / str(keys))
        bucket.save(0, {f"k{number}": draw.randbytes(40) for number in range(keys)})
        sizes, named = [], []
        for batch in range(1, 1_200):
            sizes.append(bucket.save(batch, {f"k{draw.randrange(keys)}": draw.randbytes(40) for _ in range(5)}))
            assert bucket.entry is not None
            named.append(len(bucket.entry.needs))
        bucket.check()
        files[keys], written[keys] = max(named), sum(sizes) / len(sizes)
    assert files[20_000] <= segments.MAX_SEGMENTS + 60
    assert written[20_000] <= 2 * written[2_000]


def test_a_large_snapshot_has_a_bounded_number_of_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_KEYS", 4)
    bucket, draw = Bucket(tmp_path), random.Random(1)
    for batch in range(8):
        bucket.save(batch, {f"k{number}": draw.randbytes(9) for number in range(100 * batch, 100 * (batch + 1))})
        bucket.check()
    store = BucketFiles(bucket.files, (1, 0), bucket.entry)
    assert len(read_head(store).segments) <= segments.MAX_SEGMENTS

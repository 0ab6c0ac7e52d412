"""A reader of an application that runs, dies and is rescaled gets the states of its last commit."""

from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests import machines
from tests.engine.levels import Count, one_level
from tests.engine.live_checkpoint import STEPS, Changes, LiveCheckpoint

from headrace.engine import CheckpointError, OptionError, StoredStates
from headrace.engine.applications.states import durable, segments
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.store import read_head
from headrace.engine.checkpoint.folder import LocalFolder
from headrace.engine.checkpoint.log import UNFINISHED
from headrace.engine.checkpoint.runs import RUNS, RunLog
from headrace.engine.checkpoint.state_files import LocalFiles
from headrace.pipelines.runtime import Key

KEYS: Sequence[Key] = [
    "a",
    "b",
    b"a",
    "1",
    1,
    -7,
    2.5,
    None,
    ("a", 1),
    ("a", ("b", None)),
    "",
    b"",
    "ü" * 40,
    *map(str, range(60)),
]
CHANGES = st.dictionaries(
    st.tuples(st.sampled_from(STEPS), st.sampled_from(KEYS)), st.none() | st.integers(1, 2**40), max_size=40
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few states make several segments and pieces."""
    monkeypatch.setattr(segments, "SEGMENT_KEYS", 4)
    monkeypatch.setattr(durable, "FOLD_BYTES", 400)
    monkeypatch.setattr(durable, "INLINE_BYTES", 200)
    monkeypatch.setattr(durable, "WHOLE_KEYS", 30)


class LiveStates(RuleBasedStateMachine):
    """An application that commits, dies and is rescaled, while its states are read."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(mkdtemp())
        self.folders = 0
        self.checkpoint = LiveCheckpoint(self.root / "0")
        self.early: StoredStates | None = None

    @rule(changes=CHANGES)
    def commit(self, changes: Changes) -> None:
        self.checkpoint.run(changes)

    @rule(changes=CHANGES, when=st.sampled_from(["before", "after"]))
    def die(self, changes: Changes, when: str) -> None:
        self.checkpoint.run(changes, when)

    @rule()
    def restart(self) -> None:
        self.checkpoint.start()

    @precondition(lambda self: self.checkpoint.committed >= 0)
    @rule(partitions=st.integers(1, 8))
    def rescale(self, partitions: int) -> None:
        self.folders += 1
        self.checkpoint = self.checkpoint.rescaled(self.root / str(self.folders), partitions)
        self.early = None

    @precondition(lambda self: self.checkpoint.committed >= 0)
    @rule()
    def look_early(self) -> None:
        """A reader that reads later than it has looked for the last commit."""
        self.early = self.checkpoint.states()

    @precondition(lambda self: self.early is not None)
    @rule(key=st.sampled_from(KEYS), step=st.sampled_from(STEPS))
    def read_late(self, key: Key, step: str) -> None:
        assert self.early is not None
        found = self.early.find(step, key)
        assert found == counted(self.checkpoint.expected[self.early.committed.batch].get((step, key)))

    @invariant()
    def what_is_read_is_what_the_last_commit_has_left(self) -> None:
        if self.checkpoint.committed < 0:
            return
        states, expected = self.checkpoint.states(), self.checkpoint.expected[self.checkpoint.committed]
        assert states.committed.batch == self.checkpoint.committed
        for step in STEPS:
            of_step = {key: Count(seen) for (name, key), seen in expected.items() if name == step}
            assert dict(states.all(step)) == of_step
            # Others each time: all of them would take most of the time.
            for key in KEYS[self.checkpoint.committed % 8 :: 8]:
                assert states.find(step, key) == of_step.get(key)
        assert {size.step: size.keys for size in states.sizes()} == {
            step: sum(name == step for name, _ in expected) for step in STEPS
        }

    def teardown(self) -> None:
        self.checkpoint.stop()
        rmtree(self.root)


def counted(seen: int | None) -> Count | None:
    return None if seen is None else Count(seen)


def test_what_is_read_is_what_the_last_commit_has_left(request: pytest.FixtureRequest) -> None:
    machines.run(LiveStates, request.config, 0.5)


class Disturbed(LocalFiles):
    """Files of which the application deletes some, since it commits further micro-batches, before the first ones are read."""

    def __init__(self, checkpoint: LiveCheckpoint, before: Sequence[int]) -> None:
        super().__init__(checkpoint.folder / "headrace" / "states")
        self._checkpoint, self._before, self.reads = checkpoint, before, 0

    def read(self, name: str, offset: int, length: int) -> bytes:
        self.reads += 1
        if self.reads in self._before:
            for _ in range(3):
                self._checkpoint.run({("count", str(n)): self._checkpoint.committed for n in range(40)})
            self._checkpoint.start()
        return super().read(name, offset, length)


@pytest.fixture
def checkpoint(tmp_path: Path) -> LiveCheckpoint:
    made = LiveCheckpoint(tmp_path / "checkpoint")
    made.run({("count", str(n)): n + 1 for n in range(40)})
    return made


def test_a_reader_begins_again_when_the_application_deletes_what_it_reads(checkpoint: LiveCheckpoint) -> None:
    states = checkpoint.states()
    files = Disturbed(checkpoint, (1, 3))
    states._files = files
    found = states.find("count", "7")
    assert files.reads > 3
    assert states.committed.batch == checkpoint.committed == 6
    assert found == Count(checkpoint.expected[6]["count", "7"])
    checkpoint.stop()


def test_states_that_are_listed_are_never_of_two_micro_batches(checkpoint: LiveCheckpoint) -> None:
    states = checkpoint.states()
    listed = states.all("count")
    next(listed)
    states._files = Disturbed(checkpoint, (1,))
    with pytest.raises(CheckpointError, match=r"changes faster than it can be read.*minBatchesToRetain"):
        list(listed)
    assert {state.seen for _, state in states.all("count")} == {checkpoint.committed - 1}
    checkpoint.stop()


def test_of_two_drivers_the_states_are_read_of_the_one_that_the_commit_names(checkpoint: LiveCheckpoint) -> None:
    """Both have written a manifest of the micro-batch, and the one with the lower number has committed it."""
    log = RunLog(LocalFolder(checkpoint.folder / RUNS))
    for run in ("first", "second", "third"):
        log.begin(run, None, lambda _: None)
    checkpoint.start()
    checkpoint.run({("count", "7"): 100}, "after")
    checkpoint.start()
    checkpoint.run({("count", "7"): 200}, "after")
    commit = checkpoint.folder / "commits" / "1"
    for owner, seen in (("second", 100), ("third", 200), ("unknown", 200)):
        commit.write_text(f'v1\n{{}}\n{{"headraceRun": "{owner}"}}')
        assert checkpoint.states().find("count", "7") == Count(seen)
        assert dict(checkpoint.states().all("count"))["7"] == Count(seen)
    checkpoint.stop()


def test_a_file_that_is_missing_for_another_reason_is_named(checkpoint: LiveCheckpoint) -> None:
    states = checkpoint.states()
    for entry in states.committed.manifest.entries.values():
        (checkpoint.folder / "headrace" / "states" / entry.file).unlink()
    with pytest.raises(CheckpointError, match=r"headrace/states/1-\S+ in the checkpoint is missing"):
        states.find("count", "7")
    checkpoint.stop()


def test_one_key_reads_one_segment_of_one_bucket(checkpoint: LiveCheckpoint) -> None:
    for batch in range(30):
        checkpoint.run({("count", str(n)): batch for n in range(200)})
    states = checkpoint.states()
    heads = {at: read_head(BucketFiles(checkpoint.files, at, entry)) for at, entry in states.committed.manifest.entries.items()}
    assert min(len(head.segments) for head in heads.values()) > 10
    counting = Disturbed(checkpoint, ())
    states._files = counting
    assert states.find("count", "7") == Count(29)
    # The description of the bucket, and the segment: all states were written with the last micro-batch.
    assert counting.reads == 2
    checkpoint.stop()


def test_what_cannot_be_read_is_refused_by_name(checkpoint: LiveCheckpoint, tmp_path: Path) -> None:
    states = checkpoint.states()
    with pytest.raises(OptionError, match=r"pipeline counts-again keeps no states in a step total; it does in: count, again"):
        states.find("total", "7")
    with pytest.raises(OptionError, match="total"):
        states.all("total")
    with pytest.raises(OptionError, match=r"step count: a key must be bytes, text, .* not a list"):
        states.find("count", ["7"])  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=r"no committed micro-batch, and therefore no states; is it the right folder\?"):
        StoredStates(None, str(tmp_path / "elsewhere"), one_level().graph)

    (checkpoint.folder / "headrace-steps").mkdir()
    (checkpoint.folder / "headrace-steps" / "0").write_text('{"votes": {}}')
    with pytest.raises(CheckpointError, match=r"no states of step count after micro-batch 0: .* are votes\. Is it .* another"):
        checkpoint.states().find("count", "7")

    (checkpoint.folder / UNFINISHED).touch()
    with pytest.raises(CheckpointError, match="is incomplete, since its creation did not finish"):
        checkpoint.states()
    (checkpoint.folder / UNFINISHED).unlink()
    rmtree(checkpoint.folder / "headrace-steps")
    rmtree(checkpoint.folder / "headrace")
    with pytest.raises(CheckpointError, match="is not the checkpoint of an application"):
        checkpoint.states()
    checkpoint.stop()

"""States for which a worker has no memory are in a file, and nobody can tell the difference."""

import os
import pickle
import resource
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.engine.stages import MemoryStore, Stages
from tests.engine.test_pipeline_stages import APPLICATIONS, TIMED, messages

from headrace.engine._errors import SpillError
from headrace.engine.applications.states import durable, segments, spill_file, spilled_due
from headrace.engine.applications.states.keys import parts_in, parts_of, segments_of
from headrace.engine.applications.states.spill_file import SpillFile, local_folder
from headrace.engine.applications.states.spilled_due import SpilledDue
from headrace.engine.applications.states.spilled_states import SpilledStates
from headrace.pipelines import Message, OnError, Pipeline, StateError
from headrace.pipelines.runtime import END, Key, StateClass, in_order_of_keys

KEYS: list[Key] = ["", "a", "ä", b"", b"a", "1", 1, -7, 2**70, 0.5, None, (), ("a", 1), (("a",), None, b"\0"), "x" * 99]


@dataclass
class Bag:
    n: int = 0
    more: list[int] = field(default_factory=list)


class LikeADict(RuleBasedStateMachine):
    """Blocks of keys, of which some states change, disappear and appear, as steps do it."""

    @initialize(room=st.sampled_from([0, 1, 500, 2_000, 10**9]), scanned=st.sampled_from([1, 3, 100]))
    def open(self, room: int, scanned: int) -> None:
        spill_file._SCANNED = spill_file._ASKED = scanned
        self.states = SpilledStates(SpillFile(local_folder()), StateClass(Bag, "step"), room)
        self.model: dict[Key, Bag] = {}

    def teardown(self) -> None:
        spill_file._SCANNED, spill_file._ASKED = 2_000, 500

    @rule(
        block=st.lists(
            st.tuples(st.sampled_from(KEYS), st.sampled_from(["change", "set", "del", "pop", "read"]), st.integers(0, 9))
        )
    )
    def process(self, block: list[tuple[Key, str, int]]) -> None:
        self.states.begin([key for key, _, _ in block])
        changed = []
        for key, what, n in block:
            assert (key in self.states) == (key in self.model)
            assert self.states.get(key) == self.model.get(key)
            if what == "change" and key in self.model:
                for states in (self.states, self.model):
                    states[key].more.append(n)
                changed.append(key)
            elif what in ("set", "change"):
                self.states[key], self.model[key] = Bag(n), Bag(n)
            elif what == "pop":
                assert self.states.pop(key, None) == self.model.pop(key, None)
            elif what == "del" and key in self.model:
                del self.states[key], self.model[key]
            elif what == "del":
                with pytest.raises(KeyError):
                    del self.states[key]
        self.states.touched(changed)

    @rule(key=st.sampled_from(KEYS), n=st.integers(0, 9))
    def elsewhere(self, key: Key, n: int) -> None:
        """A columnar function may use any key, also one that its block lacks."""
        if key in self.states:
            self.states[key].n = self.model[key].n = n
            self.states.touched([key])
        else:
            with pytest.raises(KeyError):
                self.states[key]
            with pytest.raises(KeyError):
                self.states.pop(key)

    @rule(news=st.dictionaries(st.sampled_from(KEYS), st.integers(0, 9)))
    def catch_up(self, news: dict[Key, int]) -> None:
        self.states.update((key, Bag(n)) for key, n in news.items())
        self.model.update((key, Bag(n)) for key, n in news.items())

    @rule(room=st.sampled_from([0, 1, 500, 2_000, 10**9]))
    def limit(self, room: int) -> None:
        self.states.limit(room)

    @rule(count=st.integers(1, 64))
    def divide(self, count: int) -> None:
        wanted: dict[int, set[Key]] = {segment: set() for segment in range(count)}
        for key in self.model:
            wanted[segments_of([key], count)[0]].add(key)
        assert {segment: set(self.states.in_segment(segment, count)) for segment in wanted} == wanted

    @rule()
    def read_all(self) -> None:
        assert dict(self.states.items()) == self.model
        found = list(self.states)
        assert len(found) == len(self.model) == len(set(found))
        assert self.states.of(found) == [self.model[key] for key in found]
        assert self.states.having(KEYS) == [key for key in KEYS if key in self.model]

    @invariant()
    def has_as_many(self) -> None:
        assert len(self.states) == len(self.model)


TestLikeADict = LikeADict.TestCase
TestLikeADict.settings = settings(deadline=None, max_examples=30, stateful_step_count=25, derandomize=True)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([-(2**63), -1, 0, 5, 2**62, END]))),
            st.sampled_from([-(2**64), -(2**63), -1, 4, 2**62, END - 1, END]),
        )
    ),
    st.sampled_from([1, 3, 100]),
)
def test_keys_are_due_at_their_times_and_in_their_order(turns: list[tuple[list[tuple[Key, int]], int]], buffered: int) -> None:
    due = list[tuple[Key, int]]()
    spilled_due.BUFFERED = buffered
    try:
        own = SpilledDue(SpillFile(local_folder()).table(), ())
        for entries, until in turns:
            for key, at in entries:
                own.add(key, at)
                due.append((key, at))
            ready = {key for key, at in due if at <= until and at < END}
            due = [(key, at) for key, at in due if at > until]
            assert own.pop(until) == in_order_of_keys(ready)
    finally:
        spilled_due.BUFFERED = 4_096


def test_each_segment_consists_of_whole_parts_however_many_there_are() -> None:
    keys: list[Key] = [f"k{n}" for n in range(2_000)]
    parts = parts_of(keys)
    for count in range(1, segments.MAX_SEGMENTS + 1):
        of_part = {part: segment for segment in range(count) for part in parts_in(segment, count)}
        assert len(of_part) == 128
        assert [of_part[part] for part in parts] == segments_of(keys, count)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(
    st.sampled_from(sorted(APPLICATIONS | TIMED)),
    st.lists(st.lists(st.integers(0, 99), max_size=20), max_size=8),
    st.integers(1, 8),
    st.sampled_from([0, 1, 2_000, 10_000]),
)
def test_the_checkpoint_has_the_same_bytes_whatever_the_memory(
    name: str, batches: list[list[int]], buckets: int, room: int
) -> None:
    made = messages([n for batch in batches for n in batch], 1)
    stores = []
    with small():
        for limit in (room, 10**9):
            stages = Stages((APPLICATIONS | TIMED)[name](), buckets, workers=1, tasks=1, worker_bytes=limit)
            at = 0
            for batch in batches:
                stages.send(*made[at : at + len(batch)])
                at += len(batch)
            stores.append({place: content(store) for place, store in stages.stores.items()})
    assert stores[0] == stores[1]


def content(store: MemoryStore) -> tuple[Any, ...]:
    return store.head, store.changes.kept, store.segments.kept


@contextmanager
def small() -> Iterator[None]:
    """Snapshots and changes of every kind also come about with the few states of a test."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("FOLD_BYTES", 600), ("INLINE_BYTES", 250), ("WHOLE_KEYS", 5)):
            patch.setattr(durable, name, value)
        patch.setattr(segments, "SEGMENT_KEYS", 3)
        patch.setattr(spilled_due, "BUFFERED", 2)
        yield


def test_a_file_has_no_name_and_its_space_is_free_once_nobody_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/gone,{tmp_path}")
    assert local_folder() == tmp_path
    states = SpilledStates(SpillFile(tmp_path), StateClass(bytes, "step"), 0)
    states.update((n, b"\0" * 1_000) for n in range(10_000))
    assert list(tmp_path.iterdir()) == []
    assert open_below(tmp_path) == 1
    del states
    assert open_below(tmp_path) == 0


def open_below(folder: Path) -> int:
    """The number of files of a folder that this process has opened."""
    opened = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder of descriptors is itself one
            opened.append(str(each.readlink()))
    return sum(each.startswith(str(folder)) for each in opened)


def test_a_full_disk_is_named_with_what_to_do(tmp_path: Path) -> None:
    states = SpilledStates(SpillFile(tmp_path), StateClass(bytes, "step"), 0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    try:
        with pytest.raises(
            SpillError, match=rf"cannot be kept in {tmp_path}: .*; make room there, .*spark.local.dir.*worker_memory"
        ):
            states.update((n, os.urandom(1_000)) for n in range(20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpillError, match=rf"cannot be kept in {tmp_path}/gone: .*No such file"):
        SpillFile(tmp_path / "gone")


def test_a_micro_batch_whose_disk_is_full_runs_again_from_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Pipeline("full")
    app.source("n/*", decode=int).key_by().stateful(put_in, Bag).sink("out")
    stages = Stages(app, buckets=1, workers=1, tasks=1, worker_bytes=0)
    stages.send(*(Message(b"1", b"k%d" % n, stream="n/0", sequence=n + 1) for n in range(50)))
    news = [Message(b"2", b"k%d" % n, stream="n/0", sequence=n + 100) for n in range(50)]

    def full(self: object, rows: object) -> None:
        raise SpillError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(spill_file.Table, "write", full)
        with pytest.raises(SpillError):
            stages.send(*news)
    stages.send(*news)
    assert stages.states() == {"put_in": {b"k%d" % n: Bag(3, [1, 2]) for n in range(50)}}


def put_in(n: int, bag: Bag) -> str:
    bag.n += n
    bag.more.append(n)
    return f"{bag.n}"


def lock_away(n: int, state: dict[str, Any]) -> None:
    state["n"] = n
    state["lock"] = threading.Lock() if n == 3 else None


def test_what_cannot_be_stored_stays_in_memory_until_it_is_saved() -> None:
    states = SpilledStates(SpillFile(local_folder()), StateClass(dict, "step"), 0)
    states.begin(["a", "b"])
    states["a"], states["b"] = {"lock": threading.Lock()}, {}
    states.begin(["c"])
    assert dict.keys(states) == {"a"}
    with pytest.raises(StateError, match="step"):
        states.flush()
    states["a"]["lock"] = None
    states.touched(["a"])
    states.begin(["c"])
    assert not dict.__len__(states)
    assert dict(states.items()) == {"a": {"lock": None}, "b": {}}


@pytest.mark.parametrize("room", [0, 10**9])
def test_a_state_that_cannot_be_stored_fails_its_value_whatever_the_memory(room: int) -> None:
    app = Pipeline("locked", on_error=OnError.SKIP)
    app.source("n/*", decode=int).key_by(lambda n: n % 2).stateful(lock_away, dict).sink("out")
    stages = Stages(app, buckets=1, workers=1, tasks=1, worker_bytes=room)
    for start in (0, 5):
        stages.send(*(Message(b"%d" % n, stream="n/0", sequence=start + n + 1) for n in range(5)))
    assert stages.states() == {"lock_away": {0: {"n": 4, "lock": None}, 1: {"n": 1, "lock": None}}}
    assert stages.counts["skipped", "lock_away"] == 2


def test_classes_that_only_annotations_name_are_stored_as_in_the_checkpoint() -> None:
    @dataclass
    class Local:
        n: int = 0

    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(Local())
    states = SpilledStates(SpillFile(local_folder()), StateClass(Local, "step"), 0)
    states.begin(["a"])
    states["a"] = Local(3)
    states.begin([])
    assert not dict.__len__(states)
    assert states["a"] == Local(3)


@pytest.mark.parametrize("worker_bytes", [0, 10**9])
def test_rows_of_a_broadcast_table_are_found_by_equal_keys_wherever_they_are(worker_bytes: int) -> None:
    keys = (1, 1.0, True, np.int64(1), np.float32(1), "1", b"1", None, float("nan"), 2**5000, "\ud800", object(), 1.5, (1,))

    def found(message: Message, rows: Mapping[int, str]) -> str:
        for wrong in ([1], {}, (1, [2])):
            with pytest.raises(TypeError, match="unhashable"):
                rows.get(wrong)  # type: ignore[call-overload]
        return repr([(rows.get(key), key in rows) for key in keys])  # type: ignore[call-overload]

    app = Pipeline("app")
    table = app.broadcast("r/*", decode=bytes.decode, key=lambda message: int(message.key or b""))
    app.source("l/*").key_by().map_with(table, found).sink("out")
    stages = Stages(app, buckets=1, worker_bytes=worker_bytes)
    stages.open("l/0", "r/0")
    stages.send(*(Message(b"row", b"%d" % number, 1, "r/0", number) for number in range(100)))
    stages.send(Message(b"row", b"100", 1, "r/0", 100), Message(b"", b"", 1, "l/0", 1))
    stages.end(all_=True)
    assert stages.written["out"] == [(b"", repr([("row", True)] * 5 + [(None, False)] * 9).encode())]

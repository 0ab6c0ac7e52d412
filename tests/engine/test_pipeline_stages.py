"""Stages of a pipeline give what a trial run gives, whatever the buckets, tasks, workers, micro-batches and failed attempts."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import MemoryStore, Stages

from headrace.engine.applications.states import durable, segments, spilled_due, store
from headrace.engine.applications.states.durable import load, save
from headrace.engine.applications.states.state_cache import StateCache, room_of_each
from headrace.engine.applications.states.store import read_head
from headrace.pipelines import (
    Context,
    KeyStates,
    Late,
    Message,
    OnError,
    Pipeline,
    StepError,
    Trial,
    count,
    session,
    total,
    tumbling,
)
from headrace.pipelines.runtime import StateClass


@dataclass
class Seen:
    total: int = 0
    last: list[int] = field(default_factory=list)


def add(value: int, seen: Seen) -> str | None:
    seen.total += value
    seen.last = [*seen.last[-2:], value]
    return f"{seen.total} {seen.last}" if value % 3 else None


def words(line: str) -> Iterator[str]:
    yield from line.split()


def tally(word: str, state: dict[str, int]) -> str:
    state["n"] = state.get("n", 0) + 1
    return f"{word}={state['n']}"


def by_message_key() -> Pipeline:
    app = Pipeline("direct")
    app.source("n/*", decode=int).key_by().stateful(add, Seen).sink("out")
    return app


def by_computed_key() -> Pipeline:
    app = Pipeline("computed")
    app.source("n/*", decode=int).key_by(lambda n: n % 7).stateful(add, Seen).sink("out")
    return app


def by_words() -> Pipeline:
    app = Pipeline("words")
    lines = app.source("n/*", decode=lambda b: f"w{int(b) % 5} w{int(b) % 3}")
    lines.flat_map(words).key_by(str).stateful(tally, dict).sink("out")
    return app


def whole_messages() -> Pipeline:
    app = Pipeline("whole")
    kept = app.source("n/*").filter(lambda m: m.sequence % 2 == 0)
    kept.key_by(lambda m: (m.stream, int(m.value or b"0") % 3)).stateful(
        lambda m, state: state.append(m.sequence) or f"{m.stream} {state}", list, name="places"
    ).sink("out")
    return app


def columnar() -> Pipeline:
    def odd(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pa.array([int(value) % 2 == 1 for value in rows.column("value").to_pylist()], pa.bool_()))

    def sums(rows: pa.RecordBatch, states: KeyStates[Seen]) -> pa.RecordBatch:
        said = []
        for key, value in zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True):
            states[key].total += int(value)
            said.append(b"%d" % states[key].total)
        return pa.RecordBatch.from_pydict({"key": rows.column("key"), "value": pa.array(said, pa.binary())})

    app = Pipeline("columnar")
    messages = app.source("n/*")
    messages.key_by().stateful_columns(sums, Seen).sink("out")
    messages.map_columns(odd).sink("odd", encode=lambda row: row["value"])
    return app


def two_shuffles() -> Pipeline:
    app = Pipeline("twice")
    first = app.source("n/*", decode=int).key_by(lambda n: n % 5).stateful(add, Seen, name="first")
    first.key_by(len).stateful(lambda text, state: state.append(text) or f"{len(state)} {text}", list, name="second").sink("out")
    return app


def branches() -> Pipeline:
    app = Pipeline("branches")
    numbers = app.source("n/*", decode=int)
    even, odd = numbers.filter(lambda n: n % 2 == 0), numbers.filter(lambda n: n % 2 == 1)
    even.merge(odd.map(lambda n: n * 10)).key_by(lambda n: n % 4).stateful(add, Seen).sink("out")
    numbers.map(str).key_by(lambda text: text[0]).sink("plain")
    return app


def windows() -> Pipeline:
    app = Pipeline("windows")
    timed = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000)
    opened = timed.key_by(lambda n: n % 3).window(tumbling("10 s"), delay="5 s", late=Late.FIRE)
    opened.aggregate(total()).map(str, name="text").sink("out")
    return app


def idle_streams() -> Pipeline:
    app = Pipeline("idle")
    timed = app.source("n/*", decode=int, idle_after="15 s").event_time(lambda n: n * 1_000_000 if n % 10 else None)
    opened = timed.filter(lambda n: n % 10 > 0).key_by(lambda n: n % 3).window(tumbling("10 s"), late=Late.FIRE)
    sums = opened.aggregate(total())
    sums.map(str, name="text").sink("out")
    sums.key_by(lambda _: 0, name="all").window(tumbling("30 s")).aggregate(total(), name="sums").sink("sums", repr_of)
    return app


def repr_of(value: object) -> bytes:
    return repr(value).encode()


def sessions_and_timers() -> Pipeline:
    def note(n: int, state: Seen, context: Context) -> str:
        state.total += n
        context.set_timer(n * 1_000_000 + 7_000_000)
        return f"{n} {state.total}"

    def fire(state: Seen, context: Context) -> str:
        return f"due {state.total}"

    app = Pipeline("sessions")
    timed = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000).key_by(lambda n: n % 2)
    timed.window(session("4 s"), delay="8 s").aggregate(count()).map(str, name="text").sink("out")
    timed.stateful(note, Seen, on_timer=fire, ttl="30 s").sink("noted")
    return app


def windows_twice() -> Pipeline:
    app = Pipeline("windows-twice")
    timed = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000).key_by(lambda n: n % 3)
    sums = timed.window(tumbling("5 s"), delay="5 s").aggregate(total())
    sums.key_by(lambda n: n % 2, name="again").window(tumbling("20 s")).aggregate(total(), name="sums").map(
        str, name="text"
    ).sink("out")
    return app


def deduplicated() -> Pipeline:
    app = Pipeline("deduplicated")
    timed = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000)
    timed.key_by(lambda n: n % 3).deduplicate(lambda n: str(n), within="20 s").map(str).sink("out")
    return app


def joins() -> Pipeline:
    app = Pipeline("joins")
    timed = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000)
    every, odd = timed.key_by(lambda n: n % 3), timed.filter(lambda n: n % 2 == 1).key_by(lambda n: n % 3, name="odd")
    pairs = every.join_within(odd, before="9 s", after="2 s", delay="4 s", how="full", late=Late.PLACE_IN_OLDEST)
    pairs.map(str, name="pair").stateful(
        lambda pair, state: state.append(pair) or f"{len(state)} {pair}", list, name="last"
    ).sink("out")
    table = app.table(
        "n/*",
        decode=lambda payload: None if int(payload) % 7 == 0 else int(payload),
        key=lambda message: int(message.value or b"") % 3,
        event_time=lambda message: int(message.value or b"") * 1_000_000,
        name="table",
    )
    rows = timed.join(table, on=lambda n: n % 3, how="left", retention="6 s", delay="1 s")
    rows.map(str, name="row").sink("rows")
    again = rows.key_by(lambda row: row[0] % 2, name="parity")
    again.join_within(every, before="5 s", after="0 s", delay="60 s", name="uneven").map(str, name="pairs").sink("again")
    return app


def broadcasts() -> Pipeline:
    app = Pipeline("broadcasts")
    timed = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000)
    rules = app.broadcast(
        "n/*",
        decode=lambda payload: None if int(payload) % 5 == 0 else int(payload),
        key=lambda message: int(message.value or b"") % 4,
        event_time=lambda message: int(message.value or b"") * 1_000_000,
    )
    seen = timed.key_by(lambda n: n % 7).map_with(
        rules, lambda n, rows: (n, sorted(rows.items())), retention="6 s", delay="2 s", name="seen"
    )
    seen.map(str, name="text").sink("out")
    again = seen.key_by(lambda pair: pair[0] % 2, name="parity")
    again.map_with(rules, lambda pair, rows: (pair, len(rows), max(rows.values(), default=0)), name="twice").map(
        str, name="twice-text"
    ).sink("twice")
    return app


APPLICATIONS = {
    maker.__name__: maker
    for maker in (by_message_key, by_computed_key, by_words, whole_messages, columnar, two_shuffles, branches)
}
TIMED = {
    maker.__name__: maker
    for maker in (windows, sessions_and_timers, windows_twice, deduplicated, idle_streams, joins, broadcasts)
}
SEVERAL_STREAMS = ("by_message_key", "whole_messages", "idle_streams")


def messages(numbers: Sequence[int], streams: int) -> list[Message]:
    last: defaultdict[str, int] = defaultdict(int)
    made = []
    for at, n in enumerate(numbers):
        stream = f"n/{at % streams}"
        last[stream] += 1 + n % 2
        made.append(Message(b"%d" % n, b"k%d" % (n % 6), stream=stream, sequence=last[stream]))
    return made


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[list[Message]], Stages]:
    name = draw(st.sampled_from(sorted(APPLICATIONS | TIMED)))
    numbers = draw(st.lists(st.integers(0, 99), max_size=60))
    made = messages(numbers, draw(st.sampled_from([1, 1, 1, 3])) if name in SEVERAL_STREAMS else 1)
    edges = sorted(draw(st.lists(st.integers(0, len(made)), max_size=6)))
    batches = [made[a:b] for a, b in zip([0, *edges], [*edges, len(made)], strict=True)]
    stages = Stages(
        (APPLICATIONS | TIMED)[name](),
        buckets=draw(st.integers(1, 5)),
        workers=draw(st.integers(1, 3)),
        tasks=draw(st.integers(1, 3)),
        failing=draw(st.sampled_from([0.0, 0.4])),
        seed=draw(st.integers(0, 999)),
        worker_bytes=draw(st.sampled_from([0, 1, 2_000, 10_000, 10**9])),
    )
    return batches, stages


@pytest.fixture(autouse=True)
def small_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots and changes of every kind also come about with the few states of a test."""
    monkeypatch.setattr(durable, "FOLD_BYTES", 600)
    monkeypatch.setattr(durable, "INLINE_BYTES", 250)
    monkeypatch.setattr(durable, "WHOLE_KEYS", 5)
    monkeypatch.setattr(segments, "SEGMENT_KEYS", 3)
    monkeypatch.setattr(spilled_due, "BUFFERED", 2)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(runs())
def test_what_comes_out_does_not_depend_on_how_it_is_run(run: tuple[list[list[Message]], Stages]) -> None:
    batches, stages = run
    trial = Trial(stages.pipeline)
    for batch in batches:
        trial.send(*batch)
        stages.send(*batch)
    for sink in stages.pipeline.graph.sinks:
        wanted: defaultdict[bytes | None, list[bytes]] = defaultdict(list)
        for written in trial.written[sink]:
            wanted[_spelled(written.key)].append(written.value)
        assert stages.by_key(sink) == dict(wanted)
    for level in range(1, stages.pipeline.graph.shuffles + 1):
        for step, states in stages.states(level).items():
            assert stages.shown(step, states) == trial.states(step)


@pytest.mark.parametrize("make", [joins, broadcasts])
@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99)), max_size=8), max_size=6),
    st.integers(1, 4),
    st.sampled_from([0, 10**9]),
)
def test_joins_of_several_streams_do_not_depend_on_how_they_are_run(
    make: Callable[[], Pipeline], batches: list[list[tuple[int, int]]], buckets: int, worker_bytes: int
) -> None:
    trial, stages = Trial(make()), Stages(make(), buckets, tasks=2, failing=0.2, worker_bytes=worker_bytes)
    sequence = 0
    for batch in batches:
        made = []
        for stream, number in batch:
            sequence += 1
            made.append(Message(b"%d" % number, b"k", stream=f"n/{stream}", sequence=sequence))
        trial.send(*made)
        stages.send(*made)
    for sink in stages.pipeline.graph.sinks:
        assert sorted(value for _, value in stages.written[sink]) == sorted(trial.values(sink))
    for level in (1, 2):
        for step, states in stages.states(level).items():
            assert stages.shown(step, states) == trial.states(step)


def _spelled(key: object) -> bytes | None:
    return key if isinstance(key, bytes | None) else key.encode() if isinstance(key, str) else repr(key).encode()


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99)), max_size=8), max_size=8),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.4]),
)
def test_all_buckets_find_the_same_streams_idle(batches: list[list[tuple[int, int]]], buckets: int, failing: float) -> None:
    trial, stages = Trial(idle_streams()), Stages(idle_streams(), buckets, tasks=2, failing=failing)
    sequence = 0
    for batch in batches:
        made = []
        for stream, number in batch:
            sequence += 1
            made.append(Message(b"%d" % number, b"k", stream=f"n/{stream}", sequence=sequence))
        trial.send(*made)
        stages.send(*made)
    assert sorted(value for _, value in stages.written["out"]) == sorted(trial.values("out"))
    assert stages.shown("window", stages.states()["window"]) == trial.states("window")
    assert sorted(value for _, value in stages.written["sums"]) == sorted(trial.values("sums"))


def test_a_micro_batch_costs_what_it_touches_and_not_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_KEYS", 1_000)
    written = {}
    for keys in (1_000, 30_000):
        stages = Stages(by_message_key(), buckets=1, workers=2, tasks=1)
        stages.send(*(Message(b"1", b"k%d" % n, stream="n/0", sequence=n + 1) for n in range(keys)))
        store = stages.stores[1, 0]
        before = store.traffic.written_bytes, store.traffic.read_bytes
        for batch in range(20):
            sequence = keys + 1 + 10 * batch
            stages.send(*(Message(b"1", b"k%d" % n, stream="n/0", sequence=sequence + n) for n in range(10)))
        after = stages.stores[1, 0]
        written[keys] = after.traffic.written_bytes - before[0], after.traffic.read_bytes - before[1]
    small, large = written.values()
    assert large[0] < 3 * small[0]
    assert large[1] < 40_000 + 2_000_000 // 1, "each worker reads everything once, and then only what changed"


def test_the_snapshot_is_written_anew_piece_by_piece_and_never_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, touched = 20_000, 100
    monkeypatch.setattr(durable, "FOLD_BYTES", 10_000)
    monkeypatch.setattr(segments, "SEGMENT_KEYS", 250)
    for scaled in "TIER_BYTES", "FINAL_BYTES":
        monkeypatch.setattr(store, scaled, 2_000)
    monkeypatch.setattr(durable, "INLINE_BYTES", 2_000)
    stages = Stages(by_message_key(), buckets=1, workers=2, tasks=1)
    stages.send(*(Message(b"1", b"k%d" % n, stream="n/0", sequence=n + 1) for n in range(keys)))
    draw = random.Random(1)
    written = []
    for batch in range(400):
        before = stages.stores[1, 0].traffic.written_bytes
        some = draw.sample(range(keys), touched)
        sequence = keys + 1 + touched * batch
        stages.send(*(Message(b"2", b"k%d" % n, stream="n/0", sequence=sequence + at) for at, n in enumerate(some)))
        written.append(stages.stores[1, 0].traffic.written_bytes - before)
    head = read_head(stages.stores[1, 0])
    assert head.oldest > 100, "every segment was written again and again"
    assert head.change_bytes < 0.8 * head.snapshot_bytes
    assert max(written) < 0.15 * head.snapshot_bytes, "pieces of changes are merged up to a 64th of it, eight at a time"


def used(held: StateCache, query: str, number: int, store: MemoryStore, limit: int, run: str = "run", keys: int = 300) -> bool:
    """Touches the keys of a bucket, as a micro-batch does; returns whether its states were read from the store."""
    classes, name, head = {"step": StateClass(Seen, "step")}, (query, run, 1, number), read_head(store)
    before = store.traffic.calls
    bucket = held.take(name, store, head, classes, (), limit)
    was_read = store.traffic.calls > before
    states = bucket.kept["step"]
    for at in range(0, keys, 50):
        block = [b"%d" % n for n in range(at, at + 50)]
        states.begin(block)
        for key in block:
            states[key] = Seen(states[key].total + 1 if key in states else 1)
        if bucket.file is not None:
            assert dict.__len__(states) <= max(50, limit // 400), "it has no more in memory than it may, or needs for a block"
    bucket.mark_saved(save(store, head, bucket.kept, bucket.dirty, {"step": [b"%d" % n for n in range(keys)]}, classes, {}))
    held.put(name, bucket, limit)
    return was_read


def test_a_worker_holds_no_more_than_it_may_and_reads_nothing_from_the_checkpoint_twice() -> None:
    one, stores = StateCache(), [MemoryStore() for _ in range(4)]
    used(one, "query", 0, MemoryStore(), 10**9)
    for limit in (0, 1, one.memory_bytes // 2, 2 * one.memory_bytes, 10**9):
        held = StateCache()
        reads = []
        for number in (0, 1, 2, 3, 0, 1, 2, 3, 3):
            reads.append(used(held, "query", number, stores[number], limit))
            assert held.memory_bytes <= limit
        assert not any(reads[4:])
    classes = {"step": StateClass(Seen, "step")}
    assert [{state.total for state in load(store, read_head(store), classes)["step"].values()} for store in stores] == [
        {10},
        {10},
        {10},
        {15},
    ]


def test_queries_in_one_session_leave_each_other_their_states() -> None:
    held, stores = StateCache(), {(query, number): MemoryStore() for query in ("one", "other") for number in range(3)}
    for _ in range(3):
        reads = [used(held, query, number, store, 10**9) for (query, number), store in stores.items()]
    assert not any(reads)
    whole = held.memory_bytes
    used(held, "other", 0, stores["other", 0], 0)
    assert whole // 2 <= held.memory_bytes < whole, "each has its own limit"
    # The states of a query's older run make room at once.
    assert used(held, "one", 0, stores["one", 0], 10**9, "next")
    assert held.memory_bytes < whole // 2
    assert used(held, "one", 1, stores["one", 1], 10**9)


@pytest.mark.parametrize(
    ("sizes", "limit", "wanted"),
    [([], 5, 5), ([1, 2], 5, 4), ([1, 9], 5, 4), ([3, 3, 3], 6, 2), ([0, 0, 9], 3, 3), ([4], 0, 0), ([4, 4], -1, 0)],
)
def test_the_largest_buckets_make_room_first(sizes: list[int], limit: int, wanted: int) -> None:
    assert room_of_each(sizes, limit) == wanted


def test_a_function_that_raises_fails_the_micro_batch_and_names_the_message() -> None:
    def refuse(n: int, state: Seen) -> None:
        raise ValueError("too large")

    app = Pipeline("strict")
    app.source("n/*", decode=int).key_by().stateful(refuse, Seen).sink("out")
    stages = Stages(app)
    with pytest.raises(StepError, match=r"pipeline strict, step refuse, key b'k', stream n/0, sequence 7: ValueError: too large"):
        stages.send(Message(b"5", b"k", stream="n/0", sequence=7))


def test_messages_that_a_function_cannot_take_go_to_the_dead_letter_sink_as_they_came() -> None:
    def halve(n: int, state: Seen) -> str:
        state.total += n
        if n % 2:
            raise ValueError("odd")
        return f"{state.total}"

    app = Pipeline("lenient", on_error=OnError.DEAD_LETTER, dead_letters="dead")
    app.source("n/*", decode=int).map(lambda n: n + 0).key_by(lambda n: "all").stateful(halve, Seen).sink("out")
    stages = Stages(app)
    stages.send(*(replace(m, key=b"own") for m in messages([2, 3, 4], 1)), Message(b"x", stream="n/0", sequence=99))
    assert stages.by_key("out") == {b"all": [b"2", b"6"]}
    assert sorted(stages.by_key("dead").items(), key=repr) == [(None, [b"x"]), (b"own", [b"3"])]
    (headers,) = [dict(found) for value, found in stages.headers["dead"] if value == b"3"]
    assert {name: found.decode() for name, found in headers.items()} == {
        "headrace-pipeline": "lenient",
        "headrace-step": "halve",
        "headrace-reason": "ValueError: odd",
        "headrace-stream": "n/0",
        "headrace-sequence": "3",
    }


def test_what_is_no_key_no_time_and_no_text_goes_to_the_dead_letter_sink() -> None:
    def raised(n: int) -> object:
        raise ValueError("\ud800")

    poison: list[object] = [[1], "\udfff", 10**5000, 1, True, 1.0]
    app = Pipeline("poison", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    numbers = app.source("n/*", decode=int).event_time(lambda n: 2**63 if n == 7 else n, name="times")
    keyed = numbers.filter(lambda n: n < 8).key_by(lambda n: poison[n] if n < 6 else n, name="by")  # type: ignore[arg-type, return-value]
    keyed.aggregate(count(), name="n").map(str).sink("out")
    numbers.filter(lambda n: n == 8).map(raised, name="raises").sink("other")
    for buckets in (1, 8):
        run = Stages(app, buckets=buckets)
        run.send(*(Message(b"%d" % n, event_time=0, stream="n/0", sequence=n + 1) for n in range(9)))
        assert run.states() == {"n": {1: 3, 6: 1}}
        assert {key for key, _ in run.written["out"]} == {b"1", b"6"}
        steps = [(value, dict(headers)["headrace-step"]) for value, headers in run.headers["failed"]]
        assert sorted(steps) == [(b"0", b"by"), (b"1", b"by"), (b"2", b"by"), (b"7", b"times"), (b"8", b"raises")]
    app = Pipeline("source-time", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    app.source("n/*", decode=int).key_by(name="by").window(tumbling("1 s")).aggregate(count(), name="n").map(str).sink("out")
    run = Stages(app)
    times = (0, 2**63 - 1, -(2**63) + 1, 999_999)
    run.send(*(Message(b"1", b"k", event_time=t, stream="n/0", sequence=n + 1) for n, t in enumerate(times)))
    run.send(Message(b"1", b"k", event_time=1_000_000, stream="n/0", sequence=9))
    assert run.by_key("out") == {b"k": [b"2"]}
    assert len(run.written["failed"]) == 2


@pytest.mark.parametrize("fails", [False, True])
def test_the_key_of_a_message_goes_on_where_nothing_else_is_the_key(fails: bool) -> None:
    app = Pipeline("keys")
    lines = app.source("n/*", decode=bytes.decode)
    lines.sink("all")
    lines.filter(lambda line: len(line) > 1).map(str.upper).sink("some")
    app.source("n/*").map_columns(lambda rows: rows.select(["value"])).sink("rows")
    lines.deduplicate(lambda line: line[0], within="1 h").sink("once")
    run = Stages(app, failing=0.3 if fails else 0)
    sent = [(b"k1", b"ab"), (None, b"2"), (b"k3", b"ac")]
    run.send(*(Message(value, key, 0, "n/0", sequence=n + 1) for n, (key, value) in enumerate(sent)))
    assert run.written["all"] == run.written["rows"] == sent
    assert run.written["some"] == [(b"k1", b"AB"), (b"k3", b"AC")]
    assert sorted(run.written["once"], key=repr) == [(None, b"2"), (b"k1", b"ab")]
    run.written.clear()
    run.send(Message(b"x", None, 0, "n/0", sequence=9))
    assert run.written["all"] == [(None, b"x")]


def test_a_filter_that_is_added_leaves_event_time_where_it_is() -> None:
    def application(filtered: bool, elsewhere: bool) -> Pipeline:
        app = Pipeline("changed")
        if elsewhere:
            app.source("m/*", decode=int).key_by(lambda n: n).aggregate(count(), name="new").map(str, name="new-text").sink("new")
        flow = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000)
        flow = flow.filter(lambda n: True) if filtered else flow
        sums = flow.key_by(lambda n: n % 2).window(tumbling("10 s")).aggregate(total(), name="sums")
        sums.map(str, name="text").sink("out")
        return app

    run = Stages(application(False, False), buckets=2)
    sent = [Message(b"%d" % n, stream="n/0", sequence=i) for i, n in enumerate([1, 2, 12, 3, 22, 32], 1)]
    run.send(*sent[:3])
    assert run.by_key("out") == {b"0": [b"2"], b"1": [b"1"]}
    changed = Stages(application(True, True), buckets=2, stores=run.stores)
    changed.send(*sent[3:5])
    assert changed.by_key("out") == {b"0": [b"12"]}, "3 is late"
    again = Stages(application(False, True), buckets=2, stores=changed.stores)
    again.send(*sent[5:])
    assert again.by_key("out") == {b"0": [b"22"]}


@pytest.mark.parametrize("wait", ["await_streams", "await_time", "bootstrap"])
def test_a_step_that_is_added_behind_a_shuffle_has_results_once_nothing_is_awaited(wait: str) -> None:
    """The planner tells what began with every batch, since event time of the new level has heard of none before."""

    def application(twice: bool) -> Pipeline:
        app = Pipeline("longer")
        awaited: dict[str, Any] = {"await_streams": 2} if wait == "await_streams" else {"await_time": "1 minute"}
        flow = app.source("n/*", decode=int, **({} if wait == "bootstrap" else awaited)).event_time(lambda n: n * 1_000_000)
        if wait == "bootstrap":
            names = app.table("r/*", decode=bytes.decode, key=lambda row: 0, bootstrap=True, name="names")
            pairs = flow.join(names, on=lambda n: 0, how="left", as_of=False, name="joined")
            flow = pairs.map(lambda pair: pair[0], name="number")
        sums = flow.key_by(lambda n: n % 2, name="first").window(tumbling("10 s")).aggregate(total(), name="sums")
        if twice:
            sums = sums.key_by(lambda n: 0, name="again").window(tumbling("20 s")).aggregate(total(), name="both")
        sums.map(str, name="text").sink("out")
        return app

    def send(run: Stages, *seconds: int) -> None:
        run.send(*(Message(b"%d" % n, stream=f"n/{stream}", sequence=n) for stream in (0, 1) for n in seconds))

    old = Stages(application(False), buckets=2)
    if wait == "bootstrap":
        old.send(Message(b"row", b"", 0, "r/0", sequence=1))
        old.end("r/0")
        old.bootstrapped = old.pipeline.graph.bootstraps[0].parts
    old.elapsed = 60_000_000
    send(old, 1, 2, 12, 13, 32)
    assert old.written["out"], "event time has begun"
    new = Stages(application(True), buckets=2, stores=old.stores, elapsed=old.elapsed, bootstrapped=old.bootstrapped)
    send(new, 62, 63, 82)
    send(new, 122)
    assert new.written["out"]


@settings(deadline=None, max_examples=30, derandomize=True)
@given(
    batches=st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 2), st.integers(0, 90)), max_size=8), st.lists(st.integers(0, 2), max_size=2)
        ),
        max_size=8,
    ),
    buckets=st.integers(1, 4),
    failing=st.sampled_from([0.0, 0.3]),
)
def test_all_buckets_learn_that_a_stream_has_ended(
    batches: list[tuple[list[tuple[int, int]], list[int]]], buckets: int, failing: float
) -> None:
    """Also behind a second shuffle, with attempts that fail; a stream that has ended may continue."""
    app = Pipeline("ended")
    timed = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000).key_by(lambda n: n % 5)
    sums = timed.window(tumbling("10 s")).aggregate(total(), name="small")
    larger = sums.key_by(lambda n: n % 2, name="again").window(tumbling("30 s"))
    described = larger.aggregate(total(), output=lambda key, n, window: f"{window.end // 1_000_000}={n}", name="large")
    described.sink("out")
    run, trial, last = Stages(app, buckets=buckets, failing=failing), Trial(app), [0, 0, 0]
    for sent, ended in batches:
        messages = []
        for stream, number in sent:
            last[stream] += 1
            messages.append(Message(b"%d" % number, stream=f"n/{stream}", sequence=last[stream]))
        if messages:
            run.send(*messages)
            trial.send(*sorted(messages, key=lambda message: (message.stream, message.sequence)))
        if ended:
            run.end(*(f"n/{stream}" for stream in ended))
            trial.end(*(f"n/{stream}" for stream in ended))
        assert sorted(value for _, value in run.written["out"]) == sorted(trial.values("out"))
    run.end(all_=True)
    trial.finish()
    assert sorted(value for _, value in run.written["out"]) == sorted(trial.values("out"))
    assert {step: states for step, states in run.states().items() if states} == {}


@pytest.mark.parametrize("failing", [0.0, 0.3])
def test_buckets_keep_nothing_of_streams_that_are_forgotten(failing: float) -> None:
    """Many daily streams leave marks of constant size, and event time stays where it was, also behind a second shuffle."""
    app = Pipeline("forgotten")
    timed = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000).key_by(lambda n: n % 5)
    sums = timed.window(tumbling("10 s")).aggregate(total(), name="small")
    sums.key_by(lambda n: n % 2, name="again").window(tumbling("30 s")).aggregate(
        total(), output=lambda key, n, window: b"%d" % n
    ).sink("out")
    run, kept, sizes = Stages(app, buckets=2, failing=failing), Stages(app, buckets=2, failing=failing), []
    for day in range(12):
        sent = [Message(b"%d" % (day * 40 + n), stream=f"n/{day}", sequence=n + 1) for n in range(40)]
        for stages in (run, kept):
            stages.send(*sent)
            stages.end(f"n/{day}")
        if day:
            run.forget(f"n/{day - 1}")
        assert sorted(run.written["out"]) == sorted(kept.written["out"])
        sizes.append([len(json.dumps(times)) for level in (1, 2) for times in run.kept_times(level)])
        for level in (1, 2):
            assert all(f"n/{day - 1}" not in json.dumps(times) for times in run.kept_times(level))
    assert max(sizes[-1]) <= max(sizes[3]) + 20, "digits"
    assert run.written["out"]
    run.forget("n/11", "n/11")
    assert all(list(ended) == [""] for times in run.kept_times() for ended in times["ended"].values())


@settings(deadline=None, max_examples=30, derandomize=True)
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 1), st.one_of(st.integers(0, 90), st.integers(200, 400))), max_size=8), max_size=6
    ),
    buckets=st.integers(1, 4),
    failing=st.sampled_from([0.0, 0.3]),
)
def test_a_bad_clock_makes_nothing_late_and_what_is_late_is_counted_once(
    batches: list[list[tuple[int, int]]], buckets: int, failing: float
) -> None:
    """Values more than 100 s ahead of the present bring no window to its end, in any bucket; attempts that fail count nothing."""

    def check(number: int) -> bool:
        if number % 13 == 0:
            raise ValueError("bad luck")
        return True

    app = Pipeline("skewed", on_error=OnError.SKIP)
    read = app.source("n/*", decode=int, max_ahead="60 s").event_time(lambda n: n * 1_000_000).filter(check)
    windows = read.key_by(lambda n: n % 3, name="by").window(tumbling("10 s"))
    windows.aggregate(total(), name="sums").map(str, name="text").sink("out")
    windows.late_values().map(str, name="late-text").sink("late")
    now = 100_000_000
    run, trial = Stages(app, buckets=buckets, failing=failing, now=now), Trial(app, now=lambda: now)
    last, high, late = [0, 0], [-1, -1], Counter[str]()
    for sent in batches:
        messages = []
        for stream, number in sent:
            last[stream] += 1
            messages.append(Message(b"%d" % number, stream=f"n/{stream}", sequence=last[stream]))
            if number % 13:
                high[stream] = max(high[stream], number if number <= 160 else -1)
                late[str(number)] += (number // 10 + 1) * 10 <= high[stream]
        run.send(*messages)
        trial.send(*sorted(messages, key=lambda message: (message.stream, message.sequence)))
    every = [number for sent in batches for _, number in sent]
    assert run.counts == trial.counts
    assert run.counts["late", "sums"] == late.total() == len(run.written["late"]) == len(trial.written["late"])
    assert Counter(value.decode() for _, value in run.written["late"]) == +late
    assert run.counts["skipped", "check"] == sum(number % 13 == 0 for number in every)
    assert run.counts["ahead", "by"] == sum(number > 160 and number % 13 > 0 for number in every)
    assert sorted(value for _, value in run.written["out"]) == sorted(trial.values("out"))


@pytest.mark.parametrize("buckets", [1, 3])
def test_columns_stay_columns_behind_a_second_key_by(buckets: int) -> None:
    def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(["value"]).append_column("n", batch.column("sequence"))

    def sums(batch: pa.RecordBatch, states: KeyStates[list[int]]) -> None:
        for key, number in zip(batch.column("key").to_pylist(), batch.column("n").to_pylist(), strict=True):
            states[key].append(number)

    def columns() -> Pipeline:
        app = Pipeline("columns")
        first = app.source("n/*").key_by(lambda message: message.sequence % 4, name="first").map_columns(rows)
        first.key_by(lambda row: row["n"] % 2, name="second").stateful_columns(sums, list).sink("out")
        return app

    stages, trial = Stages(columns(), buckets), Trial(columns())
    messages = [Message(b"%d" % number, b"k", None, "n/0", number) for number in range(1, 13)]
    for part in (messages[:5], messages[5:]):
        stages.send(*part)
        trial.send(*part)
    assert stages.states(2)["sums"] == trial.states("sums") == {0: [2, 4, 6, 8, 10, 12], 1: [1, 3, 5, 7, 9, 11]}

"""An application that reads files of the past, then its streams, gives what one run over everything gives."""

import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages, frame

from headrace.engine import History
from headrace.engine.codec import Columns, record_batch
from headrace.engine.history.index import Index
from headrace.engine.history.order import build
from headrace.pipelines import Late, Message, Pipeline, tumbling

TIME = pa.timestamp("us", tz="UTC")
STREAMS = ["orders/0", "orders/1"]


@dataclass
class Seen:
    values: list[str] = field(default_factory=list)


def seen(message: Message, state: Seen) -> str:
    state.values.append(str(message.value))
    return f"{message.key!r} {','.join(state.values)}"


def collected(key: object, values: Sequence[Message], window: object) -> str:
    return f"{key} {window} {sorted(str(value.value) for value in values)}"


def application(*, ordered: bool) -> Pipeline:
    app = Pipeline("past")
    orders = app.source("orders/*")
    of_stream = orders.key_by(lambda message: (message.stream if ordered else "", message.key), name="of-stream")
    of_stream.stateful(seen, Seen, name="seen").sink("seen")
    windows = orders.key_by(lambda message: message.key, name="of-key").window(tumbling("5us"), late=Late.FIRE)
    windows.collect(collected, name="collect").sink("windows")
    return app


@dataclass(frozen=True)
class Case:
    """A stream that was cut: what the files have, and what the streams still have."""

    whole: list[Message]
    files: list[list[Message]]
    live: list[Message]
    slice_messages: int
    row_group: int
    buckets: int
    seed: int


@st.composite
def cases(draw: st.DrawFn, *, ordered: bool) -> Case:
    count = draw(st.integers(1, 40))
    times = draw(st.lists(st.integers(0, 30), min_size=count, max_size=count))
    streams = draw(st.lists(st.sampled_from(STREAMS if ordered else STREAMS[:1]), min_size=count, max_size=count))
    whole = [
        Message(b"%d" % n, b"k%d" % (n * 7 % 3), event_time=times[n], stream=streams[n], sequence=3 * n + 1) for n in range(count)
    ]
    if ordered:
        ends = {stream: draw(st.integers(0, 3 * count)) for stream in STREAMS}
        past = [message for message in whole if message.sequence <= ends[message.stream]]
        kept = {stream: draw(st.integers(0, end)) for stream, end in ends.items()}
        live = [message for message in whole if message.sequence > kept[message.stream]]
    else:
        until = draw(st.integers(0, 31))
        past = [message for message in whole if (message.event_time or 0) < until]
        kept_from = draw(st.integers(0, until))
        live = [message for message in whole if (message.event_time or 0) >= kept_from]
    if not past:
        past, live = whole, []
    # A stream that the files lack begins late, as any that appears while an application runs.
    known = {message.stream for message in past}
    whole, live = ([message for message in some if message.stream in known] for some in (whole, live))
    files: list[list[Message]] = [[] for _ in range(draw(st.integers(1, 4)))]
    for message in past:
        files[draw(st.integers(0, len(files) - 1))].append(message)
        if ordered and draw(st.booleans()):
            files[draw(st.integers(0, len(files) - 1))].append(message)
    files = [draw(st.permutations(some)) for some in files if some]
    numbers = [draw(st.integers(1, 12)), draw(st.integers(1, 9)), draw(st.integers(1, 8)), draw(st.integers(0, 2**16))]
    return Case(whole, files, live, *numbers)


def write(folder: Path, case: Case, *, ordered: bool) -> None:
    for number, some in enumerate(case.files):
        columns = {
            "key": [message.key for message in some],
            "value": [message.value for message in some],
            "event_time": pa.array([message.event_time for message in some], TIME),
        }
        if ordered:
            columns |= {"stream": [message.stream for message in some], "sequence": [message.sequence for message in some]}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=case.row_group)


def messages(frames: Iterable[Columns]) -> list[Message]:
    found = []
    for each in frames:
        batch = record_batch([each])
        times = batch.column("event_time").cast(pa.int64()).to_pylist()
        for row, time in zip(batch.to_pylist(), times, strict=True):
            found.append(Message(row["value"], row["key"], time, row["stream"], row["sequence"]))
    return found


def near(message: Message) -> Message:
    """The message with a sequence that a frame of the test has room for: slices begin 2^32 apart."""
    return replace(message, sequence=(message.sequence >> 32) * 1_000 + message.sequence % 2**32)


def groups(data: st.DataObject, count: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of at most `count` things."""
    at = 0
    while at < count:
        size = data.draw(st.integers(1, count - at))
        yield at, at + size
        at += size


def run(stages: Stages, index: Index, case: Case, data: st.DataObject) -> tuple[Stages, int]:
    """Runs the history, then the streams; a driver that is killed reads again what it had not committed. Returns the drops."""
    stages.open(*index.streams)
    for begin, end in groups(data, index.slices):
        if data.draw(st.booleans()):
            # Killed in the micro-batch: another driver reads its slices again, in other tasks.
            messages(index.run(begin, end).frames())
            index = Index.from_json(json.loads(index.dumps()))
            stages = replace(stages)
        edge = data.draw(st.integers(begin, end))
        tasks = [(low, high) for low, high in ((begin, edge), (edge, end)) if low < high]
        stages.send(*(near(message) for low, high in tasks for message in messages(index.run(low, high).frames())))
    if index.ending:
        stages.end(*index.ending)
    count: dict[str, int] = {}
    for begin, end in groups(data, len(case.live)):
        some: defaultdict[str, list[Message]] = defaultdict(list)
        for message in case.live[begin:end]:
            some[message.stream].append(message)
        stages.send(*messages(index.repeated.dropped([frame(each) for each in some.values()], count)))
        if data.draw(st.booleans()):
            stages = replace(stages)
    stages.end(all_=True)
    return stages, sum(count.values())


def results(stages: Stages) -> tuple[object, ...]:
    return stages.by_key("seen"), sorted(stages.written["windows"], key=repr), stages.states()["seen"], stages.counts


def compare(case: Case, data: st.DataObject, expected: Sequence[Sequence[Message]], until: int | None, *, ordered: bool) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        write(folder, case, ordered=ordered)
        index = build(History([str(folder)], until=until), ["orders/*"], case.slice_messages)
        stages = Stages(application(ordered=ordered), buckets=case.buckets, failing=0.1, seed=case.seed)
        stages, dropped = run(stages, index, case, data)
        whole = Stages(application(ordered=ordered), buckets=1)
        whole.open(*dict.fromkeys(message.stream for some in expected for message in some))
        for some in expected:
            whole.send(*some)
        whole.end(all_=True)
        assert results(stages) == results(whole)
        there = {message.value for some in case.files for message in some}
        assert dropped == sum(message.value in there for message in case.live)
    finally:
        shutil.rmtree(folder)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_files_with_sequences_and_then_the_streams_give_what_one_run_over_the_streams_gives(data: st.DataObject) -> None:
    case = data.draw(cases(ordered=True))
    compare(case, data, [case.whole], None, ordered=True)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_files_without_order_and_then_the_stream_give_what_one_run_in_the_order_of_time_gives(data: st.DataObject) -> None:
    case = data.draw(cases(ordered=False))
    past = [message for some in case.files for message in some]
    # What one stream would have had: the past in the order of time, then what follows as it came.
    there = {message.value for message in past}
    in_order = sorted(past, key=lambda message: message.event_time or 0) + [
        message for message in case.live if message.value not in there
    ]
    whole = [replace(message, sequence=n, stream="orders/0") for n, message in enumerate(in_order, 1)]
    until = 1 + max(message.event_time or 0 for message in past)
    live = [message for message in case.live if message.value in there or (message.event_time or 0) >= until]
    compare(replace(case, live=live), data, [whole], None, ordered=False)

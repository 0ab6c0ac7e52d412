"""The stages of a pipeline as Spark runs them, without Spark: tasks, buckets, workers that take turns, attempts that fail."""

import copy
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.engine.applications.stages.keyed_stage import keyed_stage_rows, state_classes
from headrace.engine.applications.stages.plan import COUNTS, REPORT, BlockRow, Plan
from headrace.engine.applications.stages.reports import Report, merged, report_of
from headrace.engine.applications.stages.source_stage import source_stage_rows, stream_end_rows
from headrace.engine.applications.states.durable import load
from headrace.engine.applications.states.keys import bucket_ids
from headrace.engine.applications.states.state_cache import StateCache
from headrace.engine.applications.states.store import Head, read_head
from headrace.engine.codec import Columns
from headrace.engine.source.ranges import Ends
from headrace.pipelines import Message, Pipeline
from headrace.pipelines.runtime import Key, States


@dataclass
class Traffic:
    """How often a store was called, and with how much."""

    read_bytes: int = 0
    written_bytes: int = 0
    calls: int = 0


@dataclass
class MemoryPieces:
    """One state variable of a bucket."""

    traffic: Traffic
    kept: dict[int, bytes] = field(default_factory=dict)

    def read(self, number: int) -> bytes:
        self.traffic.calls += 1
        self.traffic.read_bytes += len(self.kept[number])
        return self.kept[number]

    def write(self, number: int, piece: bytes) -> None:
        self.traffic.calls += 1
        self.traffic.written_bytes += len(piece)
        self.kept[number] = piece

    def drop(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.traffic.calls += 1
            del self.kept[number]


class MemoryStore:
    """What Spark's state store has for a bucket, and how often it was called."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.head: bytes | None = None
        self.changes = MemoryPieces(self.traffic)
        self.segments = MemoryPieces(self.traffic)
        self.before: MemoryStore | None = None
        """The store before the present attempt."""

    def reset(self) -> None:
        assert self.before is not None
        self.head = self.before.head
        self.changes.kept, self.segments.kept = dict(self.before.changes.kept), dict(self.before.segments.kept)

    def read_head(self) -> bytes | None:
        self.traffic.calls += 1
        return self.head

    def write_head(self, head: bytes) -> None:
        self.traffic.calls += 1
        self.traffic.written_bytes += len(head)
        self.head = head


@dataclass
class Stages:
    """A pipeline on a number of buckets, tasks and workers; which worker gets what, and which attempt fails, is drawn."""

    pipeline: Pipeline
    buckets: int = 2
    workers: int = 2
    tasks: int = 2
    failing: float = 0.0
    seed: int = 0
    worker_bytes: int = 10**9
    stores: defaultdict[tuple[int, int], MemoryStore] = field(default_factory=lambda: defaultdict(MemoryStore))
    written: defaultdict[str, list[tuple[bytes | None, bytes]]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    done: Report = field(default_factory=Report)
    now: int | None = None
    clock: int | None = None
    elapsed: int = 0
    bootstrapped: frozenset[tuple[str, str]] = frozenset()
    headers: defaultdict[str, list[tuple[bytes, list[tuple[str, bytes]]]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._plan = Plan(self.pipeline.graph, bucket_ids(self.buckets), "query", "run", self.worker_bytes)
        self._workers = [StateCache() for _ in range(self.workers)]

    def send(self, *messages: Message) -> None:
        """A micro-batch; messages have streams, sequences and keys."""
        opened = tuple(dict.fromkeys(message.stream for message in messages))
        self._run(self._told(Ends(opened=opened)) + [row for task in self._cut(messages) for row in self._read(task)])

    def open(self, *streams: str, elapsed: int = 0) -> None:
        """A micro-batch with which streams are opened, some time after the first one, in microseconds."""
        self._run(self._told(Ends(opened=streams, elapsed=elapsed)))

    def end(self, *streams: str, all_: bool = False) -> None:
        """A micro-batch with which streams have ended, or all of them with all of event time."""
        self._run(self._told(Ends(streams, all_)))

    def forget(self, *streams: str) -> None:
        """A micro-batch from which on streams that have ended are left out of the checkpoint."""
        self._run(self._told(Ends(forgotten=streams)))

    def _told(self, ends: Ends) -> list[BlockRow]:
        told = replace(
            ends,
            clock=self.clock,
            planned_at=self.now,
            elapsed=max(ends.elapsed, self.elapsed),
            bootstrapped=ends.bootstrapped or self.bootstrapped,
        )
        return [row for batch in stream_end_rows(self._plan, told) for row in rows_of(batch)]

    def kept_times(self, level: int = 1) -> list[dict[str, Any]]:
        """What each bucket keeps of event time."""
        return [read_head(store).beside for (of_level, _), store in self.stores.items() if of_level == level]

    def _run(self, rows: list[BlockRow]) -> None:
        self._draw.shuffle(rows)
        for level in range(1, self.pipeline.graph.shuffles + 1):
            by_bucket: defaultdict[int, list[BlockRow]] = defaultdict(list)
            for row in rows:
                by_bucket[row.bucket].append(row)
            rows = [out for bucket in by_bucket for out in self._attempts(level, bucket, by_bucket[bucket])]
        for row in rows:
            self._write(row)

    def states(self, level: int = 1) -> dict[str, dict[Key, object]]:
        """All states in the stores."""
        found: defaultdict[str, dict[Key, object]] = defaultdict(dict)
        for (of_level, _), store in self.stores.items():
            if of_level == level:
                for step, states in self._loaded(store, level).items():
                    if step not in self._plan.graph.in_every_bucket:
                        assert not found[step].keys() & states.keys(), "a key has two buckets"
                    found[step] |= states
        return found

    def shown(self, step: str, states: dict[Key, object]) -> dict[Key, object]:
        """States as `Trial.states` gives them."""
        keyed = next(keyed for keyed in self.pipeline.graph.keyed if keyed.name == step)
        return {key: keyed.display(state) for key, state in states.items()}

    def _loaded(self, store: MemoryStore, level: int) -> dict[str, States]:
        head: Head = read_head(store)
        assert sorted(store.changes.kept) == list(head.outside), "what no head names is forgotten"
        assert sorted(store.segments.kept) == list(range(len(head.segments))), "what no head names is forgotten"
        return load(store, head, state_classes(self._plan, level))

    def _cut(self, messages: Sequence[Message]) -> list[list[Message]]:
        """What each task reads: a part of each stream, which parts being consecutive."""
        streams: defaultdict[str, list[Message]] = defaultdict(list)
        for message in messages:
            streams[message.stream].append(message)
        tasks: list[list[Message]] = [[] for _ in range(self.tasks)]
        for part in streams.values():
            edges = sorted(self._draw.randint(0, len(part)) for _ in range(self.tasks - 1))
            for task, (start, end) in enumerate(zip([0, *edges], [*edges, len(part)], strict=True)):
                tasks[task] += part[start:end]
        return tasks

    def _read(self, messages: Sequence[Message]) -> list[BlockRow]:
        frames = [frame(run) for run in self._frames(messages)]
        return [row for batch in source_stage_rows(self._plan, frames, self.now) for row in rows_of(batch)]

    def _frames(self, messages: Sequence[Message]) -> Iterator[list[Message]]:
        run: list[Message] = []
        for message in messages:
            if run and (message.stream != run[0].stream or self._draw.random() < 0.1):
                yield run
                run = []
            run.append(message)
        if run:
            yield run

    def _attempts(self, level: int, bucket: int, rows: Sequence[BlockRow]) -> list[BlockRow]:
        """The results of the attempt that succeeds. Those that fail have changed a copy of the store that nobody sees again."""
        while True:
            store = copy.deepcopy(self.stores[level, bucket])
            store.before = copy.deepcopy(store)
            worker = self._draw.choice(self._workers)
            out = list(keyed_stage_rows(self._plan, level, bucket, rows, store, worker))
            if self._draw.random() >= self.failing:
                store.before = None
                self.stores[level, bucket] = store
                return out

    def _write(self, row: BlockRow) -> None:
        if row.target == REPORT:
            self.done = merged([self.done, report_of(row)])
            return
        for what, target in COUNTS.items():
            if row.target == target:
                self.counts[what.value, row.stream] += row.messages
                return
        batch = row.batch
        keys = batch.column("key").to_pylist() if "key" in batch.schema.names else [None] * batch.num_rows
        sink = self.pipeline.graph.sinks[-1 - row.target]
        if "headers" in batch.schema.names:
            found = [[(header["name"], header["value"]) for header in headers] for headers in batch.column("headers").to_pylist()]
            self.headers[sink] += zip(batch.column("value").to_pylist(), found, strict=True)
        self.written[sink] += zip(keys, batch.column("value").to_pylist(), strict=True)

    def by_key(self, sink: str) -> dict[bytes | None, list[bytes]]:
        """The values that a sink got for each key, in order."""
        found: defaultdict[bytes | None, list[bytes]] = defaultdict(list)
        for key, value in self.written[sink]:
            found[key].append(value)
        return dict(found)


def rows_of(batch: pa.RecordBatch) -> list[BlockRow]:
    return [BlockRow(**{field.name: row[field.name] for field in fields(BlockRow)}) for row in batch.to_pylist()]


def frame(messages: Sequence[Message]) -> Columns:
    """A frame of consecutive messages of a stream."""
    sequences = np.array([m.sequence for m in messages], np.int64)
    key_data, key_lengths = _packed([m.key for m in messages])
    value_data, value_lengths = _packed([m.value for m in messages])
    ids = [None if m.message_id is None else m.message_id.encode() for m in messages]
    id_data, id_lengths = _packed(ids)
    times = b""
    if any(m.event_time is not None for m in messages):
        times = np.array([-(2**63) if m.event_time is None else m.event_time for m in messages], "<i8").tobytes()
    return Columns(
        messages[0].stream,
        int(sequences[0]),
        int(sequences[-1]),
        len(messages),
        np.diff(sequences).astype("<u4").tobytes(),
        key_data,
        key_lengths,
        value_data,
        value_lengths,
        times,
        id_data,
        id_lengths,
        *_headers(messages),
    )


def _headers(messages: Sequence[Message]) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    entries = [header for message in messages for header in message.headers]
    if not entries:
        return b"", b"", b"", b"", b""
    counts = np.array([len(message.headers) for message in messages], "<u4").tobytes()
    return counts, *_packed([name.encode() for name, _ in entries]), *_values([value for _, value in entries])


def _packed(values: Sequence[bytes | None]) -> tuple[bytes, bytes]:
    return (b"", b"") if all(value is None for value in values) else _values(values)


def _values(values: Sequence[bytes | None]) -> tuple[bytes, bytes]:
    lengths = np.array([0xFFFFFFFF if value is None else len(value) for value in values], "<u4")
    return b"".join(value or b"" for value in values), lengths.tobytes()

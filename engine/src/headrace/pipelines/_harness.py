"""Runs a pipeline on a list of messages, without Spark and without a gateway: for tests, in milliseconds."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any
from zlib import crc32

import numpy as np

from headrace.pipelines._elements import Elements, Key, States
from headrace.pipelines._errors import no_step
from headrace.pipelines._fingerprints import check_fingerprints
from headrace.pipelines._message import Message
from headrace.pipelines._order import in_order
from headrace.pipelines._origin import NO_TIME, Origin
from headrace.pipelines._pass import Pass
from headrace.pipelines._patterns import matches
from headrace.pipelines._pipeline import Pipeline
from headrace.pipelines._step import Counted
from headrace.pipelines._time import END, bounded, prefix_maxima
from headrace.pipelines._watermarks import EventTime


@dataclass(frozen=True)
class Written:
    """What a sink got: a payload and its key."""

    value: bytes
    key: Key | None = None


@dataclass
class Trial:
    """A pipeline under test: give it messages, look at what its sinks got and at its states.

    ```python
    trial = Trial(app)
    trial.send(Message(b"a", stream="votes/0"), Message(b"b", stream="votes/0"))
    assert trial.values("totals") == [b"a 1", b"b 1"]
    ```

    Each call of `send` is a micro-batch. What is sent at once or in parts makes no difference, but for the order among keys.
    Messages without a sequence are counted.
    """

    pipeline: Pipeline
    buckets: int = 1
    """In how many parts keys are divided, as they are when a pipeline runs on Spark."""
    now: Callable[[], int] = lambda: time.time_ns() // 1000
    """The present, in microseconds since 1970 UTC, which `max_ahead` of a source is counted from."""
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many values were `late`, `skipped` or too far `ahead`, by one of these words and the step."""
    written: defaultdict[str, list[Written]] = field(default_factory=lambda: defaultdict(list))
    """What each sink got."""
    failed: list[str] = field(default_factory=list)
    """Why elements went to the dead-letter sink."""
    _kept: defaultdict[int, defaultdict[str, States]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(States)))
    _last: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        """Begins before all time."""
        self._event_time = EventTime(self.pipeline.graph)

    def send(self, *messages: Message) -> None:
        """Takes messages, as one micro-batch.

        Raises:
            StepError: a function raises, and its policy is to fail.
        """
        graph = self.pipeline.graph
        arriving = Pass(graph)
        for stream, run in groupby(self._numbered(messages), key=lambda message: message.stream):
            origin, values = _origin(stream, list(run))
            for number, source in graph.sources.items():
                if any(matches(pattern, stream) for pattern in source.streams):
                    arriving.read(number, Elements(values, origin, times=origin.times if graph.uses_time else None))
        self._behind(arriving)

    def end(self, *streams: str) -> None:
        """Says that streams have ended: windows and timers wait for them no more. One goes on if more is sent of it."""
        self._behind(Pass(self.pipeline.graph), ended=streams)

    def finish(self) -> None:
        """Lets event time come to its end, so that every window closes and every timer is due that is set by now.

        What a time to live is set for is forgotten then.
        """
        self._behind(Pass(self.pipeline.graph), END)

    def restart(
        self, pipeline: Pipeline | None = None, *, migrate_states: Collection[str] = (), drop_states: Collection[str] = ()
    ) -> None:
        """Stores all states and reads them back, as when an application is stopped and started again.

        Args:
            pipeline: The application as it is now; the same one if it is not given.
            migrate_states: Steps that take their states on though their windows, their key or their sources have changed.
            drop_states: Steps that the pipeline no longer has, and whose states are dropped.

        Raises:
            StateError: a state cannot be stored, or does not fit the classes or the steps that the pipeline has now.
        """
        now = (pipeline or self.pipeline).graph
        check_fingerprints(self.pipeline.graph.fingerprints, now.fingerprints, migrate_states)
        for name in self.pipeline.graph.fingerprints.keys() - now.fingerprints.keys() - set(drop_states):
            if self.states(name):
                raise no_step(name)
        stored = {
            (bucket, step.name): (list(states[step.name]), step.state_class.pack(list(states[step.name].values())))
            for bucket, states in self._kept.items()
            for step in self.pipeline.graph.keyed
        }
        self.pipeline = pipeline or self.pipeline
        self._event_time = EventTime(self.pipeline.graph, self._event_time.to_keep())
        self._kept.clear()
        for (bucket, name), (keys, packed) in stored.items():
            for step in self.pipeline.graph.keyed:
                if step.name == name:
                    self._kept[bucket][name].update(zip(keys, step.state_class.unpack(packed), strict=True))

    def values(self, sink: str) -> list[bytes]:
        """The payloads that a sink got."""
        return [written.value for written in self.written[sink]]

    def states(self, step: str) -> Mapping[Key, Any]:
        """The states that a step keeps, by key; of a step with windows, the accumulator of each open window."""
        for keyed in self.pipeline.graph.keyed:
            if keyed.name == step:
                kept = [states[step] for states in self._kept.values()]
                return {key: keyed.shown(state) for states in kept for key, state in states.items()}
        raise KeyError(f"pipeline {self.pipeline.name} has no step {step} that keeps states")

    def _behind(self, arriving: Pass, end: int | None = None, ended: Sequence[str] = ()) -> None:
        """Takes what arrived on through all shuffles; what fires, fires by the watermark of all streams, or an `end` given."""
        graph, event_time = self.pipeline.graph, self._event_time
        known = event_time.lowest()
        self._keep(arriving)
        event_time.begin((key_by, elements.origin.stream) for key_by, elements in arriving.shuffled if _have_times(elements))
        arrived = [self._marked(*item) for item in in_order(arriving.shuffled)]
        event_time.leave((key_by, stream) for key_by in graph.first_keys for stream in ended if graph.reaches(key_by, stream))
        event_time.end()
        firing: int | Mapping[int, int] = event_time.lowest() if end is None else end
        shuffled: list[tuple[int, Elements]] = []
        for level in range(1, graph.shuffles + 1):
            here = [item for item in arrived if graph.levels[item[0]] == level]
            if level > 1:
                both = [(key_by, elements) for key_by, elements, _ in here] + shuffled
                ordered = in_order([item for item in both if graph.levels[item[0]] == level])
                here = [(key_by, elements, event_time.others(key_by, known)) for key_by, elements in ordered]
            for bucket in range(self.buckets):
                behind = Pass(graph, self._kept[bucket])
                for key_by, elements, others in here:
                    behind.enter(key_by, self._of_bucket(elements, bucket), others)
                behind.settle(level, firing)
                self._keep(behind)
                shuffled += behind.shuffled

    def _marked(self, key_by: int, elements: Elements) -> tuple[int, Elements, int]:
        """Elements with their marks, and how far event time has come in the other streams."""
        if elements.times is None:
            return key_by, elements, END
        watermarks, stream = self._event_time[key_by], elements.origin.stream
        ahead = self.pipeline.graph.max_ahead(key_by, stream)
        times, count = bounded(elements.times, None if ahead is None else self.now() + ahead)
        if count:
            self.counts[Counted.AHEAD.value, self.pipeline.graph.steps[key_by].name] += count
        marks = prefix_maxima(times, watermarks.base(stream))
        watermarks.advance(stream, int(marks[-1]))
        return key_by, replace(elements, marks=marks), watermarks.others(stream)

    def _of_bucket(self, elements: Elements, bucket: int) -> Elements:
        """The elements of a bucket, as they come out of a shuffle: what a decoder gave is decoded again behind it."""
        keys, raw = elements.keys or (), elements.origin.raw
        if elements.decoded_by is not None and raw is not None:
            elements = replace(elements, values=[raw[place] for place in elements.places()])
        if self.buckets == 1:
            return elements
        return elements.pick([index for index, key in enumerate(keys) if crc32(repr(key).encode()) % self.buckets == bucket])

    def _keep(self, done: Pass) -> None:
        for sink, elements in done.written:
            keys: Iterable[Any] = elements.sink_keys() or [None] * len(elements)
            self.written[sink] += [Written(value, key) for value, key in zip(elements.values, keys, strict=True)]
        self.counts.update({(what.value, step): count for (what, step), count in done.counts.items()})
        self.failed += [failed.reason for failed in done.failed_elements]

    def _numbered(self, messages: Sequence[Message]) -> Iterable[Message]:
        for message in messages:
            sequence = message.sequence or self._last[message.stream] + 1
            self._last[message.stream] = sequence
            yield message if message.sequence else _with(message, sequence)


def _have_times(elements: Elements) -> bool:
    return elements.times is not None and bool((elements.times != NO_TIME).any())


def _with(message: Message, sequence: int) -> Message:
    return Message(message.value, message.key, message.event_time, message.stream, sequence, message.message_id)


def _origin(stream: str, messages: Sequence[Message]) -> tuple[Origin, list[bytes | None]]:
    values = [message.value for message in messages]
    times = np.array([NO_TIME if m.event_time is None else m.event_time for m in messages], np.int64)
    sequences = np.array([m.sequence for m in messages], np.int64)
    keys, ids = [m.key for m in messages], [m.message_id for m in messages]
    return Origin(stream, sequences, values, keys, times, ids), values

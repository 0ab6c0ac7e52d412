"""Runs a pipeline on a list of messages, without Spark and without a gateway, for tests."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from headrace.contract.names import covers as matches
from headrace.pipelines._errors import GraphError, TrialError, no_step
from headrace.pipelines._pipeline import Pipeline
from headrace.pipelines.arguments import MAX_COUNT, excerpt
from headrace.pipelines.elements.elements import Elements, Key, States
from headrace.pipelines.elements.headers import NO_HEADERS, Headers
from headrace.pipelines.elements.message import NO_TIME, Message, Origin
from headrace.pipelines.execution.order import in_order
from headrace.pipelines.execution.passes import Pass
from headrace.pipelines.execution.watermarks import EventTime
from headrace.pipelines.steps.copies import copied
from headrace.pipelines.steps.fingerprints import check_fingerprints
from headrace.pipelines.steps.lake_places import located
from headrace.pipelines.steps.meters import NO_LABEL, Histogram, Metered, histogram_of, metered
from headrace.pipelines.steps.step import Counted
from headrace.pipelines.time.time import END, bounded, first_time, prefix_maxima
from headrace.pipelines.trial_bootstrap import Bootstrapping
from headrace.pipelines.trial_checks import (
    Counts,
    Known,
    check_messages,
    check_names,
    check_streams,
    check_time,
    counted_by,
    meter_named,
    no_states,
)
from headrace.pipelines.trial_history import Past, in_past


@dataclass(frozen=True)
class Written:
    """What a sink received: a payload, its key and its headers."""

    value: bytes
    key: Key | None = None
    headers: Headers = NO_HEADERS


@dataclass
class Trial:
    """A pipeline under test: send messages, then check what its sinks received, and its states.

    ```python
    trial = Trial(app)
    trial.send(Message(b"a", stream="votes/0"), Message(b"b", stream="votes/0"))
    assert trial.values("totals") == [b"a 1", b"b 1"]
    ```

    Each call of `send` is a micro-batch. The division into micro-batches only affects the order of results of different keys.
    Messages without a sequence are numbered. Windows and timers wait for the streams of all messages that were sent, and for
    streams that were opened.
    """

    pipeline: Pipeline
    buckets: int = 1
    """The number of buckets, as on Spark."""
    now: Callable[[], int] = lambda: time.time_ns() // 1000
    """Returns the clock, in microseconds since 1970 UTC, for whatever goes by it."""
    counts: Counter[tuple[str, str]] = field(init=False)
    """The number of values that were `late`, `skipped` or too far `ahead`, and of streams that began `behind` the watermark.

    By one of these words and the step."""
    written: defaultdict[str, list[Written]] = field(init=False)
    """What each sink received."""
    stored: defaultdict[str, list[dict[str, Any]]] = field(init=False)
    """The rows that each table received, by its place."""
    failed: list[str] = field(init=False)
    """The reasons for which messages went to the dead-letter sink."""

    def __post_init__(self) -> None:
        """Checks the arguments, and initialises the watermarks.

        Raises:
            GraphError: The pipeline is invalid.
            TrialError: An argument is invalid.
        """
        _check_pipeline(self.pipeline)
        if not isinstance(self.buckets, int) or isinstance(self.buckets, bool) or not 1 <= self.buckets <= MAX_COUNT:
            raise TrialError(f"Trial(...): buckets is a whole number from 1 to {MAX_COUNT:,}, not {excerpt(self.buckets)}")
        if not callable(self.now):
            raise TrialError(f"Trial(...): now is a function that returns microseconds since 1970 UTC, not {excerpt(self.now)}")
        where = f"pipeline {self.pipeline.name}"
        self._counts, self._written = Counts(where), Known[Written](where)
        self._stored = Known[dict[str, Any]](where, "table")
        self.counts, self.written, self.stored, self.failed = self._counts, self._written, self._stored, []
        self._states: defaultdict[int, defaultdict[str, States]] = defaultdict(lambda: defaultdict(States))
        self._last: defaultdict[str, int] = defaultdict(int)
        self._event_time = EventTime(self.pipeline.graph)
        self._began_at: int | None = None
        self._clock = NO_TIME
        self._past = Past()
        self._bootstrapping = Bootstrapping()
        self._metered: dict[str, Metered] = {}
        self._note_names()

    def send(self, *messages: Message) -> None:
        """Processes messages, as one micro-batch.

        Raises:
            StepError: A function raises, and its step's policy is `OnError.FAIL`.
            TrialError: No source reads the stream of a message, or a field has a wrong type. No message is processed then.
        """
        graph = self.pipeline.graph
        check_messages(graph, messages)
        self._read([message for message in messages if not self._repeats(message)])

    def bootstrap(self, *messages: Message) -> None:
        """Processes messages of tables with `bootstrap=True` that make up their present end, then what has waited for them.

        Until then, messages of streams that meet such a table are held back.

        Raises:
            StepError: A function raises, and its step's policy is `OnError.FAIL`.
            TrialError: No table waits for its present end, or a message is not of such a table, or as `send` refuses it.
        """
        graph = self.pipeline.graph
        check_messages(graph, messages, "bootstrap")
        names, waiting = self._bootstrapping.take(graph, messages)
        self._process(messages, tables=names)
        for follows in waiting:
            follows()

    def history(self, *messages: Message, until: int | None = None) -> None:
        """Processes messages of the past, in their order, as `headrace run --history` does; `send` then drops what it repeats.

        If all of them have sequences, each stream continues after its last one. Otherwise the order is by event time.

        Args:
            *messages: The messages.
            until: The event time from which on messages come from the streams, in microseconds since 1970; None for just after
                the newest one.

        Raises:
            StepError: A function raises, and its step's policy is `OnError.FAIL`.
            TrialError: There is no message, or one is not as `send` needs it.
        """
        check_messages(self.pipeline.graph, messages, "history")
        check_time("history", "until", until)
        if self.pipeline.graph.bootstraps:
            raise TrialError("history(...): a history is read before all streams, and a table with bootstrap=True before others")
        found, ending, self._past = in_past(self.pipeline.graph, messages, until)
        self._process(found)
        if ending:
            self.end(*ending)

    def _repeats(self, message: Message) -> bool:
        """Whether the history contains a message, which is then counted."""
        if not self._past.contains(message):
            return False
        for source in self.pipeline.graph.sources.values():
            if any(matches(pattern, message.stream) for pattern in source.streams):
                self.counts.update({(Counted.REPEATED.value, source.name): 1})
        return True

    def _read(self, messages: Sequence[Message]) -> None:
        """Processes messages, as one micro-batch, and holds those back that wait for a table."""
        waiting = self._bootstrapping.held(self.pipeline.graph, (message.stream for message in messages))
        if waiting:
            self._bootstrapping.then(partial(self._process, [message for message in messages if message.stream in waiting]))
            self.open(*sorted(waiting))
        self._process([message for message in messages if message.stream not in waiting])

    def _process(self, messages: Sequence[Message], tables: Collection[str] = ()) -> None:
        graph = self.pipeline.graph
        arriving = Pass(graph)
        for stream, run in groupby(self._numbered(messages), key=lambda message: message.stream):
            origin, values = _origin(stream, list(run))
            for number, source in graph.sources.items():
                if any(matches(pattern, stream) for pattern in source.streams):
                    arriving.read(number, Elements(values, origin, times=origin.times if graph.uses_time else None))
        self._run_keyed_steps(arriving, opened=dict.fromkeys(message.stream for message in messages), tables=tables)

    def open(self, *streams: str) -> None:
        """Opens streams that have no messages yet, as when the gateway knows them: windows and timers wait for them.

        On Spark, a pipeline waits for every stream that the gateway knows when it starts. In a `Trial`, open each stream
        whose first message is sent later than the first messages of others.

        Raises:
            TrialError: No source reads a stream.
        """
        check_streams(self.pipeline.graph, "open", streams)
        self._run_keyed_steps(Pass(self.pipeline.graph), opened=streams)

    def end(self, *streams: str) -> None:
        """Ends streams: windows and timers no longer wait for them. A stream continues if more of its messages are sent.

        Raises:
            StepError: A function raises, and its step's policy is `OnError.FAIL`.
            TrialError: No source reads a stream.
        """
        check_streams(self.pipeline.graph, "end", streams)
        waiting = self._bootstrapping.held(self.pipeline.graph, streams)
        if waiting:
            self._bootstrapping.then(partial(self.end, *sorted(waiting)))
        self._run_keyed_steps(Pass(self.pipeline.graph), ended=[stream for stream in streams if stream not in waiting])

    def finish(self) -> None:
        """Ends event time: all windows close, all timers that are set fire, and states with a time to live are removed.

        Tables with `bootstrap=True` that were not read are at their end before.

        Raises:
            StepError: A function raises, and its step's policy is `OnError.FAIL`.
        """
        if self._bootstrapping.unread(self.pipeline.graph):
            self.bootstrap()
        self._run_keyed_steps(Pass(self.pipeline.graph), END)

    def restart(
        self, pipeline: Pipeline | None = None, *, migrate_states: Collection[str] = (), drop_states: Collection[str] = ()
    ) -> None:
        """Stores all states and reads them back, as when an application is restarted.

        Args:
            pipeline: The changed application; by default, the same one.
            migrate_states: Steps that keep their states although their windows, key or sources have changed.
            drop_states: Steps that the pipeline no longer has, and whose states are dropped.

        Raises:
            StateError: A state cannot be stored, or stored states do not match the classes or the steps of the pipeline.
            TrialError: `pipeline` is not a pipeline, or names are no list of texts.
        """
        if pipeline is not None:
            _check_pipeline(pipeline)
        now = (pipeline or self.pipeline).graph
        check_names("migrate_states", migrate_states)
        check_names("drop_states", drop_states)
        check_fingerprints(self.pipeline.graph.fingerprints, now.fingerprints, migrate_states)
        for name in self.pipeline.graph.fingerprints.keys() - now.fingerprints.keys() - set(drop_states):
            if self.states(name):
                raise no_step(name)
        stored = {
            (bucket, step.name): (list(states[step.name]), step.state_class.pack(list(states[step.name].values())))
            for bucket, states in self._states.items()
            for step in self.pipeline.graph.keyed
        }
        self.pipeline = pipeline or self.pipeline
        self._note_names()
        self._event_time = EventTime(self.pipeline.graph, self._event_time.to_keep())
        self._states.clear()
        for (bucket, name), (keys, packed) in stored.items():
            for step in self.pipeline.graph.keyed:
                if step.name == name:
                    self._states[bucket][name].update(zip(keys, step.state_class.unpack(packed), strict=True))
        for follows in self._bootstrapping.restart(self.pipeline.graph):
            follows()

    def values(self, sink: str) -> list[bytes]:
        """Returns the payloads that a sink received.

        Raises:
            TrialError: The pipeline has no such sink.
        """
        self._written.check(sink)
        return [written.value for written in self._written[sink]]

    def rows(self, path: str | Path) -> list[dict[str, Any]]:
        """Returns the rows that the table at a path received.

        Raises:
            TrialError: The pipeline writes to no such table.
        """
        try:
            place = located("rows(...)", path)
        except GraphError as error:
            raise TrialError(str(error)) from None
        self._stored.check(place)
        return self.stored[place]

    def counter(self, name: str, value: str = NO_LABEL) -> int:
        """Returns what a counter has counted, for a value of its label if it has one.

        Raises:
            TrialError: The pipeline has no such counter, or the counter no such value.
        """
        (count,), _ = self._numbers("counter", name, value)
        return count

    def histogram(self, name: str, value: str = NO_LABEL) -> Histogram:
        """Returns a histogram, for a value of its label if it has one.

        Raises:
            TrialError: The pipeline has no such histogram, or the histogram no such value.
        """
        numbers, bounds = self._numbers("histogram", name, value)
        return histogram_of(bounds, numbers)

    def states(self, step: str) -> Mapping[Key, Any]:
        """Returns copies of the states of a step by key; for a step with windows, of the accumulators of the open windows.

        Raises:
            TrialError: The pipeline has no such step with states.
        """
        for keyed in self.pipeline.graph.keyed:
            if keyed.name == step:
                kept = [states[step] for states in self._states.values()]
                return {key: keyed.display(copied(state)) for states in kept for key, state in states.items()}
        raise no_states(self.pipeline.graph, step)

    def _numbers(self, kind: str, name: str, value: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """The numbers of a series, and its bounds."""
        meter = meter_named(self.pipeline.graph, kind, name, value)
        return self._metered[name].series[value], meter.bounds or ()

    def _note_names(self) -> None:
        """Notes the names of sinks and counts of the pipeline, beside the names of the pipelines before."""
        self._written.names.update(dict.fromkeys(self.pipeline.graph.sinks))
        self._stored.names.update(dict.fromkeys(self.pipeline.graph.lakes))
        self._counts.names.update(counted_by(self.pipeline.graph))
        self._metered = metered(self.pipeline.graph.meters, self._metered, {})

    def _run_keyed_steps(
        self,
        arriving: Pass,
        end: int | None = None,
        *,
        opened: Iterable[str] = (),
        ended: Iterable[str] = (),
        tables: Iterable[str] = (),
    ) -> None:
        """Runs all steps after the shuffles. Timers and windows fire by the watermark of all streams, or by `end` if given."""
        graph, event_time = self.pipeline.graph, self._event_time
        known = event_time.lowest()
        self._keep(arriving)
        event_time.begin(
            ((key_by, elements.origin.stream) for key_by, elements in arriving.shuffled if _have_times(elements)),
            graph.reached_by(opened),
            [*graph.begun_after(self._elapsed()), *tables],
        )
        arrived = [self._marked(arriving, *item) for item in in_order(arriving.shuffled)]
        event_time.end_streams(graph.reached_by(ended))
        event_time.end(self._running() if graph.idle_flush is not None else None, self._running() if graph.uses_clock else None)
        firing = event_time.watermark if end is None else end
        shuffled: list[tuple[int, Elements]] = []
        for level in range(1, graph.shuffles + 1):
            here = [item for item in arrived if graph.levels[item[0]] == level]
            if level > 1:
                both = [(key_by, elements) for key_by, elements, _ in here] + shuffled
                ordered = in_order([item for item in both if graph.levels[item[0]] == level])
                here = [(key_by, elements, event_time.others(key_by, known)) for key_by, elements in ordered]
            for bucket in range(self.buckets):
                keyed_pass = Pass(graph, self._states[bucket], self.pipeline.folder)
                for key_by, elements, others in here:
                    keyed_pass.enter(key_by, self._of_bucket(key_by, elements, bucket), others)
                keyed_pass.fire_due(level, firing, event_time.present)
                if bucket:
                    keyed_pass.leave_to_first_bucket()
                self._keep(keyed_pass)
                shuffled += keyed_pass.shuffled

    def _marked(self, arriving: Pass, key_by: int, elements: Elements) -> tuple[int, Elements, int]:
        """Returns the elements with their marks, and the watermark of the other streams."""
        if elements.times is None:
            return key_by, elements, END
        event_time, stream = self._event_time, elements.origin.stream
        streams = event_time[key_by]
        ahead = self.pipeline.graph.max_ahead(key_by, stream)
        times, count = bounded(elements.times, None if ahead is None else self.now() + ahead)
        if count:
            self.counts.update({(Counted.AHEAD.value, self.pipeline.graph.steps[key_by].name): count})
        if event_time.is_behind(key_by, stream, first_time(times)):
            self.counts.update({(Counted.BEHIND.value, self.pipeline.graph.steps[key_by].name): 1})
        marks = prefix_maxima(times, streams.base(stream))
        streams.advance(stream, int(marks[-1]))
        marked = arriving.combined(key_by, replace(elements, marks=marks))
        return key_by, marked, event_time.others_here(key_by, stream)

    def _elapsed(self) -> int:
        """The time since the first micro-batch, in microseconds."""
        if not self.pipeline.graph.asks_for_present:
            return 0
        now = self.now()
        self._began_at = now if self._began_at is None else self._began_at
        return now - self._began_at

    def _running(self) -> int:
        """The clock, which never goes back."""
        self._clock = max(self._clock, self.now())
        return self._clock

    def _of_bucket(self, key_by: int, elements: Elements, bucket: int) -> Elements:
        """Returns the elements of a bucket, as after a shuffle, where raw messages are decoded again."""
        keys, raw = elements.keys or (), elements.origin.raw
        if elements.decoded_by is not None and raw is not None:
            elements = replace(elements, values=[raw[place] for place in elements.places()])
        if self.pipeline.graph.is_for_every_bucket(key_by):
            return replace(elements, values=copied(list(elements.values)))
        if self.buckets == 1:
            return elements
        return elements.pick([index for index, key in enumerate(keys) if crc32(repr(key).encode()) % self.buckets == bucket])

    def _keep(self, done: Pass) -> None:
        for sink, elements in done.written:
            keys: Iterable[Any] = elements.sink_keys() or [None] * len(elements)
            headers: Iterable[Headers] = elements.own_headers() or [NO_HEADERS] * len(elements)
            self.written[sink] += map(Written, elements.values, keys, headers)
        for place, elements in done.stored:
            self.stored[place] += elements.values
        self.counts.update({(what.value, step): count for (what, step), count in done.counts.items()})
        self.failed += [failed.reason for failed in done.failed_elements]
        if more := {step: measured.series for step, measured in done.measures.items() if measured.series}:
            self._metered = metered(self.pipeline.graph.meters, self._metered, more)

    def _numbered(self, messages: Sequence[Message]) -> Iterable[Message]:
        for message in messages:
            sequence = message.sequence or self._last[message.stream] + 1
            self._last[message.stream] = sequence
            yield message if message.sequence else _with(message, sequence)


def _check_pipeline(pipeline: Any) -> None:
    if not isinstance(pipeline, Pipeline):
        raise TrialError(f"a trial runs a Pipeline, not {excerpt(pipeline)}")


def _have_times(elements: Elements) -> bool:
    return elements.times is not None and bool((elements.times != NO_TIME).any())


def _with(message: Message, sequence: int) -> Message:
    return replace(message, sequence=sequence)


def _origin(stream: str, messages: Sequence[Message]) -> tuple[Origin, list[bytes | None]]:
    values = [message.value for message in messages]
    times = np.array([NO_TIME if m.event_time is None else m.event_time for m in messages], np.int64)
    sequences = np.array([m.sequence for m in messages], np.int64)
    keys, ids, headers = [m.key for m in messages], [m.message_id for m in messages], [m.headers for m in messages]
    return Origin(stream, sequences, values, keys, times, ids, headers if any(headers) else None), values

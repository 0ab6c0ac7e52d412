"""The graph of a pipeline: its steps, and their inputs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from headrace.contract.names import covers as matches
from headrace.pipelines._errors import GraphError
from headrace.pipelines.graph.bootstrap import Bootstrap, bootstraps
from headrace.pipelines.graph.early import check_early_results
from headrace.pipelines.joins.broadcast import BroadcastRows
from headrace.pipelines.joins.step import Entrance, Join
from headrace.pipelines.programs.program import Program
from headrace.pipelines.steps.columnar import DecodeColumns, MapColumns, StatefulColumns, ToColumns
from headrace.pipelines.steps.deduplicate import Deduplicate
from headrace.pipelines.steps.fingerprints import Fingerprint
from headrace.pipelines.steps.headers import SetHeaders
from headrace.pipelines.steps.lake import Lake
from headrace.pipelines.steps.meters import Meter
from headrace.pipelines.steps.program import StatefulProgram
from headrace.pipelines.steps.stateless import EventTime, Filter, KeyBy, Merge, Sink, Source
from headrace.pipelines.steps.step import Counted, KeyedStep, OnError, Step
from headrace.pipelines.windows.late import LateValues
from headrace.pipelines.windows.step import TimeWindows

_COLUMNAR = (DecodeColumns, MapColumns, StatefulColumns, ToColumns)
_PASSING = (Deduplicate, EventTime, Filter, KeyBy, LateValues, Merge, Meter, SetHeaders)
"""The steps whose results are some of the values that they receive."""


MAX_NUMBERS = 1_000
"""How many numbers the counters and histograms of a pipeline may have in all."""
MIN_TICK, MAX_TICK = 1_000_000, 60_000_000
"""How often quiet streams have a micro-batch without messages at most and at least, in microseconds."""


@dataclass(frozen=True, eq=False)
class Graph:
    """The steps in topological order: a step's number is higher than the numbers of its inputs.

    Attributes:
        name: The application's name, in errors and in `headrace status`.
        steps: The steps by number.
        inputs: The numbers of the steps that each step follows.
        dead_letters: The sink for the messages of elements for which a function raises; None if there is none.
        max_keys: The largest number of keys with a state, of each step in each bucket; None for no limit.
        idle_flush: How far behind the clock event time advances while streams are quiet, in microseconds; None if it does not.
    """

    name: str
    steps: Sequence[Step]
    inputs: Sequence[tuple[int, ...]]
    dead_letters: str | None
    max_keys: int | None = None
    idle_flush: int | None = None

    def check(self) -> None:
        """Validates the graph.

        Raises:
            GraphError: The graph is invalid; the error has the reason and the remedy.
            StateError: A new state of a step cannot be stored and read back.
        """
        if not self.sources:
            raise GraphError(f"pipeline {self.name} has no source: begin with pipeline.source('orders/*')")
        if self.idle_flush is not None and not self.uses_time:
            raise GraphError(f"pipeline {self.name}: idle_flush has no effect: no step waits for event time; remove it")
        check_early_results(self.name, self.steps, self.consumers)
        for number, step in enumerate(self.steps):
            if isinstance(step, EventTime) and self.levels[number]:
                raise GraphError(
                    f"pipeline {self.name}: step {step.name} is too late; event_time must precede the first key_by or deduplicate"
                )
            if isinstance(step, (MapColumns, StatefulColumns)) and not all(
                self._are_rows[before] for before in self.inputs[number]
            ):
                those = ", ".join(self.steps[before].name for before in self.inputs[number])
                raise GraphError(
                    f"pipeline {self.name}: step {step.name} is columnar, so it must follow a source without decode, to_columns "
                    f"or another columnar step, and it follows {those}"
                )
            if isinstance(step, DecodeColumns) and not all(self._are_only_messages[before] for before in self.inputs[number]):
                raise GraphError(
                    f"pipeline {self.name}: step {step.name} decodes messages, so it must follow a source without decode; only "
                    "steps that pass messages on, such as filter, key_by and merge, may stand between"
                )
            if not isinstance(step, (Lake, Meter, Sink)) and not self.consumers[number]:
                raise GraphError(f"pipeline {self.name}: step {step.name} has no consumer; end the flow with .sink('name')")
            if step.on_error is OnError.DEAD_LETTER and self.dead_letters is None:
                raise GraphError(
                    f"pipeline {self.name}: step {step.name} uses OnError.DEAD_LETTER, and there is no dead-letter sink; "
                    "set one: Pipeline(..., dead_letters='failed')"
                )
            if isinstance(step, Lake):
                self._check_folder(number, step)
            if isinstance(step, TimeWindows) and step.combines and len(self.consumers[self.inputs[number][0]]) > 1:
                raise GraphError(
                    f"pipeline {self.name}: step {step.name} combines values before the shuffle, so nothing else can follow its "
                    "key_by: add a key_by of its own, or remove before_shuffle"
                )
            if isinstance(step, KeyedStep):
                # A copy, since what it caches must not be sent to the workers.
                replace(step.state_class).check()

        self._check_meters()

    def _check_meters(self) -> None:
        """Checks how many numbers the counters and histograms have in all: each one is a series in metrics."""
        numbers = 0
        for meter in self.meters:
            numbers += len(meter.labels) * meter.size
            if numbers > MAX_NUMBERS:
                raise GraphError(
                    f"pipeline {self.name}: with step {meter.name}, counters and histograms have {numbers:,} numbers, and may "
                    f"have {MAX_NUMBERS:,}: declare fewer values or bounds"
                )

    def _check_folder(self, number: int, lake: Lake) -> None:
        """Checks that no step before a lake writes to its folder, around it or inside it."""
        for before in self.steps[:number]:
            if isinstance(before, Lake) and not lake.is_beside(before):
                raise GraphError(
                    f"pipeline {self.name}: step {lake.name} writes to {lake.path}, and step {before.name} to {before.path}, "
                    "which are one folder, or one is inside the other: merge the flows before, or write to a folder beside it"
                )

    @cached_property
    def consumers(self) -> list[list[int]]:
        """The numbers of the steps that follow each."""
        following: list[list[int]] = [[] for _ in self.steps]
        for number, inputs in enumerate(self.inputs):
            for before in inputs:
                following[before].append(number)
        return following

    @property
    def sources(self) -> dict[int, Source]:
        """The sources by number."""
        return {number: step for number, step in enumerate(self.steps) if isinstance(step, Source)}

    @property
    def streams(self) -> list[str]:
        """The patterns of all streams that the pipeline reads, without duplicates."""
        return list(dict.fromkeys(pattern for source in self.sources.values() for pattern in source.streams))

    @property
    def keyed(self) -> Iterator[KeyedStep]:
        """The steps with states."""
        return (step for step in self.steps if isinstance(step, KeyedStep))

    @property
    def bounds(self) -> dict[str, str]:
        """What bounds the states of each step, by its name, in words that begin with none if nothing does."""
        return {step.name: step.bound.in_words(None if step.is_in_every_bucket else self.max_keys) for step in self.keyed}

    @property
    def programs(self) -> list[Program]:
        """The programs of steps."""
        return [step.program for step in self.steps if isinstance(step, StatefulProgram)]

    @property
    def keyed_levels(self) -> dict[str, int]:
        """The number of shuffles before each step with states, by its name."""
        return {step.name: self.levels[number] for number, step in enumerate(self.steps) if isinstance(step, KeyedStep)}

    @cached_property
    def in_every_bucket(self) -> frozenset[str]:
        """The names of the steps of which each bucket has the states of all keys."""
        return frozenset(step.name for step in self.keyed if step.is_in_every_bucket)

    def is_for_every_bucket(self, key_by: int) -> bool:
        """Whether each bucket gets all elements of a `key_by`."""
        step = self.steps[key_by]
        return isinstance(step, KeyBy) and step.is_for_every_bucket

    @property
    def sinks(self) -> list[str]:
        """The names of all sinks, without duplicates; the dead-letter sink last."""
        named = dict.fromkeys(step.sink for step in self.steps if isinstance(step, Sink))
        if self.dead_letters is not None:
            named[self.dead_letters] = None
        return list(named)

    @property
    def lakes(self) -> dict[str, int]:
        """The number of the first step that writes to each table, by its place."""
        found: dict[str, int] = {}
        for number, step in enumerate(self.steps):
            if isinstance(step, Lake):
                found.setdefault(step.path, number)
        return found

    @property
    def lake_steps(self) -> list[Lake]:
        """The steps that write to tables, in the order of `lakes`."""
        return [step for step in self.steps if isinstance(step, Lake)]

    def combiner(self, key_by: int) -> TimeWindows | None:
        """The step for which elements are combined before they are shuffled; None if there is none."""
        found = [self.steps[number] for number in self.consumers[key_by]]
        step = found[0] if found else None
        return step if isinstance(step, TimeWindows) and step.combines else None

    @property
    def meters(self) -> list[Meter]:
        """The counters and histograms."""
        return [step for step in self.steps if isinstance(step, Meter)]

    @cached_property
    def levels(self) -> list[int]:
        """The number of shuffles before each step's results."""
        levels: list[int] = []
        for number, step in enumerate(self.steps):
            before = max((levels[i] for i in self.inputs[number]), default=0)
            levels.append(before + isinstance(step, KeyBy))
        return levels

    @property
    def shuffles(self) -> int:
        """The largest number of shuffles of an element."""
        return max(self.levels)

    @cached_property
    def roots(self) -> list[frozenset[int]]:
        """The first `key_by` on each path from a source to each step, where the marks of its elements are computed."""
        roots: list[frozenset[int]] = []
        for number, step in enumerate(self.steps):
            found = frozenset[int]().union(*(roots[i] for i in self.inputs[number]))
            roots.append(found | {number} if isinstance(step, KeyBy) and self._unkeyed[number] else found)
        return roots

    @cached_property
    def meetings(self) -> list[frozenset[int]]:
        """The different `roots` of the steps behind a `key_by`. The streams that reach them share a watermark."""
        found = {self.roots[number] for number, step in enumerate(self.steps) if isinstance(step, (KeyBy, KeyedStep))}
        return sorted(found, key=sorted)

    @property
    def first_keys(self) -> frozenset[int]:
        """Every `key_by` that elements reach directly from sources, where marks are computed."""
        return frozenset[int]().union(*self.roots)

    def behind(self, key_by: int) -> frozenset[str]:
        """Names the steps with states, and sides of joins, behind this `key_by`: the ones behind no other, else all of them."""
        kinds = (Entrance, KeyedStep)
        steps = [(step.name, self.roots[number]) for number, step in enumerate(self.steps) if isinstance(step, kinds)]
        alone = frozenset(name for name, roots in steps if roots == {key_by})
        return alone or frozenset(name for name, roots in steps if key_by in roots)

    def reaches(self, key_by: int, stream: str) -> bool:
        """Whether messages of a stream reach a `key_by` directly from sources."""
        return any(matches(pattern, stream) for number in self._unkeyed[key_by] for pattern in self.sources[number].streams)

    def reached_by(self, streams: Iterable[str]) -> list[tuple[int, str]]:
        """Every `key_by` that messages of streams reach directly from sources, with the stream; none if no step needs times."""
        if not self.uses_time:
            return []
        named = list(streams)
        return [(key_by, stream) for key_by in sorted(self.first_keys) for stream in named if self.reaches(key_by, stream)]

    @cached_property
    def fingerprints(self) -> dict[str, Fingerprint]:
        """The fingerprint of each step with states, by its name."""
        return {
            step.name: Fingerprint(step.kind, self._key(number), step.divided, self._origins[number])
            for number, step in enumerate(self.steps)
            if isinstance(step, KeyedStep)
        }

    def _key(self, number: int) -> str:
        """The description of the key of a step's values."""
        step = self.steps[number]
        while not isinstance(step, KeyBy):
            number = self.inputs[number][0]
            step = self.steps[number]
        return step.by

    @cached_property
    def _origins(self) -> list[tuple[str, ...]]:
        """The patterns of the streams that reach each step."""
        origins: list[set[str]] = []
        for number, step in enumerate(self.steps):
            own = step.streams if isinstance(step, Source) else ()
            origins.append(set(own).union(*(origins[i] for i in self.inputs[number])))
        return [tuple(sorted(patterns)) for patterns in origins]

    @cached_property
    def _unkeyed(self) -> list[frozenset[int]]:
        """The sources whose elements reach each step without a `key_by` in between."""
        unkeyed: list[frozenset[int]] = []
        for number, step in enumerate(self.steps):
            before = (unkeyed[i] for i in self.inputs[number] if not isinstance(self.steps[i], KeyBy))
            unkeyed.append(frozenset({number}) if isinstance(step, Source) else frozenset[int]().union(*before))
        return unkeyed

    @cached_property
    def has_idle_streams(self) -> bool:
        """Whether a source has `idle_after`."""
        return any(source.idle_after is not None for source in self.sources.values())

    def idle_after(self, key_by: int, stream: str) -> int | None:
        """The `idle_after` of a stream at a `key_by`, in microseconds; None for never."""
        reaching = (self.sources[number] for number in self._unkeyed[key_by])
        spans = [source.idle_after for source in reaching if any(matches(pattern, stream) for pattern in source.streams)]
        known = [span for span in spans if span is not None]
        return max(known) if known and len(known) == len(spans) else None

    @cached_property
    def _bootstraps(self) -> dict[str, tuple[Bootstrap, tuple[str, ...]]]:
        return bootstraps(self.inputs, self.sources)

    @property
    def bootstraps(self) -> list[Bootstrap]:
        """The tables that are read to their present end before the streams that meet them."""
        return [table for table, _ in self._bootstraps.values()]

    @cached_property
    def awaiting(self) -> dict[str, Source]:
        """The sources for which event time waits before it begins, by name."""
        held = {name for _, names in self._bootstraps.values() for name in names}
        return {source.name: source for source in self.sources.values() if source.awaits or source.name in held}

    def least_streams(self, source: Source) -> int | None:
        """How many streams of a source in `awaiting` must be known for event time to begin; None if the number does not matter.

        Whoever waits for a table would come late if event time did not wait for a first stream.
        """
        return source.await_streams if source.awaits else 1

    def begun_after(self, elapsed: int) -> list[str]:
        """The sources whose `await_time` has passed, in microseconds after the first micro-batch."""
        return [name for name, source in self.awaiting.items() if source.await_time is not None and source.await_time <= elapsed]

    def passes(self, source: Source, roots: frozenset[int]) -> bool:
        """Whether messages of a source reach one of some `key_by`s directly."""
        return any(self.sources[number] is source for root in roots for number in self._unkeyed[root])

    @cached_property
    def expires(self) -> bool:
        """Whether states of a step expire."""
        return any(step.lifetime is not None for step in self.keyed)

    @cached_property
    def has_end(self) -> bool:
        """Whether a step has results at the end of event time."""
        return self.uses_time or any(step.ends for step in self.keyed)

    @property
    def asks_for_present(self) -> bool:
        """Whether a step needs to know when a micro-batch was planned."""
        return self.bounds_skew or self.uses_clock or any(source.await_time is not None for source in self.awaiting.values())

    @cached_property
    def uses_clock(self) -> bool:
        """Whether a step acts by the clock."""
        return any(step.uses_clock for step in self.keyed)

    @property
    def tick(self) -> int | None:
        """The time after which quiet streams need a micro-batch without messages, in microseconds; None for never."""
        wanted = [step.tick for step in self.keyed if step.tick is not None]
        if self.idle_flush is not None:
            wanted.append(self.idle_flush // 4)
        return min(max(min(wanted), MIN_TICK), MAX_TICK) if wanted else None

    @cached_property
    def bounds_skew(self) -> bool:
        """Whether a source has `max_ahead`."""
        return any(source.max_ahead is not None for source in self.sources.values())

    def max_ahead(self, key_by: int, stream: str) -> int | None:
        """The `max_ahead` of a stream at a `key_by`, in microseconds; None for no limit."""
        reaching = (self.sources[number] for number in self._unkeyed[key_by])
        spans = [source.max_ahead for source in reaching if any(matches(pattern, stream) for pattern in source.streams)]
        return min((span for span in spans if span is not None), default=None)

    @cached_property
    def tells_apart(self) -> bool:
        """Whether a step needs the lineages of elements."""
        return any(step.tells_apart for step in self.steps)

    @cached_property
    def uses_ids(self) -> bool:
        """Whether a step needs the ids of messages."""
        return any(step.uses_ids for step in self.steps)

    @cached_property
    def headers_after(self) -> list[bool]:
        """Whether the headers of each step's results are needed: a later step reads them, or they reach a sink."""
        needed = [False] * len(self.steps)
        for number in reversed(range(len(self.steps))):
            for consumer in self.consumers[number]:
                step = self.steps[consumer]
                passes = isinstance(step, Sink) or (step.passes_headers and needed[consumer])
                needed[number] |= passes or step.reads_headers or (self._are_messages[number] and step.calls_function)
        return needed

    @cached_property
    def _are_messages(self) -> list[bool]:
        """Whether the results of each step are `Message`s, which have their headers."""
        are: list[bool] = []
        for number, step in enumerate(self.steps):
            if isinstance(step, Source):
                are.append(step.decode is None)
            else:
                are.append(isinstance(step, _PASSING) and any(are[before] for before in self.inputs[number]))
        return are

    @cached_property
    def _are_only_messages(self) -> list[bool]:
        """Whether all results of each step are `Message`s."""
        are: list[bool] = []
        for number, step in enumerate(self.steps):
            if isinstance(step, Source):
                are.append(step.decode is None)
            else:
                are.append(isinstance(step, _PASSING) and all(are[before] for before in self.inputs[number]))
        return are

    @cached_property
    def _are_rows(self) -> list[bool]:
        """Whether the results of each step are in Arrow columns: messages, and what columnar steps return."""
        are: list[bool] = []
        for number, step in enumerate(self.steps):
            begins = isinstance(step, _COLUMNAR) or (isinstance(step, Source) and step.decode is None)
            passes = isinstance(step, _PASSING) and all(are[before] for before in self.inputs[number])
            are.append(begins or passes)
        return are

    @cached_property
    def uses_time(self) -> bool:
        """Whether a step needs event times and watermarks."""
        return any(step.uses_time for step in self.steps)

    def only_decodes(self, source: int) -> int | None:
        """The `key_by` that a source's messages reach with their own keys and without other functions; None if there is none.

        Such messages are not processed one by one before the shuffle.
        """
        consumers = self.consumers[source]
        # The source stage counts for contracts, once.
        if len(consumers) != 1 or self.uses_time or self.sources[source].judges:
            return None
        number = consumers[0]
        while type(self.steps[number]).__name__ == "Merge" and len(self.consumers[number]) == 1 and not self.tells_apart:
            number = self.consumers[number][0]
        step = self.steps[number]
        return number if isinstance(step, KeyBy) and step.function is None else None

    @property
    def counted(self) -> list[tuple[Counted, str]]:
        """The counts of the pipeline, by event and step."""
        late = [(Counted.LATE, step.name) for step in self.steps if isinstance(step, (BroadcastRows, Join, TimeWindows))]
        skipped = [(Counted.SKIPPED, step.name) for step in self.steps if step.on_error is OnError.SKIP]
        ahead = [(Counted.AHEAD, self.steps[number].name) for number in sorted(self.first_keys) if self.bounds_skew]
        behind = [(Counted.BEHIND, self.steps[number].name) for number in sorted(self.first_keys) if self.uses_time]
        judged = [
            (what, name)
            for source in self.sources.values()
            for name, judge in source.contracts.items()
            for what, is_possible in (
                (Counted.FURTHER, judge.contract.fields not in ("freeze", "discard")),
                (Counted.DISCARDED, judge.contract.types != "freeze"),
                (Counted.VIOLATED, source.on_error is not OnError.FAIL),
            )
            if is_possible
        ]
        return late + skipped + ahead + behind + judged

    def describe(self) -> str:
        """A line for each step: its name, its kind, and its inputs."""
        width = max(len(step.name) for step in self.steps)
        kinds = max(len(step.label) for step in self.steps)
        lines = []
        for number, step in enumerate(self.steps):
            after = ", ".join(self.steps[i].name for i in self.inputs[number])
            lines.append(f"{step.name:{width}}  {step.label:{kinds}}  {f'after {after}' if after else ''}".rstrip())
        return "\n".join(lines)

"""A keyed stage: runs the steps after a shuffle on the blocks of one bucket, with the bucket's states."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from headrace.engine.applications.shipping.ship_programs import shipped_programs
from headrace.engine.applications.stages.blocks import Block
from headrace.engine.applications.stages.plan import BlockRow, Plan
from headrace.engine.applications.stages.reports import Report
from headrace.engine.applications.stages.stage_output import StageOutput, mark_rows
from headrace.engine.applications.stages.tracing import Processing, processing
from headrace.engine.applications.states.durable import Changed, save
from headrace.engine.applications.states.state_cache import STATE_CACHE, StateCache
from headrace.engine.applications.states.store import Store, read_head
from headrace.engine.collector import freeze_modules, paused_collector
from headrace.pipelines.runtime import (
    END,
    NO_TIME,
    Counted,
    Elements,
    EventTime,
    Graph,
    NotStored,
    OnError,
    Pass,
    StateClass,
    States,
    in_order,
)


def keyed_stage_rows(
    plan: Plan, level: int, bucket: int, arriving: Iterable[BlockRow], store: Store, worker: StateCache = STATE_CACHE
) -> Iterator[BlockRow]:
    """Runs one level of a plan on the rows of one bucket in a micro-batch. Passes through the rows for other stages and sinks.

    Raises:
        StateError: Stored states do not match the classes of the pipeline, or a state cannot be stored.
        StepError: A function raises, and its step's policy is `OnError.FAIL`.
        ProgramError: A program has ended, is late, or has broken the protocol.
    """
    here, passing = divided(plan, level, arriving)
    yield from passing
    if not here:
        return
    with paused_collector():
        departing = _through(plan, level, bucket, here, store, worker)
    yield from departing
    freeze_modules()


def divided(plan: Plan, level: int, arriving: Iterable[BlockRow]) -> tuple[list[BlockRow], list[BlockRow]]:
    """The rows of one bucket that a level processes, in order, and the rows that pass through it to other stages and sinks."""
    graph = plan.graph
    # In the order of the streams, regardless of which task read which part, including rows that only pass through to a sink.
    rows = sorted(arriving, key=attrgetter("target", "stream", "sequence", "branch"))
    here = [row for row in rows if row.is_mark or (row.target >= 0 and graph.levels[row.target] == level)]
    passing = [row for row in rows if not row.is_mark and (row.target < 0 or graph.levels[row.target] != level)]
    leaving = passing + (list(mark_rows(here)) if level < graph.shuffles else [])
    # Every stage knows the event time of all streams, also of streams that reach only later stages.
    return here + list(mark_rows(passing)) if here else here, leaving


def _through(plan: Plan, level: int, bucket: int, here: Sequence[BlockRow], store: Store, worker: StateCache) -> list[BlockRow]:
    """The output for the rows of this level, whose states are then stored.

    If a state cannot be stored, the rows are processed again from the states before, and each element of its step is checked.
    """
    classes = state_classes(plan, level)
    head = read_head(store)
    name = (plan.query, plan.run, level, bucket)
    held = worker.take(name, store, head, classes, plan.dropped, plan.worker_bytes)
    checked: frozenset[str] = frozenset()
    while True:
        try:
            processed = process(plan, level, bucket, here, held.kept, head.beside, checked)
            after = save(store, head, held.kept, held.dirty, processed.changed, classes, processed.beside)
            break
        except NotStored as error:
            if error.step in checked or _fails(plan.graph, error.step):
                raise
            checked |= {error.step}
        store.reset()
        held = worker.read(name, store, head, classes, plan.dropped, plan.worker_bytes)
    held.mark_saved(after)
    worker.put(name, held, plan.worker_bytes)
    return [*processed.departing, processed.report.row(bucket)]


def _fails(graph: Graph, step: str) -> bool:
    """Whether the query fails if an element of a step does."""
    return any(each.name == step and each.on_error is OnError.FAIL for each in graph.keyed)


@dataclass(frozen=True)
class Processed:
    """The result of the steps of one level for some rows of one bucket.

    Attributes:
        departing: The rows for the next stage and for sinks.
        changed: The keys whose states may have changed, by step.
        beside: The values that are stored beside the states.
        report: The report of the steps.
    """

    departing: list[BlockRow]
    changed: Changed
    beside: Mapping[str, Any]
    report: Report


def process(
    plan: Plan,
    level: int,
    bucket: int,
    here: Sequence[BlockRow],
    bucket_states: dict[str, States],
    beside: Mapping[str, Any],
    checked: frozenset[str] = frozenset(),
) -> Processed:
    """Runs the steps of one level on rows of one bucket, in order, and changes its states.

    Args:
        plan: The plan.
        level: The number of shuffles before the steps.
        bucket: The bucket.
        here: The rows that the level processes, from `divided`.
        bucket_states: The states of each step.
        beside: The values that are stored beside the states.
        checked: The steps whose states are checked after each element.

    Raises:
        StepError: A function raises, and its step's policy is `OnError.FAIL`.
        ProgramError: A program has ended, is late, or has broken the protocol.
    """
    graph = plan.graph
    event_time = EventTime(graph, beside)
    passed = Pass(graph, bucket_states, shipped_programs(plan.programs), checked=checked)
    known = event_time.lowest()
    arrived = [row for row in here if not (row.is_end or row.is_told)]
    arrived.sort(key=attrgetter("target", "stream"))
    ended = [row for row in here if row.is_end]
    event_time.forget((row.target, row.stream) for row in here if row.is_forgotten)
    opened = ((row.target, row.stream) for row in here if row.is_opened)
    begun = (row.stream for row in here if row.is_begun)
    event_time.begin(((row.target, row.stream) for row in arrived if row.peak != NO_TIME), opened, begun)
    if bucket == plan.bucket_ids[0]:
        _count_behind(graph, level, arrived, event_time, passed)
    with processing(graph.name, graph.name, level) as traced:
        for key_by, elements, others in _arrived(arrived, event_time, passed, traced, level):
            passed.enter(key_by, elements, others if level == 1 else event_time.others(key_by, known))
        finishes = event_time.end_streams((row.target, row.stream) for row in ended)
        event_time.end(
            max((int(row.stream) for row in here if row.is_clock), default=None),
            max((int(row.stream) for row in here if row.is_planned_at), default=None),
        )
        passed.fire_due(level, END if finishes else event_time.watermark, event_time.present)
    is_first = bucket == plan.bucket_ids[0]
    if not is_first:
        passed.leave_to_first_bucket()
    departing = list(StageOutput(plan, bucket=bucket).rows(passed))
    keys = {step: len(states) for step, states in bucket_states.items() if is_first or step not in graph.in_every_bucket}
    report = Report(measures=dict(passed.measures), keys={(level, bucket): keys})
    return Processed(departing, passed.changed, event_time.to_keep() if graph.uses_time else {}, report)


def state_classes(plan: Plan, level: int) -> dict[str, StateClass]:
    """The state classes of the steps at this level, that is, after this number of shuffles."""
    graph = plan.graph
    return {step.name: step.state_class for step in graph.keyed if graph.levels[graph.steps.index(step)] == level}


def _arrived(
    rows: Sequence[BlockRow], event_time: EventTime, passed: Pass, traced: Processing | None, level: int
) -> Iterator[tuple[int, Elements, int]]:
    """Yields the elements of all blocks in order, with their marks, and a lower bound of the watermark of the other streams.

    The marks of elements that come from a source are relative to their piece of the stream, and are adjusted to what the stream
    had before. Those of the results of keyed steps are final.
    """
    by_stream = attrgetter("target", "stream")
    for (key_by, stream), run in groupby(rows, key=by_stream):
        marks = event_time[key_by]
        others = event_time.others_here(key_by, stream) if level == 1 and passed.graph.levels[key_by] == 1 else END
        blocks: list[tuple[Block, int | None, int]] = []
        for row in run:
            if not row.is_mark:
                block = Block.unpack(row.packed)
                blocks.append((block, None if row.first == END else marks.base(stream), row.branch))
                if traced is not None:
                    traced.take_headers(block.messages.headers, row.messages)
            marks.advance(stream, row.peak)
        if all(before[0].last < after[0].first for before, after in pairwise(blocks)):
            # One block after the other, so that decoded values are still in the processor's cache when they are used.
            yield from ((key_by, _elements(block, stream, base, passed), others) for block, base, _ in blocks)
        else:
            # The elements of a message are in the order of their branches, regardless of how frames were divided.
            blocks.sort(key=itemgetter(2))
            pieces = [(key_by, _elements(block, stream, base, passed)) for block, base, _ in blocks]
            yield from ((key_by, elements, others) for _, elements in in_order(pieces))


def _count_behind(graph: Graph, level: int, rows: Iterable[BlockRow], event_time: EventTime, passed: Pass) -> None:
    """Counts the streams that begin when the watermark has passed their first event time, in one bucket."""
    for row in rows:
        if graph.levels[row.target] == level and row.first != END and event_time.is_behind(row.target, row.stream, row.first):
            passed.count(Counted.BEHIND, graph.steps[row.target].name, 1)


def _elements(block: Block, stream: str, base: int | None, passed: Pass) -> Elements:
    """The decoded elements of a block. Their marks are at least `base`, the stream's mark before them, if it is given."""
    elements = block.elements(stream)
    if base is not None and elements.marks is not None:
        elements = replace(elements, marks=np.maximum(elements.marks, base))
    return passed.decoded_again(elements)

"""Applies the positions that pipelines report from their checkpoints."""

import logging
from collections.abc import Iterable, Mapping, Sequence, Set

from headrace.contract import clock
from headrace.contract.position import Position
from headrace.gateway.config import StreamRule
from headrace.gateway.core.base.bounds import MAX_PIPELINES, check_room
from headrace.gateway.core.base.errors import NotPermitted, Superseded, UnknownPipeline
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.batches.leases import resume
from headrace.gateway.core.intake import end_again, grant_where_awaited
from headrace.gateway.core.pipelines import Pipeline, Run
from headrace.gateway.core.state import EventKind, Gateway
from headrace.gateway.core.streams import Stream, begin_with_first, reconcile

log = logging.getLogger("headrace.gateway")


def identify(
    gateway: Gateway, name: str, run: Run, patterns: tuple[str, ...], skip_lost: bool, attachment: int = 0, driver: str = ""
) -> Pipeline:
    """Returns the calling pipeline, known or new, and renews its lease.

    Args:
        gateway: The gateway.
        name: The name of the pipeline.
        run: The run that calls.
        patterns: The streams that it reads.
        skip_lost: Whether it skips lost messages.
        attachment: How many times it has attached, to any gateway; 0 if it does not count.
        driver: The id of its driver, which sends heartbeats; empty if it does not.

    Raises:
        Superseded: another run of the pipeline has taken over.
        LimitExceeded: the pipeline is new, and the limit of pipelines is reached.
    """
    pipeline = gateway.pipelines.get(name)
    if pipeline is not None and not pipeline.admits(run):
        raise Superseded(
            f"pipeline {name}: {run} is not the current run, {pipeline.run} has taken over; one checkpoint serves one query at a "
            f"time. If you restored an older checkpoint on purpose, run: headrace forget {name}"
        )
    if pipeline is None:
        check_room("pipelines", gateway.pipelines, MAX_PIPELINES)
        pipeline = gateway.pipelines[name] = Pipeline(name)
    pipeline.called_at = clock.monotonic()
    if run == pipeline.run and attachment > pipeline.attachment and pipeline.complete:
        # The run was at another gateway meanwhile, which may have been told of later commits.
        pipeline.forget_positions()
    if run == pipeline.run and pipeline.away_since is not None:
        resume(gateway, pipeline)
    if run != pipeline.run or patterns != pipeline.patterns:
        if run != pipeline.run:
            pipeline.replace_run(run)
        pipeline.patterns, pipeline.skip_lost = patterns, skip_lost
        pipeline.complete = False
        pipeline.fresh = {}
        for stream in gateway.streams.values():
            stream.note_reader(pipeline)
    pipeline.attachment = max(attachment, pipeline.attachment)
    pipeline.expect(driver)
    return pipeline


def check_not_late(pipeline: Pipeline, attachment: int) -> None:
    """Checks that an Attach is not older than what the run has told since; `attachment` is 0 if the run does not count.

    Raises:
        UnknownPipeline: it was under way while the run attached again, or has arrived before: the run may have committed since.
    """
    if 0 < attachment < pipeline.attachment:
        raise UnknownPipeline(f"pipeline {pipeline.name}: {pipeline.run} has attached again since it sent this; attach it again")
    if attachment and attachment == pipeline.attached_with:
        raise UnknownPipeline(f"pipeline {pipeline.name}: {pipeline.run} has attached with this call already; attach it again")


def check_is_last_plan(pipeline: Pipeline, number: int) -> None:
    """Checks that a Plan is not older than one that the run has sent since; `number` is 0 if the run does not count them.

    Raises:
        UnknownPipeline: it was under way while the run asked again.
    """
    if 0 < number < pipeline.plan_number:
        raise UnknownPipeline(f"pipeline {pipeline.name}: {pipeline.run} has asked for a plan again since it sent this")


def check_follows(pipeline: Pipeline, follows: int, attachment: int) -> None:
    """Checks that the last Plan that was answered since the run has attached was answered here.

    Args:
        pipeline: The pipeline.
        follows: The number of that Plan; 0 if none was answered.
        attachment: How many times the run had attached when it sent this.

    Raises:
        UnknownPipeline: it was not, so the run may have committed elsewhere since the Attach that this gateway has received.
    """
    if follows > pipeline.plan_number:
        if attachment == pipeline.attachment:
            pipeline.forget_positions()
        raise UnknownPipeline(f"pipeline {pipeline.name}: {pipeline.run} was at another gateway since then; attach it again")


def check_reads(pipeline: Pipeline, streams: Iterable[str]) -> None:
    """Checks that a pipeline names only streams that its patterns cover.

    Raises:
        NotPermitted: the pipeline names another stream.
    """
    for stream in streams:
        if not pipeline.asks_for(stream):
            raise NotPermitted(
                f"pipeline {pipeline.name} names stream {stream}, but reads only {', '.join(pipeline.patterns)}; a checkpoint "
                "needs every stream that its query has read: add it to the option stream, or start a new checkpoint"
            )


def attach(
    gateway: Gateway,
    pipeline: Pipeline,
    committed: dict[str, Position],
    planned: dict[str, Position],
    available_now: bool,
    ended: Iterable[str] = (),
) -> None:
    """Attaches a pipeline with every position in its checkpoint; `ended` names the streams among them that have ended."""
    if not (pipeline.attached and pipeline.complete):
        gateway.event_log.add(EventKind.ATTACHED, f"pipeline {pipeline.name}", str(pipeline.run))
    pipeline.attached, pipeline.complete, pipeline.available_now = True, True, available_now
    pipeline.attached_with = pipeline.attachment
    pipeline.attached_at, pipeline.away_since = clock.monotonic(), None
    pipeline.timeline.attach(committed, planned)
    _let_go_of_dropped(gateway, pipeline, committed.keys() | planned.keys())
    pipeline.take_checkpoint(committed, planned)
    pipeline.ended, pipeline.exhausted_at = set(ended) & committed.keys(), None
    for name in committed:
        if gateway.stream(name).received == BEGINNING:
            gateway.streams[name].go_on_after(committed[name])
    end_again(gateway, pipeline)
    who = {"pipeline": pipeline.name, "run": str(pipeline.run)}
    log.info("pipeline attached", extra={**who, "streams": pipeline.patterns, "positions": len(committed)})
    for stream in list(gateway.streams.values()):
        if pipeline in stream.readers:
            stream.loss = None
            stream.ended_by_loss.pop(pipeline, None)
            if pipeline.position(stream.name) < stream.horizon and not pipeline.skip_lost:
                stream.horizon = BEGINNING
            if not stream.is_committed_by(pipeline):
                pipeline.behind_since.setdefault(stream.name, pipeline.attached_at)
            if stream.received.moves:
                pipeline.moved_cursors[stream.name] = None
            reconcile(stream)
            grant_where_awaited(stream)
            pipeline.notice(stream.name)
    gateway.credit.rebalance()


def adopt(gateway: Gateway, pipeline: Pipeline, stream_name: str, committed: Position, batch_end: Position) -> Stream:
    """Adopts the position of a pipeline from a fetch, which may be all that a restarted gateway knows; returns the stream.

    Raises:
        LimitExceeded: the stream is new, and the limit of streams is reached.
    """
    stream = gateway.stream(stream_name)
    begins_first = committed == BEGINNING and begin_with_first(pipeline, stream_name)
    # Its planner may have failed to attach, and calls again only after the batch: nobody else lets the source be rewound for it.
    pipeline.attached = True
    if begins_first or not pipeline.knows(stream_name):
        pipeline.committed[stream_name] = committed
        if stream.received == BEGINNING:
            stream.go_on_after(committed)
    else:
        # Of several fetches, the latest batch counts: one of a task that Spark has given up must not hold the source back. An
        # Attach that came late, after the run had moved here, may have told less than it.
        pipeline.commit(pipeline.not_outdated({stream_name: committed}))
    if batch_end > pipeline.position(stream_name):
        pipeline.timeline.adopt(stream_name, committed, batch_end)
        if not pipeline.planned:
            pipeline.planned_at = clock.monotonic()
        pipeline.planned[stream_name] = max(batch_end, pipeline.planned.get(stream_name, BEGINNING))
        pipeline.had_batch = True
        if batch_end.epoch not in (0, stream.live_epoch) and batch_end.begin is None:
            stream.epochs.doubt(batch_end.epoch)
    pipeline.fetched.discard(stream_name)
    reconcile(stream)
    grant_where_awaited(stream)
    gateway.credit.rebalance()
    return stream


def _let_go_of_dropped(gateway: Gateway, pipeline: Pipeline, streams: Set[str]) -> None:
    """Drops what is held of streams that a checkpoint may have dropped, since they have ended and all of it was committed.

    This gateway has not seen that if it was at another one. If the query does need it, the source sends it again.
    """
    for name, stream in gateway.streams.items():
        may_be_dropped = name not in streams and (pipeline.was_elsewhere or name in pipeline.committed)
        if may_be_dropped and not stream.redelivering and pipeline in stream.readers:
            stream.let_go()


def commit(gateway: Gateway, pipeline: Pipeline, positions: dict[str, Position], ended: Iterable[str] = ()) -> None:
    """Records a pipeline's committed positions, and acknowledges them; `ended` names the streams that have ended.

    Raises:
        UnknownPipeline: the pipeline's other positions are not known; it must attach first.
    """
    if not pipeline.complete:
        raise UnknownPipeline(f"pipeline {pipeline.name} is not attached to this gateway; attach it with all its positions")
    positions = pipeline.not_outdated(positions)
    pipeline.note_ended(positions, ended)
    _note_latencies(gateway, pipeline, positions)
    moved = pipeline.commit(positions)
    pipeline.timeline.commit(pipeline.committed, moved)
    for name in moved:
        stream = gateway.stream(name)
        if not stream.has_nothing_after(pipeline.position(name)):
            pipeline.behind_since[name] = pipeline.called_at
        else:
            pipeline.behind_since.pop(name, None)
        reconcile(stream)
    for name in list(pipeline.fresh):
        if gateway.streams[name].must_be_rewound_for(pipeline):
            reconcile(gateway.streams[name])
    gateway.credit.rebalance()


def _note_latencies(gateway: Gateway, pipeline: Pipeline, positions: Mapping[str, Position]) -> None:
    """Notes how long the oldest messages have waited here that are committed now."""
    now = clock.monotonic()
    for name, position in positions.items():
        stream = gateway.streams.get(name)
        if stream is None or position <= pipeline.position(name):
            continue
        first = next(stream.after(pipeline.position(name)), None)
        if first is not None and position.epoch == stream.live_epoch and first.first <= position.sequence:
            stream.commit_latency.note(now - first.received_at)
            pipeline.commit_latency.note(now - first.received_at)


def forget(gateway: Gateway, pipeline: Pipeline) -> None:
    """Forgets a pipeline, so that it no longer holds acknowledgements."""
    del gateway.pipelines[pipeline.name]
    for stream in gateway.streams.values():
        if pipeline in stream.readers:
            stream.remove_reader(pipeline)
            reconcile(stream)
    gateway.credit.rebalance()


def declare(gateway: Gateway, rules: Sequence[StreamRule]) -> None:
    """Replaces the pipelines that the configuration declares as readers of streams."""
    declared: dict[str, tuple[str, ...]] = {}
    for rule in rules:
        for name in rule.pipelines:
            declared[name] = (*declared.get(name, ()), rule.pattern)
    for name in declared:
        gateway.pipelines.setdefault(name, Pipeline(name))
    for pipeline in list(gateway.pipelines.values()):
        patterns = declared.get(pipeline.name, ())
        if pipeline.declared == patterns:
            continue
        pipeline.declared = patterns
        if not patterns and not pipeline.run.number:
            # It was known from its declaration only.
            del gateway.pipelines[pipeline.name]
        for stream in gateway.streams.values():
            stream.note_reader(pipeline)
    for stream in list(gateway.streams.values()):
        reconcile(stream)
    gateway.credit.rebalance()

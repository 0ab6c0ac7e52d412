"""Leases: each call of a query renews its lease; a query whose lease expires is away.

The gateway keeps no messages of replayable streams for a query that is away, and nothing waits for its batch. It continues to
hold
acknowledgements: the query may resume from its checkpoint at any time, so its sources must keep what it has not read. They are
released only by `forget`, or after the time that the configuration sets.
"""

import logging
from collections.abc import Iterable

from headrace.contract import clock
from headrace.gateway.core.intake import grant_where_awaited
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.state import EventKind, Gateway
from headrace.gateway.core.streams import Stream, reconcile

NEVER_RAN_AFTER_S = 600.0
"""How many seconds after its last call a query that never had a batch is forgotten: there is nothing to resume from."""

log = logging.getLogger("headrace.gateway")


def resume(gateway: Gateway, pipeline: Pipeline) -> None:
    """Resumes a query that calls after its lease has expired. Its sources resend what it needs."""
    log.info("pipeline is back", extra={"pipeline": pipeline.name, "run": str(pipeline.run)})
    pipeline.attached, pipeline.away_since, pipeline.driver, pipeline.planner = True, None, None, None
    gateway.event_log.add(EventKind.ATTACHED, f"pipeline {pipeline.name}", f"{pipeline.run} is back")
    for stream in _streams(gateway, pipeline):
        stream.ended_by_loss.pop(pipeline, None)
        reconcile(stream)
        grant_where_awaited(stream)
        pipeline.notice(stream.name)
    gateway.credit.rebalance()


def renew(gateway: Gateway, names: Iterable[str]) -> None:
    """Renews the leases of attached pipelines by name, because their query has called under another name."""
    for name in names:
        pipeline = gateway.pipelines.get(name)
        if pipeline is not None and pipeline.attached:
            pipeline.called_at = clock.monotonic()


def detach(gateway: Gateway, pipeline: Pipeline) -> None:
    """Detaches a pipeline whose run ends cleanly, and wakes its calls that wait, which then end."""
    if pipeline.attached:
        gateway.event_log.add(EventKind.DETACHED, f"pipeline {pipeline.name}", f"{pipeline.run} has stopped")
    pipeline.attached, pipeline.away_since, pipeline.planner = False, None, None
    _go_on_without(gateway, pipeline)
    pipeline.news.notify()
    for stream in _streams(gateway, pipeline):
        stream.news.notify()


def end_leases(gateway: Gateway) -> None:
    """Marks queries as away whose leases have expired."""
    now = clock.monotonic()
    called_before = now - gateway.limits.query_lease_seconds
    for pipeline in gateway.pipelines.values():
        # A call in progress counts as activity: it ends when its client's connection does.
        if pipeline.attached and not pipeline.calls and pipeline.called_at < called_before:
            log.warning("pipeline away: its lease has ended; its acknowledgements stay held", extra={"pipeline": pipeline.name})
            text = f"the lease of {pipeline.run} has ended"
            gateway.event_log.add(EventKind.DETACHED, f"pipeline {pipeline.name}", text)
            pipeline.attached, pipeline.away_since = False, now
            _go_on_without(gateway, pipeline)


def forgettable(gateway: Gateway) -> list[Pipeline]:
    """Returns the queries to forget: queries that never had a batch and, if configured, queries that were away for too long."""
    now = clock.monotonic()
    forget_after_s = gateway.limits.forget_after_seconds
    found = []
    for pipeline in gateway.pipelines.values():
        silent_s = now - pipeline.called_at
        never_ran = not pipeline.committed and not pipeline.had_batch and silent_s > NEVER_RAN_AFTER_S
        given_up = forget_after_s > 0 and silent_s > forget_after_s
        if not pipeline.attached and not pipeline.declared and (never_ran or given_up):
            found.append(pipeline)
    return found


def _go_on_without(gateway: Gateway, pipeline: Pipeline) -> None:
    for stream in _streams(gateway, pipeline):
        if stream.loss is not None and stream.is_lost_for(pipeline) and not pipeline.skip_lost:
            # The source is asked again for the next run. Until then, this is why the stream is not read.
            stream.ended_by_loss[pipeline] = stream.loss
        reconcile(stream)
    gateway.credit.rebalance()


def _streams(gateway: Gateway, pipeline: Pipeline) -> list[Stream]:
    return [stream for stream in gateway.streams.values() if pipeline in stream.readers]

"""Who is attached: a lease that each call of a query renews, and what follows when it ends.

To the others, a query whose lease has ended runs no longer: no messages of replayable streams are held for it,
and nothing waits for its batch. Its acknowledgements stay held: its checkpoint may go on any time, and must find at its sources
what it has not read. Only `forget` gives them up, or a time that the configuration sets.
"""

import time
from collections.abc import Iterable

import structlog

from headrace.gateway.core._gateway import Gateway
from headrace.gateway.core._lending import lend_where_awaited
from headrace.gateway.core._opening import reconcile
from headrace.gateway.core._pipeline import Pipeline
from headrace.gateway.core._stream import Stream

NEVER_RAN_AFTER_S = 600.0
"""After so long without a call, a query that never had a batch is forgotten: its checkpoint has nothing to go on from."""

log = structlog.get_logger("headrace.gateway")


def come_back(gateway: Gateway, pipeline: Pipeline) -> None:
    """Goes on with a query that calls after its lease had ended. What it needs is sent again."""
    log.info("pipeline is back", pipeline=pipeline.name, run=str(pipeline.run))
    pipeline.attached, pipeline.away_since = True, None
    for stream in _streams(gateway, pipeline):
        reconcile(stream)
        lend_where_awaited(stream)
        pipeline.notice(stream.name)
    gateway.credit.settle()


def renew(gateway: Gateway, names: Iterable[str]) -> None:
    """Renews the leases of those that are attached: their query has called under another name."""
    for name in names:
        pipeline = gateway.pipelines.get(name)
        if pipeline is not None and pipeline.attached:
            pipeline.called_at = time.monotonic()


def leave(gateway: Gateway, pipeline: Pipeline) -> None:
    """Ends a run in good order."""
    pipeline.attached, pipeline.away_since = False, None
    _go_on_without(gateway, pipeline)


def end_leases(gateway: Gateway) -> None:
    """Takes queries that have not called for as long as their lease for gone."""
    now = time.monotonic()
    called_before = now - gateway.limits.query_lease_ms / 1000
    for pipeline in gateway.pipelines.values():
        # A call that waits is seen by its connection, which ends with its client.
        if pipeline.attached and not pipeline.calls and pipeline.called_at < called_before:
            log.warning("pipeline away: its lease has ended; its acknowledgements stay held", pipeline=pipeline.name)
            pipeline.attached, pipeline.away_since = False, now
            _go_on_without(gateway, pipeline)


def forgettable(gateway: Gateway) -> list[Pipeline]:
    """Queries that are given up: those that never had a batch, and, where the configuration says so, those away for long."""
    now = time.monotonic()
    forget_after_s = gateway.limits.forget_after_ms / 1000
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
        reconcile(stream)
    gateway.credit.settle()


def _streams(gateway: Gateway, pipeline: Pipeline) -> list[Stream]:
    return [stream for stream in gateway.streams.values() if pipeline in stream.readers]

"""Every sink that a query writes to is served, takes what it is given, and has what it voted for."""

from collections.abc import Iterator

from headrace.gateway.core.connections import Role, connector_part
from headrace.gateway.core.status.health.site import Site, paused
from headrace.gateway.core.status.problem import Kind, Problem
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import metrics_pb2

_CLOCK_MS = 1_000
"""How much older a failure may seem than what follows from it, in milliseconds: drivers report once a second."""
FAILS_REMEDY = "restore what the sink writes to; the micro-batch is written again, and nothing is lost"


def of_sink(site: Site, sink: pb.SinkStatus) -> Iterator[Problem]:
    """Yields the problem of a sink."""
    part, process = f"sink {sink.sink}", site.processes.by_sink.get(sink.sink)
    for lost in sink.lost:
        cause = (
            f"instance {lost.instance} voted for batch {lost.transaction.batch} of pipeline {lost.transaction.pipeline}, "
            "and has come back without it"
        )
        remedy = "restore its storage and restart the connector, or restart the query with onSinkLoss=accept"
        yield Problem(part, Kind.SINK_LOST, cause, site.session_ages.get((sink.sink, lost.instance), 0), remedy)
    for instance in sink.instances:
        if root := site.found.get(connector_part(instance, sink.sink)):
            yield root.within(part)
    if process is not None and (sink.away or not sink.instances):
        yield process.within(part)
    if not sink.instances and (refusal := site.refused.of_sink(sink.sink)) is not None:
        yield refusal
        yield refusal.within(part)
    if not sink.instances and (sink.writers or sink.pending_transactions):
        cause = (
            f"no connector serves it; the last one ended with: {sink.last_error}" if sink.last_error else "no connector serves it"
        )
        remedy = "start its connector; if it runs, its log says why it has no session"
        yield site.refused.why(Problem(part, Kind.SINK_AWAY, cause, sink.absent_ms, remedy), Role.SINK)
    elif sink.failure and not _is_over(site, sink):
        yield Problem(part, Kind.SINK_FAILS, sink.failure, sink.failure_age_ms, FAILS_REMEDY)
    elif sink.away:
        for instance in sink.away:
            if refusal := site.refused.by_part.get(connector_part(instance, sink.sink)):
                yield refusal
                yield refusal.within(part)
        cause = f"instance {', '.join(sink.away)} has left, and holds transactions that are not visible yet"
        away = Problem(part, Kind.SINK_AWAY, cause, 0, "start this instance again: only it has what it has prepared")
        yield site.refused.why(away, Role.SINK)
    elif sink.outstanding_ms >= site.slow_after_ms:
        remedy = "look at what the sink writes to: it takes what it is given, and does not complete it"
        yield Problem(part, Kind.SINK_SLOW, sink.outstanding, sink.outstanding_ms, remedy)
    yield from paused(part, sink)


def _is_over(site: Site, sink: pb.SinkStatus) -> bool:
    """Whether a failure of a sink is no longer why nothing succeeds: all who write to it fail for another reason since."""
    others = (metrics_pb2.RUN_FAULT_ORIGIN_UNSPECIFIED, metrics_pb2.RUN_FAULT_ORIGIN_SINK)
    writers = [site.faults[name].fault for name in sink.writers if name in site.faults]
    return bool(writers) and all(
        fault.origin not in others and fault.age_ms + _CLOCK_MS < sink.failure_age_ms for fault in writers
    )

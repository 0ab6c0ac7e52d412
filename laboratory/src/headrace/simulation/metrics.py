"""Checks the metrics that a gateway exports at rest."""

from collections.abc import Iterator, Mapping, Sequence

from headrace.engine.checkpoint.position import Offset, moved
from headrace.gateway.core import Gateway
from headrace.gateway.observer import Observation
from headrace.gateway.telemetry.instruments import CONNECTOR_INSTRUMENTS, INSTRUMENTS, STREAM_INSTRUMENTS
from headrace.simulation.checkpoint import Checkpoint
from headrace.simulation.network import SESSIONS, Server
from headrace.simulation.record import Record, Violation
from headrace.simulation.schedule import TWO_PHASE, Schedule
from headrace.simulation.systems import Log, Queue, Storage

_INSTRUMENTS = (*INSTRUMENTS, *CONNECTOR_INSTRUMENTS, *STREAM_INSTRUMENTS)


class Metrics:
    """The values of all instruments, as /metrics lists them."""

    def __init__(self, observed: Observation) -> None:
        self._values = {
            instrument.exported_name.removeprefix("headrace_"): [(value, labels) for value, labels in instrument.read(observed)]
            for instrument in _INSTRUMENTS
            if instrument.read is not None
        }

    def sum(self, name: str, **labels: str) -> float:
        """Returns the sum of the series with these labels."""
        return sum(value for value, found in self._values[name] if labels.items() <= found.items())


def violations(
    metrics: Metrics,
    gateway: Gateway,
    server: Server,
    schedule: Schedule,
    logs: Mapping[str, Log],
    queues: Mapping[str, Queue],
    checkpoints: Sequence[Checkpoint],
    *,
    storages: Sequence[Storage],
    record: Record,
    is_first: bool,
) -> Iterator[Violation]:
    """Yields where the metrics of a gateway at rest differ from what has happened.

    Args:
        metrics: The metrics that it exports.
        gateway: The gateway.
        server: Its server, which has counted the sessions.
        schedule: The schedule.
        logs: The logs.
        queues: The queues.
        checkpoints: The checkpoints of the queries.
        storages: The storage of each instance of a sink.
        record: The record of the run.
        is_first: Whether it is the only gateway that there has been: it has seen everything.
    """
    for name, expected, found in (
        *_of_now(metrics, gateway, schedule),
        *_of_sessions(metrics, server),
        *(_of_all(metrics, logs, queues, checkpoints, schedule) if is_first else ()),
        *(_of_sinks(metrics, server, schedule, checkpoints, storages, record) if is_first else ()),
    ):
        if expected != found:
            yield Violation("metrics", f"{name} is {found:g}, and must be {expected:g}")


Expected = tuple[str, float, float]
"""The name of a metric, what it must be, and what it is."""


def _of_now(metrics: Metrics, gateway: Gateway, schedule: Schedule) -> Iterator[Expected]:
    """Yields what is true whatever has happened."""
    for name in ("buffered_messages", "buffered_bytes", "unacknowledged_messages", "oldest_unacknowledged_seconds"):
        yield name, 0, metrics.sum(name)
    for name in ("session_outstanding_bytes", "sink_pending_transactions", "source_losses_total"):
        yield name, 0, metrics.sum(name)
    if schedule.gateways == 1:
        yield "sink_losses_total", 0, metrics.sum("sink_losses_total")
    accounts = [session.account for session in gateway.sessions.values()]
    yield "session_credit_bytes", sum(account.bytes_left for account in accounts), metrics.sum("session_credit_bytes")
    yield "session_credit_messages", sum(account.messages_left for account in accounts), metrics.sum("session_credit_messages")
    yield "sessions of sinks", len(schedule.instances()), metrics.sum("sessions", role="sink")
    yield "sink_instances", len(schedule.instances()), metrics.sum("sink_instances")
    yield "pipelines", len(schedule.queries), metrics.sum("pipelines", state="attached")
    # Each message that a connector has sent is either new or a duplicate.
    kept = metrics.sum("received_messages_total") + metrics.sum("duplicate_messages_total")
    yield "received and duplicate messages", metrics.sum("connector_sent_messages_total", role="source"), kept


def _of_sessions(metrics: Metrics, server: Server) -> Iterator[Expected]:
    """Yields how many sessions there were, as the network has seen them."""
    counts = server.counts
    for role in SESSIONS.values():
        found = metrics.sum("connector_sessions_total", role=role)
        # One that is lost before its Welcome counts, and the network does not see it.
        yield f"sessions of {role}s", min(max(counts[f"answered {role}"], found), counts[f"begun {role}"]), found
    for name, count in counts.items():
        status = name.removeprefix("refused ")
        if status != name:
            yield f"rejected_sessions of {status}", count, metrics.sum("rejected_sessions_total", status=status)


def _of_all(
    metrics: Metrics,
    logs: Mapping[str, Log],
    queues: Mapping[str, Queue],
    checkpoints: Sequence[Checkpoint],
    schedule: Schedule,
) -> Iterator[Expected]:
    """Yields the counts of a gateway that has seen everything."""
    for log in logs.values():
        for partition, entries in log.messages.items():
            if partition not in log.gone:
                stream = f"{log.name}/{partition}"
                found = metrics.sum("stream_acknowledged_messages_total", stream=stream)
                yield f"acknowledged of {stream}", len(entries), found
    for queue in queues.values():
        for partition, messages in queue.messages.items():
            stream = f"{queue.name}/{partition}"
            found = metrics.sum("stream_acknowledged_messages_total", stream=stream)
            # A message whose acknowledgement was lost with its session counts again when it is redelivered.
            yield f"acknowledged of {stream}", max(len(messages), found), found
            most = metrics.sum("stream_received_messages_total", stream=stream)
            yield f"acknowledged of {stream}, which were received", min(most, found), found
    if not any(fault.kind == "forget" for fault in schedule.faults):
        planned = sum(_is_planned_by_gateway(each.offsets, batch) for each in checkpoints for batch in each.offsets)
        found = metrics.sum("pipeline_planned_batches_total")
        yield "planned_batches", max(planned, found), found


def _is_planned_by_gateway(offsets: Mapping[int, Offset], batch: int) -> bool:
    """Returns whether a batch does more than to record that the one before it was read as it was planned."""
    before, after = offsets.get(batch - 1), offsets[batch]
    if before is None or before.is_read or before.streams.keys() != after.streams.keys():
        return True
    return bool(moved(after.streams, before.taken_as_read().streams))


def _of_sinks(
    metrics: Metrics,
    server: Server,
    schedule: Schedule,
    checkpoints: Sequence[Checkpoint],
    storages: Sequence[Storage],
    record: Record,
) -> Iterator[Expected]:
    """Yields the counts of transactions of a gateway that has seen everything.

    An answer that is lost with its session is not counted. A sink that is not two-phase commits with its vote, which counts again
    if the batch runs again.
    """
    has_lost_none = server.counts["begun sink"] == len(schedule.instances())
    for plan in schedule.sinks:
        committed, aborted, failed = (
            metrics.sum("sink_transactions_total", sink=plan.name, outcome=outcome)
            for outcome in ("committed", "aborted", "failed")
        )
        if plan.mode != TWO_PHASE:
            queries = {query.name for query in schedule.queries if plan.name in query.sinks}
            least = sum(bool(commit.rows) for each in checkpoints if each.query in queries for commit in each.commits.values())
            yield f"transactions committed by {plan.name}", max(least, committed), committed
        elif has_lost_none:
            own = [storage for storage in storages if storage.sink == plan.name]
            shown = sum(len(each.shown) for each in own)
            dropped = sum(record.counts[f"aborts of {each.instance}"] for each in own)
            yield f"transactions committed by {plan.name}", shown, committed
            yield f"transactions aborted by {plan.name}", dropped, aborted
        if has_lost_none and not any(fault.kind == "fail" for fault in schedule.faults):
            yield f"failures of {plan.name}", 0, failed

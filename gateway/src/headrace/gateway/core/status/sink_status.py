"""The status of a sink."""

from headrace.gateway.core.sinks import Sink, Transaction
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.status import condition
from headrace.gateway.core.status.awaiting import writers_of
from headrace.gateway.core.status.stream_status import ms_since, pause_status
from headrace.gateway.core.streams import PartKind
from headrace.protocol.v1 import admin_pb2 as pb


def sink_status(sink: Sink, gateway: Gateway, lost_votes: list[pb.LostVote]) -> pb.SinkStatus:
    """Returns the status of a sink, with the votes that it has lost."""
    pending = {transaction for holdings in sink.holders() for transaction in holdings.transactions()}
    outstanding = _outstanding(sink)
    pause = gateway.pauses.of(PartKind.SINK, sink.name)
    return pb.SinkStatus(
        sink=sink.name,
        mode=sink.mode,
        instances=sorted(sink.sessions),
        away=sorted(sink.away),
        open_parts=sum(len(session.open) for session in sink.sessions.values()),
        pending_transactions=len(pending),
        staged_messages=sink.staged_messages,
        refused_messages=sink.refused_messages,
        dead_letters=gateway.dead_letters.count(sink.name),
        committed=[Transaction(pipeline, batch).to_proto() for pipeline, batch in sorted(sink.committed.items())],
        lost=lost_votes,
        losses=sink.losses,
        writers=writers_of(gateway, sink.name),
        absent_ms=None if sink.sessions else ms_since(sink.left_at),
        committed_transactions=sink.outcomes["committed"],
        aborted_transactions=sink.outcomes["aborted"],
        failures=sink.outcomes["failed"],
        failure=sink.failure.reason if sink.failure else "",
        failure_age_ms=ms_since(sink.failure.occurred_at) if sink.failure else None,
        paused=pause_status(pause),
        outstanding=outstanding[1] if outstanding else "",
        outstanding_ms=ms_since(outstanding[0]) if outstanding else None,
        last_error="" if sink.sessions else sink.last_error,
        error=sink.error.status() if sink.error else None,
        condition=condition.of_sink(sink, outstanding[0] if outstanding else None, paused=pause is not None),
    )


def _outstanding(sink: Sink) -> tuple[float, str] | None:
    """Returns what an instance has yet to answer for the longest time, after since when."""
    waits = [(name, session.outstanding()) for name, session in sink.sessions.items()]
    return min(((wait[0], f"instance {name} {wait[1]}") for name, wait in waits if wait is not None), default=None)

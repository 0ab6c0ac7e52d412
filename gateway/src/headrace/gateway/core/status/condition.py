"""What each part does, in a word. It is decided here and nowhere else: the console and the commands show the same word.

A part that has nothing to do differs from one that makes no progress, and one that somebody has paused from one in trouble.
"""

from collections.abc import Collection, Iterable

from headrace.contract import clock
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.sinks import Sink, SinkSession
from headrace.gateway.core.status.problem import Problem
from headrace.gateway.core.streams import CreditAccount, Session, Stream
from headrace.protocol.v1 import admin_pb2 as pb

FLOWS_S = 5.0
"""A part flows for this time after something was acknowledged, committed or written, in seconds."""
STALLED_S = 10.0
"""A part has stalled if something has waited for this many seconds, and nothing flows."""
NO_CREDIT = 0.02
"""A session has no credit if it has less than this fraction of it left, of its bytes or its messages."""


def working(
    *, waits: bool, since: float | None = None, done_at: float | None = None, has_credit: bool = True
) -> pb.Condition.ValueType:
    """Returns what a part does that is connected and that nobody has paused. Times are of the monotonic clock.

    Args:
        waits: Whether something waits to be acknowledged, committed or written.
        since: Since when it has waited; None if that is not known.
        done_at: When something was acknowledged, committed or written last; None if nothing was.
        has_credit: Whether more may be sent meanwhile.
    """
    now = clock.monotonic()
    if done_at is not None and now - done_at <= FLOWS_S:
        return pb.CONDITION_FLOWS
    if not waits:
        return pb.CONDITION_IDLE
    if since is not None and now - since >= STALLED_S:
        return pb.CONDITION_STALLED
    return pb.CONDITION_WAITS if has_credit else pb.CONDITION_NO_CREDIT


def of_stream(stream: Stream, state: pb.StreamState.ValueType) -> pb.Condition.ValueType:
    """Returns what a stream does that is in a state."""
    attachment = stream.attachment
    session = attachment.session if attachment is not None else None
    if attachment is not None and attachment.stall is not None and attachment.stall.stalled_ms is not None:
        return pb.CONDITION_SOURCE_STALLED
    if stream.pause is not None:
        return pb.CONDITION_PAUSED
    if state == pb.STREAM_STATE_ENDED:
        return pb.CONDITION_ENDED
    if state == pb.STREAM_STATE_DETACHED:
        return pb.CONDITION_DETACHED
    return working(
        waits=stream.unacknowledged_messages + stream.backlog.messages > 0,
        since=stream.frames[0].received_at if stream.frames else None,
        done_at=stream.tally.counted_at,
        has_credit=not isinstance(session, Session) or has_credit(session.account),
    )


def of_session(session: Session, *, paused: bool) -> pb.Condition.ValueType:
    """Returns what the connector of a source does: what becomes of the messages that it has sent."""
    if paused:
        return pb.CONDITION_PAUSED
    streams = [attachment.stream for attachment in session.open_attachments()]
    return working(
        waits=session.account.messages_held > 0,
        since=min((stream.frames[0].received_at for stream in streams if stream.frames), default=None),
        done_at=max((stream.tally.counted_at or 0.0 for stream in streams), default=None) or None,
        has_credit=has_credit(session.account),
    )


def of_pipeline(pipeline: Pipeline, *, lag: int, since: float | None, paused: bool) -> pb.Condition.ValueType:
    """Returns what a pipeline does.

    Args:
        pipeline: The pipeline.
        lag: How many messages it has yet to commit.
        since: Since when it has made no progress in a stream in which it lags, on the monotonic clock; None if it lags in none.
        paused: Whether somebody has paused it.
    """
    if paused:
        return pb.CONDITION_PAUSED
    if not pipeline.attached:
        return pb.CONDITION_DETACHED
    planned_at = pipeline.planned_at if pipeline.planned else None
    known = [moment for moment in (planned_at, since) if moment is not None]
    return working(waits=lag > 0, since=min(known, default=None), done_at=pipeline.committed_at)


def of_sink(sink: Sink, outstanding_since: float | None, *, paused: bool) -> pb.Condition.ValueType:
    """Returns what a sink does."""
    if paused:
        return pb.CONDITION_PAUSED
    if not sink.sessions:
        return pb.CONDITION_DETACHED
    held = any(session.open for session in sink.sessions.values()) or any(one.transactions() for one in sink.holders())
    done_at = max((session.succeeded_at or 0.0 for session in sink.sessions.values()), default=0.0)
    return working(waits=held or outstanding_since is not None, since=outstanding_since, done_at=done_at or None)


def of_sink_session(session: SinkSession, *, paused: bool) -> pb.Condition.ValueType:
    """Returns what the connector of a sink does."""
    if paused:
        return pb.CONDITION_PAUSED
    outstanding = session.outstanding()
    since = None if outstanding is None else outstanding[0]
    return working(waits=bool(session.open) or since is not None, since=since, done_at=session.succeeded_at)


def has_credit(account: CreditAccount) -> bool:
    """Returns whether a session may send more than a little."""
    return _is_left(account.bytes_left, account.bytes_held) and _is_left(account.messages_left, account.messages_held)


def _is_left(left: int, held: int) -> bool:
    return left + held == 0 or left / (left + held) >= NO_CREDIT


def note_trouble(status: pb.GetStatusResponse, problems: Collection[Problem]) -> None:
    """Changes the conditions of the parts that have a fault. A stream whose source has stalled has a word of its own for that."""
    faulty = {problem.part for problem in problems if problem.is_fault}
    if not faulty:
        return
    for row, names in _rows(status):
        if row.condition != pb.CONDITION_SOURCE_STALLED and not faulty.isdisjoint(names):
            row.condition = pb.CONDITION_TROUBLE


_Row = pb.StreamStatus | pb.SessionStatus | pb.PipelineStatus | pb.SinkStatus | pb.SinkSessionStatus


def _rows(status: pb.GetStatusResponse) -> Iterable[tuple[_Row, tuple[str, ...]]]:
    """Yields the parts of a status, with the names under which problems list them. A connector has the problems of its sink."""
    for stream in status.streams:
        yield stream, (f"stream {stream.stream}",)
    for session in status.sessions:
        yield session, (f"connector {session.instance}",)
    for pipeline in status.pipelines:
        yield pipeline, (f"pipeline {pipeline.pipeline}",)
    for sink in status.sinks:
        yield sink, (f"sink {sink.sink}",)
    for serving in status.sink_sessions:
        yield serving, (f"connector {serving.instance} of sink {serving.sink}", f"sink {serving.sink}")

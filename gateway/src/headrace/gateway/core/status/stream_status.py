"""The part of a status about a stream, and about pipelines that hold its acknowledgements."""

from headrace.contract import clock
from headrace.gateway.core.base.position import BEGINNING, fill
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.status import condition
from headrace.gateway.core.streams import Pause, Stream
from headrace.protocol.v1 import admin_pb2 as pb


def add_stream(to: pb.GetStatusResponse, stream: Stream, session_id: str, now: float) -> None:
    """Adds a stream to a status.

    Args:
        to: The status.
        stream: The stream.
        session_id: The session of its connector; empty if there is none.
        now: The time, on the monotonic clock.
    """
    name, session = stream.name, stream.attachment.session if stream.attachment else None
    missing = [pipeline for pipeline in stream.readers if not pipeline.knows(name)]
    state, detail = _state(stream, missing)
    status = to.streams.add(
        stream=name,
        state=state,
        detail=detail,
        instance=session.instance if session else "",
        session=session_id,
        replayable=stream.replayable,
        received_messages=stream.received_messages,
        received_bytes=stream.received_bytes,
        acknowledged_messages=stream.tally.total,
        duplicate_messages=stream.duplicate_messages,
        losses=stream.losses,
        lag_messages=stream.unacknowledged_messages + stream.backlog.messages,
        lag_bytes=stream.held_bytes + stream.backlog.bytes,
        oldest_unacknowledged_ms=int((now - stream.frames[0].received_at) * 1000) if stream.frames else 0,
        holders=_holders(stream, missing, now),
        state_age_ms=int((now - _state_since(stream)) * 1000),
        readers=len(stream.readers),
        last_instance=stream.last_instance,
        paused=pause_status(stream.pause),
        latest_sequence=_latest(stream),
        last_error="" if session else stream.last_error,
        error=stream.error.status() if stream.error else None,
        stalled_ms=_stalled_ms(stream),
        condition=condition.of_stream(stream, state),
    )
    if stream.received > BEGINNING:
        fill(status.received, stream.received)
    if stream.acknowledged > BEGINNING:
        fill(status.acknowledged, stream.acknowledged)


def pause_status(pause: Pause | None) -> pb.PauseStatus | None:
    """Converts a pause, if there is one, to its protocol message."""
    return None if pause is None else pb.PauseStatus(part=pause.part, by=pause.by, age_ms=ms_since(pause.since))


def _stalled_ms(stream: Stream) -> int | None:
    """Returns for how long a stream has stalled, in milliseconds; None if it has not."""
    stall = stream.attachment.stall if stream.attachment is not None else None
    return None if stall is None else stall.stalled_ms


def _latest(stream: Stream) -> int | None:
    """Returns the sequence of the last message that the source has; None if that is not known, or it has none."""
    reported = stream.received.sequence if stream.ended else stream.backlog.latest_sequence
    if reported is None:
        return None
    latest = max(reported, stream.received.sequence)
    return latest if latest >= 0 else None


def _state(stream: Stream, missing: list[Pipeline]) -> tuple[pb.StreamState.ValueType, str]:
    """Returns the state of a stream, with an explanation; `missing` are the readers with unknown positions."""
    names = ", ".join([p.name for p in missing])
    waits = f"acknowledgements wait for pipeline {names}" if missing else _absent_holders(stream)
    if (loss := stream.shown_loss) is not None:
        return pb.STREAM_STATE_LOST, loss.describe(stream.name)
    if stream.ended:
        return pb.STREAM_STATE_ENDED, waits
    if stream.attachment is None or stream.attachment.closed:
        return pb.STREAM_STATE_DETACHED, "waits for a connector"
    if not stream.attachment.opened:
        paused = f"{stream.pause.part} was paused by {stream.pause.by}" if stream.pause is not None else ""
        return pb.STREAM_STATE_PARKED, paused or "waits for a pipeline that reads it"
    stalled_ms = _stalled_ms(stream)
    if stalled_ms is not None:
        return pb.STREAM_STATE_LIVE, f"stalled: its connector has messages left, and has sent none for {stalled_ms // 1000} s"
    return pb.STREAM_STATE_LIVE, waits


def _state_since(stream: Stream) -> float:
    """Returns since when a stream is in its state, on the monotonic clock."""
    if (loss := stream.shown_loss) is not None:
        return loss.found_at
    if stream.ended or stream.attachment is None or stream.attachment.closed:
        return stream.left_at
    return stream.attachment.changed_at


def _absent_holders(stream: Stream) -> str:
    """Describes which unattached pipelines hold acknowledgements."""
    gone = [p for p in stream.readers if not p.attached and stream.is_held_by(p)]
    away = [p.name for p in gone if p.away_since is not None]
    left = [p.name for p in gone if p.away_since is None]
    told = [f"held for pipeline {', '.join(left)}, which is not attached"] if left else []
    told += [f"acknowledgements held for pipeline {', '.join(away)}, whose lease has ended"] if away else []
    return "; ".join(told)


def _holders(stream: Stream, missing: list[Pipeline], now: float) -> list[pb.AcknowledgementHolder]:
    """Returns the readers that hold back acknowledgements: readers furthest behind, and readers with unknown positions."""
    name = stream.name
    if stream.received == BEGINNING:
        return []
    behind = [p for p in stream.readers if p not in missing and stream.is_held_by(p)]
    last = min((p.position(name) for p in behind), default=BEGINNING)
    found = []
    for pipeline in stream.readers:
        knows = pipeline not in missing
        if not knows or (pipeline in behind and pipeline.position(name) == last):
            since = pipeline.behind_since.get(name, pipeline.called_at)
            holder = pb.AcknowledgementHolder(
                pipeline=pipeline.name, state=pipeline_state(pipeline), held_ms=int((now - since) * 1000)
            )
            if knows and last > BEGINNING:
                fill(holder.committed, last)
            found.append(holder)
    return found


def pipeline_state(pipeline: Pipeline) -> pb.PipelineState.ValueType:
    """Returns the state of a pipeline, as the gateway sees it."""
    if pipeline.attached:
        return pb.PIPELINE_STATE_ATTACHED
    if pipeline.away_since is not None:
        return pb.PIPELINE_STATE_AWAY
    return pb.PIPELINE_STATE_DETACHED if pipeline.complete or pipeline.committed else pb.PIPELINE_STATE_AWAITED


def ms_since(moment: float) -> int:
    """Returns how long ago a moment of the monotonic clock was, in milliseconds."""
    return int((clock.monotonic() - moment) * 1000)

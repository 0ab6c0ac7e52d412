"""Plans how far a pipeline's next micro-batch reads in each stream."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from headrace.contract import clock
from headrace.contract.position import Position
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.pipelines import Pipeline, held
from headrace.gateway.core.streams import HeldFrame, Stream, starts_of

CURSORS_S = 10.0
"""How often a batch is planned, at most, that only moves cursors, in seconds: a heartbeat must not cost a batch each time."""


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """The messages of one stream in a batch: those after the committed position, up to `end`."""

    stream: Stream
    end: Position
    messages: int
    bytes: int
    start: bool = False
    """Whether the range is empty, and records in the checkpoint where the stream begins for the pipeline, or its first cursor."""
    ended: bool = False
    """Whether the source has ended the stream, and nothing follows `end`."""


@dataclass(frozen=True, slots=True)
class _Supply:
    """The messages of one stream that are available to the pipeline."""

    stream: Stream
    start: Position
    messages: int
    bytes: int


def plan(
    pipeline: Pipeline, streams: Mapping[str, Stream], max_messages: int | None, max_bytes: int, *, tell_ends: bool = False
) -> list[PlannedRange]:
    """Plans a batch; with `tell_ends`, includes ended streams until the pipeline's checkpoint records their end.

    What waits for tables (`Pipeline.bootstraps`) is left out, except for where it begins.

    Args:
        pipeline: The pipeline.
        streams: All streams, by name.
        max_messages: The maximum number of messages; None for no limit.
        max_bytes: The maximum size of their frames, in bytes.
        tell_ends: Whether the checkpoint records which streams have ended.
    """
    noticed = [streams[name] for name in pipeline.fresh] if tell_ends else []
    ranges = [_with_begin(pipeline, r) for r in _shared(pipeline, streams, max_messages, max_bytes)]
    if any(r.start for r in ranges):
        return ranges
    ranges += _moved_cursors(pipeline, streams, ranges)
    if not tell_ends:
        return ranges
    planned = [replace(r, ended=r.stream.ended and r.end == r.stream.received) for r in ranges]
    read = {r.stream.name for r in ranges}
    for stream in noticed:
        if (
            stream.pause is None
            and stream.name not in read
            and stream.received > BEGINNING
            and _has_news_of_its_end(pipeline, stream)
        ):
            # Another gateway may have received more of it before it ended.
            end = max(stream.received, pipeline.position(stream.name))
            planned.append(PlannedRange(stream, end, 0, 0, ended=True))
            pipeline.fresh[stream.name] = None
    return planned


def all_ended(pipeline: Pipeline, streams: Iterable[Stream]) -> bool:
    """Returns whether every stream that the pipeline reads has ended, and is planned or committed to its end."""
    mine = [stream for stream in streams if pipeline in stream.readers]
    return bool(mine) and all(_is_over(pipeline, stream) for stream in mine)


def newly_opened(
    pipeline: Pipeline, streams: Iterable[Stream], ranges: Iterable[PlannedRange], awaited: Collection[str]
) -> list[str]:
    """Returns the streams that the pipeline reads and of which neither its checkpoint nor the batch has anything.

    Args:
        pipeline: The pipeline.
        streams: All streams.
        ranges: The batch.
        awaited: The streams that the checkpoint awaits already.
    """
    known = {*awaited, *pipeline.committed, *(r.stream.name for r in ranges)}
    return [stream.name for stream in streams if not stream.ended and stream.name not in known and pipeline in stream.readers]


def _is_over(pipeline: Pipeline, stream: Stream) -> bool:
    if stream.attachment is None and stream.name in pipeline.ended:
        return True
    planned = pipeline.planned.get(stream.name)
    return stream.ended and (stream.is_committed_by(pipeline) if planned is None else stream.has_nothing_after(planned))


def _has_news_of_its_end(pipeline: Pipeline, stream: Stream) -> bool:
    """Returns whether the checkpoint contains all of an ended stream, but not yet its end."""
    if stream.pause is not None:
        return False
    return stream.ended and stream.name not in pipeline.ended and stream.has_nothing_after(pipeline.position(stream.name))


def _shared(pipeline: Pipeline, streams: Mapping[str, Stream], max_messages: int | None, max_bytes: int) -> list[PlannedRange]:
    """Divides a batch's limits among the streams with new messages, in proportion to what they have.

    Every such stream gets at least one message, until the message limit is used up. The limit on messages is exact; the limit on
    bytes may be exceeded by one frame per stream.

    If the starts of streams must be recorded first, the batch does only that: their messages follow in the next one.
    """
    if starts := [PlannedRange(stream, at, 0, 0, start=True) for stream, at in starts_of(streams, pipeline)]:
        return starts
    waiting = held(pipeline.bootstraps, pipeline.fresh)
    supplies = [_supply(pipeline, stream) for stream in [streams[name] for name in pipeline.fresh if name not in waiting]]
    supplies = [s for s in supplies if s.messages]
    messages, size = sum(s.messages for s in supplies), sum(s.bytes for s in supplies)
    share = min(1.0, max_bytes / size if size else 1.0, max_messages / messages if max_messages and messages else 1.0)
    if share >= 1.0:
        return [PlannedRange(s.stream, s.stream.received, s.messages, s.bytes) for s in supplies]
    ranges, left = [], max_messages if max_messages is not None else messages
    for supply in supplies:
        wanted = min(max(1, int(supply.messages * share)), left)
        if wanted:
            ranges.append(_take(supply, wanted, whole_frames=max_messages is None))
            left -= ranges[-1].messages
    if max_messages is not None:
        _rotate(pipeline, ranges)
    return ranges


def _with_begin(pipeline: Pipeline, planned: PlannedRange) -> PlannedRange:
    """Returns a range that says where it begins if its stream is resumable: whether it is read is not known yet."""
    if not planned.stream.resumable or not planned.messages:
        return planned
    begin = replace(pipeline.position(planned.stream.name), begin=None)
    return replace(planned, end=replace(planned.end, begin=begin))


def _moved_cursors(pipeline: Pipeline, streams: Mapping[str, Stream], ranges: Iterable[PlannedRange]) -> list[PlannedRange]:
    """Returns ranges without messages for the streams whose cursor has moved: beside messages, or alone every few seconds.

    In a run with Trigger.AvailableNow, never alone.
    """
    if not pipeline.moved_cursors:
        return []
    read = {r.stream.name for r in ranges}
    found, has_ended = [], False
    for name in list(pipeline.moved_cursors):
        stream, position = streams.get(name), pipeline.position(name)
        if stream is None or not stream.received.is_past(position):
            del pipeline.moved_cursors[name]
        elif name not in read and _has_only_a_cursor_after(pipeline, stream, position):
            found.append(PlannedRange(stream, stream.received, 0, 0, start=position == BEGINNING))
            has_ended = has_ended or stream.ended
    now = clock.monotonic()
    # A bounded run reads what exists now: heartbeats must not keep it from its end.
    is_due = not pipeline.available_now and now - pipeline.cursors_planned_at >= CURSORS_S
    if not found or not (read or has_ended or is_due):
        return []
    pipeline.cursors_planned_at = now
    return found


def _has_only_a_cursor_after(pipeline: Pipeline, stream: Stream, position: Position) -> bool:
    if stream.pause is not None or not stream.replayable or not pipeline.knows(stream.name):
        return False
    if stream.must_be_rewound_for(pipeline) or stream.is_lost_for(pipeline):
        return False
    return next(stream.after(position), None) is None


def _supply(pipeline: Pipeline, stream: Stream) -> _Supply:
    if stream.pause is not None:
        return _Supply(stream, stream.start, 0, 0)
    held_up = stream.must_be_rewound_for(pipeline) or stream.is_lost_for(pipeline) or stream.is_awaited(but_by=pipeline)
    if not stream.redelivering and (held_up or stream.waits_to_rewind()):
        # The next messages are not held yet or are lost, or the running batch of another pipeline needs the source first.
        return _Supply(stream, stream.start, 0, 0)
    start = _within_epoch(pipeline.position(stream.name), stream)
    known = pipeline.knows(stream.name)
    frames = list(stream.after(start)) if known and stream.received > start else []
    if not frames:
        pipeline.fresh.pop(stream.name, None)
        return _Supply(stream, start, 0, 0)
    seen = _messages_before(frames[0], start)
    messages = sum(f.count for f in frames) - seen
    size = sum(f.size for f in frames) - frames[0].size * seen // frames[0].count
    return _Supply(stream, start, messages, size)


def _within_epoch(position: Position, stream: Stream) -> Position:
    """Returns the position, or the beginning of the live epoch if the position is of an older one."""
    if position.epoch >= stream.live_epoch:
        return position
    # What a resumable source sends first may be before what the reader has: its own cursor would be too late for another reader.
    return Position(stream.live_epoch, -1, (stream.base or None) if stream.resumable else position.cursor)


def _messages_before(frame: HeldFrame, start: Position) -> int:
    """Returns how many of a frame's messages are at or before the position."""
    if frame.first > start.sequence:
        return 0
    return int(np.searchsorted(frame.sequences(), start.sequence, side="right"))


def _take(supply: _Supply, count: int, whole_frames: bool) -> PlannedRange:
    """Returns the range of the first `count` messages of a stream, or of the frames that contain them."""
    stream, start = supply.stream, supply.start
    end, taken, size = start, 0, 0
    for frame in stream.after(start):
        seen = _messages_before(frame, start)
        there = frame.count - seen
        if taken + there > count and not whole_frames:
            part = count - taken
            sequence = int(frame.sequences()[seen + part - 1])
            # Nobody seeks to the cursor of a redelivering stream: it says whose messages these are, the frame's first ones too.
            cursor = frame.cursor if stream.redelivering else end.cursor
            end = Position(stream.live_epoch, sequence, cursor)
            return PlannedRange(stream, end, count, size + frame.size * part // frame.count)
        end = Position(stream.live_epoch, frame.last, frame.cursor)
        taken += there
        size += frame.size * there // frame.count
        if taken >= count:
            break
    return PlannedRange(stream, end, taken, size)


def _rotate(pipeline: Pipeline, served: list[PlannedRange]) -> None:
    """Moves the served streams behind the others, so that a small limit does not starve any."""
    for planned in served:
        if planned.stream.name in pipeline.fresh:
            del pipeline.fresh[planned.stream.name]
            pipeline.fresh[planned.stream.name] = None

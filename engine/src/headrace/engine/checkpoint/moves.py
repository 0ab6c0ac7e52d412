"""Computes where a query is to continue instead of where its checkpoint ends, from the positions in its offset log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import pairwise

from headrace.contract.limits import MAX_SEQUENCE
from headrace.engine._errors import PositionRefused
from headrace.engine.checkpoint.position import Position

BEGINNING = Position(0, -1)
"""The position before the first message, whose sequence may be 0."""


class Direction(Enum):
    """Which moves are accepted."""

    ANY = "set"
    BACK = "rewind"
    FORWARD = "skip"


@dataclass(frozen=True)
class Point:
    """The positions at the end of a committed micro-batch.

    Attributes:
        batch: Its number.
        planned_ms: When it was planned, in milliseconds since 1970.
        streams: The positions by stream.
    """

    batch: int
    planned_ms: int
    streams: Mapping[str, Position]


@dataclass(frozen=True)
class After:
    """Continue after this sequence: the next message is the first one with a higher sequence."""

    sequence: int


@dataclass(frozen=True)
class By:
    """Continue this many sequences further; a negative number goes back."""

    sequences: int


@dataclass(frozen=True)
class AtBatch:
    """Continue after a micro-batch that the offset log still has."""

    batch: int


@dataclass(frozen=True)
class AtTime:
    """Continue where the query was at a time, in milliseconds since 1970: after the last micro-batch that was planned by then.

    Everything that the gateway received after that time is then read again.
    """

    time_ms: int


@dataclass(frozen=True)
class AtBeginning:
    """Continue with the first message that the source still has, or sends first."""


@dataclass(frozen=True)
class AtEnd:
    """Continue after the last message of each stream that its connector has reported, by stream."""

    latest: Mapping[str, int]


@dataclass(frozen=True)
class AtPositions:
    """Continue after these positions, by stream, as a source has found them.

    A stream that is already there, in the direction of the move, stays where it is.
    """

    positions: Mapping[str, Position]


Target = After | By | AtBatch | AtTime | AtBeginning | AtEnd | AtPositions


@dataclass(frozen=True)
class Change:
    """The move of one stream.

    Attributes:
        pipeline: The pipeline that reads it.
        stream: Its name.
        before: Where the old checkpoint ends.
        after: Where the new one continues.
    """

    pipeline: str
    stream: str
    before: Position
    after: Position

    @property
    def again(self) -> int:
        """How many messages come again, at most: the number of sequences between the positions, which may have gaps."""
        return max(0, self.before.sequence - self.after.sequence)

    @property
    def skipped(self) -> int:
        """How many messages are skipped, at most."""
        return max(0, self.after.sequence - self.before.sequence)


def kind_of(stream: str, points: Sequence[Point]) -> str:
    """Returns the kind of a stream's source: replayable, redelivering or resumable, or either of the last two.

    Of a resumable stream, the end of each micro-batch that read messages has a `begin`; the end of a batch of a queue has none.
    The offset log may no longer have such a micro-batch.

    Args:
        stream: Its name.
        points: The ends of the committed micro-batches that the offset log has, the last one last. The last one has the stream.
    """
    if not points[-1].streams[stream].epoch:
        return "replayable"
    known = [at for point in points if (at := point.streams.get(stream)) is not None]
    if any(at.begin is not None for at in known):
        return "resumable"
    # Within an epoch, only messages increase the sequence; a new epoch of a resumable stream may have another one.
    was_read = any(before.epoch == at.epoch and before.sequence < at.sequence for before, at in pairwise(known))
    return "redelivering" if was_read else "redelivering or resumable"


def moved_to(stream: str, points: Sequence[Point], target: Target, direction: Direction) -> Position:
    """Where a stream continues.

    Args:
        stream: Its name.
        points: The ends of the committed micro-batches that the offset log has, the last one last. The last one has the stream.
        target: Where to.
        direction: Which moves are accepted.

    Raises:
        PositionRefused: The stream cannot move there. The message says why, and what to do.
    """
    now = points[-1].streams[stream]
    kind = kind_of(stream, points)
    if kind == "resumable":
        raise PositionRefused(
            f"stream {stream}: its source is resumable: what it sends again after a cursor may be other messages, so no sequence "
            "leads to one that it has sent; name other streams with --stream"
        )
    if kind != "replayable":
        either = "" if kind == "redelivering" else " or resumable"
        raise PositionRefused(
            f"stream {stream}: its source is a queue{either}, and sequences lead to none of its messages: "
            "what is acknowledged is gone from a queue; name other streams with --stream"
        )
    there = _position_at(stream, now, points, target)
    if isinstance(target, AtPositions) and direction is not Direction.ANY:
        there = min(now, there) if direction is Direction.BACK else max(now, there)
    if (direction is Direction.BACK and there > now) or (direction is Direction.FORWARD and there < now):
        other = "skip" if direction is Direction.BACK else "rewind"
        raise PositionRefused(
            f"stream {stream}: {there} is {'after' if there > now else 'before'} {now}, where the checkpoint is; use "
            f"headrace positions {other}, or set"
        )
    return now if there == now else there


def _position_at(stream: str, now: Position, points: Sequence[Point], target: Target) -> Position:
    match target:
        case AtBeginning():
            return BEGINNING
        case After(sequence):
            return _at_sequence(stream, sequence, points)
        case By(sequences):
            return _at_sequence(stream, max(BEGINNING.sequence, now.sequence + sequences), points)
        case AtEnd(latest):
            if stream not in latest:
                raise PositionRefused(
                    f"stream {stream}: its connector has not told the gateway where it ends; start the connector, or name a "
                    "sequence with --after"
                )
            return _at_sequence(stream, max(now.sequence, latest[stream]), points)
        case AtPositions(positions):
            if stream not in positions:
                raise PositionRefused(
                    f"stream {stream}: no position is given for it; was its source named, with all its topics? Otherwise name "
                    "other streams with --stream"
                )
            if positions[stream].sequence == BEGINNING.sequence:
                return BEGINNING
            _check(stream, positions[stream].sequence)
            return positions[stream]
        case AtBatch(batch):
            return _at_point(stream, _point_of(batch, points))
        case AtTime(time_ms):
            return _at_point(stream, _point_at(time_ms, points))


def _at_sequence(stream: str, sequence: int, points: Sequence[Point]) -> Position:
    """The position at a sequence, with the last cursor that is known at or before it: the source sends again what is between.

    Without one, the source finds the sequence by itself, as it does if a micro-batch ends within its first frame.
    """
    if sequence == BEGINNING.sequence:
        return BEGINNING
    _check(stream, sequence)
    known = [each for point in points if (each := point.streams.get(stream)) is not None and each.epoch == 0]
    before = max((each for each in known if each.sequence <= sequence and each.cursor is not None), default=None)
    return Position(0, sequence, before.cursor if before is not None else None)


def _check(stream: str, sequence: int) -> None:
    if not 0 <= sequence <= MAX_SEQUENCE:
        raise PositionRefused(f"stream {stream}: {sequence} is no sequence; want 0 to 2^63 - 1")


def _at_point(stream: str, point: Point) -> Position:
    # A stream that the query had not read yet began with its first message.
    found = point.streams.get(stream, BEGINNING)
    return Position(found.epoch, found.sequence, found.cursor, found.moves)


def _point_of(batch: int, points: Sequence[Point]) -> Point:
    for point in points:
        if point.batch == batch:
            return point
    raise PositionRefused(f"the offset log has no micro-batch {batch}: it has {points[0].batch} to {points[-1].batch}")


def _point_at(time_ms: int, points: Sequence[Point]) -> Point:
    earlier = [point for point in points if point.planned_ms <= time_ms]
    if not earlier:
        raise PositionRefused(
            f"{time_text(time_ms)} is before the oldest micro-batch in the offset log, {points[0].batch}, planned at "
            f"{time_text(points[0].planned_ms)}: name that or a later time, a sequence with --after, --beginning, or "
            "--positions, if the source can find a time itself"
        )
    if time_ms > points[-1].planned_ms:
        # The checkpoint cannot tell which of the messages that the query has not read came before this time.
        raise PositionRefused(
            f"{time_text(time_ms)} is after the last committed micro-batch, {points[-1].batch}, planned at "
            f"{time_text(points[-1].planned_ms)}: a time becomes a position only by the micro-batches of the checkpoint. To go "
            "forward, name a sequence with --after, --end, or --positions"
        )
    return earlier[-1]


def time_text(time_ms: int) -> str:
    """A time as ISO 8601 text in UTC, with milliseconds."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Converts positions from and to the protocol, and checks stream names and patterns."""

from collections.abc import Sequence

from headrace.contract.limits import MAX_NAME_BYTES, MAX_SEQUENCE
from headrace.contract.names import is_stream_name, is_stream_pattern
from headrace.contract.position import Position
from headrace.gateway.core.base.bounds import MAX_POSITIONS, check_count
from headrace.gateway.core.base.errors import MalformedMessage
from headrace.protocol.v1 import frame_pb2 as pb

BEGINNING = Position(0, -1)
"""The position before the first message, whose sequence may be 0."""


def from_proto(position: pb.Position) -> Position:
    """Converts a position from its protocol message.

    Raises:
        MalformedMessage: the sequence is larger than 2^63 - 1.
    """
    if position.sequence > MAX_SEQUENCE:
        raise MalformedMessage(f"position with sequence {position.sequence}: the largest is 2^63 - 1")
    cursor = position.cursor if position.HasField("cursor") else None
    begin = None
    if position.HasField("begin"):
        wire = position.begin
        cursor_there = wire.cursor if wire.HasField("cursor") else None
        begin = Position(wire.epoch, wire.sequence, cursor_there) if wire.epoch else BEGINNING
    return Position(position.epoch, position.sequence, cursor, position.moves, begin)


def to_proto(position: Position) -> pb.Position:
    """Converts a position to its protocol message; it must not be the beginning."""
    message = pb.Position()
    fill(message, position)
    return message


def fill(message: pb.Position, position: Position) -> None:
    """Writes a position into an empty message, such as the field of another one: cheaper than to copy a message there."""
    message.sequence = position.sequence
    if position.epoch:
        message.epoch = position.epoch
    if position.cursor is not None:
        message.cursor = position.cursor
    if position.moves:
        message.moves = position.moves
    if position.begin is not None:
        message.begin.SetInParent()
        if position.begin.epoch:
            message.begin.epoch, message.begin.sequence = position.begin.epoch, position.begin.sequence
            if position.begin.cursor is not None:
                message.begin.cursor = position.begin.cursor


def to_stream_positions(positions: dict[str, Position]) -> list[pb.StreamPosition]:
    """Converts positions by stream to protocol messages, sorted by stream."""
    found = []
    for stream, position in sorted(positions.items()):
        message = pb.StreamPosition(stream=stream)
        if position != BEGINNING:
            fill(message.position, position)
        found.append(message)
    return found


def from_stream_positions(positions: Sequence[pb.StreamPosition]) -> dict[str, Position]:
    """Converts protocol messages to positions by stream.

    Raises:
        MalformedMessage: a stream's name or a sequence is invalid.
        LimitExceeded: there are too many.
    """
    check_count("positions", positions, MAX_POSITIONS)
    return {check_name(p.stream): from_proto(p.position) if p.HasField("position") else BEGINNING for p in positions}


def check_name(stream: str) -> str:
    """Checks and returns the name of a stream.

    Raises:
        MalformedMessage: the name is not `source/partition`, or is too long.
    """
    if not is_stream_name(stream):
        raise MalformedMessage(
            f"stream name {stream[:80]!r}: want source/partition, each of letters, digits and ._-, at most {MAX_NAME_BYTES} bytes"
        )
    return stream


def check_pattern(text: str) -> str:
    """Checks and returns a stream pattern, in which `*` stands for any text within one part of the name.

    Raises:
        MalformedMessage: the pattern is not `source/partition`.
    """
    if not is_stream_pattern(text):
        raise MalformedMessage(f"stream pattern {text[:80]!r}: want source/partition such as orders/* or orders/0")
    return text

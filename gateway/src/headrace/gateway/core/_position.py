"""Positions as the gateway orders them, and the names and patterns of streams."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.gateway.core._bounds import MAX_NAME_BYTES, MAX_POSITIONS, check_count
from headrace.gateway.core._errors import MalformedMessage
from headrace.protocol.v1 import frame_pb2 as pb

MAX_SEQUENCE = 2**63 - 1

_STREAM_NAME = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")
_PATTERN = re.compile(r"[A-Za-z0-9._*-]+/[A-Za-z0-9._*-]+")


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A place in a stream; ordered by epoch and sequence."""

    epoch: int
    sequence: int
    cursor: bytes | None = field(default=None, compare=False)

    def to_proto(self) -> pb.Position:
        """The wire form; only of a position that is not the beginning."""
        return pb.Position(epoch=self.epoch, sequence=self.sequence, cursor=self.cursor)

    def __str__(self) -> str:
        if self.sequence < 0:
            return "the beginning"
        return f"sequence {self.sequence}" + (f" of epoch {self.epoch}" if self.epoch else "")


BEGINNING = Position(0, -1)
"""Before the first message: sequence 0 is a message like any other."""


def from_proto(position: pb.Position) -> Position:
    """The position of a wire message.

    Raises:
        MalformedMessage: the sequence is larger than 2^63 - 1.
    """
    if position.sequence > MAX_SEQUENCE:
        raise MalformedMessage(f"position with sequence {position.sequence}: the largest is 2^63 - 1")
    return Position(position.epoch, position.sequence, position.cursor if position.HasField("cursor") else None)


def to_stream_positions(positions: dict[str, Position]) -> list[pb.StreamPosition]:
    """Positions by stream, in the order of their names."""
    return [
        pb.StreamPosition(stream=stream, position=None if position == BEGINNING else position.to_proto())
        for stream, position in sorted(positions.items())
    ]


def from_stream_positions(positions: Sequence[pb.StreamPosition]) -> dict[str, Position]:
    """Positions by stream.

    Raises:
        MalformedMessage: a stream's name or a sequence is not valid.
        LimitExceeded: there are too many.
    """
    check_count("positions", positions, MAX_POSITIONS)
    return {check_name(p.stream): from_proto(p.position) if p.HasField("position") else BEGINNING for p in positions}


def check_name(stream: str) -> str:
    """Returns the name.

    Raises:
        MalformedMessage: it is not `source/partition`.
    """
    if len(stream) > MAX_NAME_BYTES or not _STREAM_NAME.fullmatch(stream):
        raise MalformedMessage(
            f"stream name {stream[:80]!r}: want source/partition, each of letters, digits and ._-, at most {MAX_NAME_BYTES} bytes"
        )
    return stream


def source_of(stream: str) -> str:
    """The source that a stream is a partition of."""
    return stream.partition("/")[0]


def check_pattern(text: str) -> str:
    """Returns the pattern, in which `*` stands for anything within a part of the name.

    Raises:
        MalformedMessage: it is not `source/partition`.
    """
    if len(text) > MAX_NAME_BYTES or not _PATTERN.fullmatch(text):
        raise MalformedMessage(f"stream pattern {text[:80]!r}: want source/partition such as orders/* or orders/0")
    return text

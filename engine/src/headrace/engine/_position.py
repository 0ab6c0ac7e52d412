"""Positions in streams, and the offsets that Spark keeps in its checkpoint."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.engine._errors import CheckpointError
from headrace.protocol.v1 import frame_pb2 as pb

MAX_SEQUENCE = 2**63 - 1


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A place in a stream: everything at or before it has been read. Ordered by epoch and sequence.

    At a `start` nothing was read: the stream begins there for the pipeline. `ended` says that the source has ended it
    there. Should it go on after all, it goes on from there.
    """

    epoch: int
    sequence: int
    cursor: bytes | None = field(default=None, compare=False)
    start: bool = field(default=False, compare=False)
    ended: bool = field(default=False, compare=False)

    @classmethod
    def from_proto(cls, position: pb.Position, *, start: bool = False, ended: bool = False) -> "Position":
        """The position of a wire message."""
        return cls(position.epoch, position.sequence, position.cursor if position.HasField("cursor") else None, start, ended)

    def to_proto(self) -> pb.Position:
        """The wire form."""
        return pb.Position(epoch=self.epoch, sequence=self.sequence, cursor=self.cursor)

    def __str__(self) -> str:
        return f"{self.sequence}" + (f" of epoch {self.epoch}" if self.epoch else "")


@dataclass(frozen=True)
class Offset:
    """Where a pipeline is in each of its streams: what Spark writes into its offset log, as JSON.

    `run` and `run_id` name the run of the pipeline that planned it: the next one's number is one more, and the driver can
    speak for this one when the query ends. They are absent in the first offset. `finish` counts how often event time has come to
    its end, since all streams had ended, and `finished` says that it did so here. `checkpoint` is the checkpoint's own id, absent
    in those that were made before there were such ids. `planned_at` is when the batch was planned that ends here, in microseconds
    since 1970, where an application asks for the present, so that the batch finds the same one when it is done again.
    """

    pipeline: str
    streams: Mapping[str, Position]
    run: int | None = None
    finish: int = 0
    finished: bool = False
    run_id: str = ""
    checkpoint: str = ""
    planned_at: int | None = None

    @classmethod
    def from_json(cls, document: Any) -> "Offset":
        """The offset of its JSON form.

        Raises:
            CheckpointError: it is not the form that this source writes.
        """
        try:
            streams = {name: _position(position) for name, position in document["streams"].items()}
            finish, finished = int(document.get("finish", 0)), document.get("finished") is True
            run_id, checkpoint = (str(document.get(name, "")) for name in ("run_id", "checkpoint"))
            at = document.get("plannedAt")
            return cls(document["pipeline"], streams, document.get("run"), finish, finished, run_id, checkpoint, at)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"the checkpoint's offset is not one of this source ({type(error).__name__}: {error}); "
                "was the checkpoint written by another source? Use a new checkpointLocation"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """The JSON form; equal offsets give equal texts."""
        document: dict[str, Any] = {"pipeline": self.pipeline}
        if self.checkpoint:
            document["checkpoint"] = self.checkpoint
        if self.run is not None:
            document["run"] = self.run
        if self.finish:
            document["finish"] = self.finish
        if self.finished:
            document["finished"] = True
        if self.run_id:
            document["run_id"] = self.run_id
        if self.planned_at is not None:
            document["plannedAt"] = self.planned_at
        document["streams"] = {name: _document(self.streams[name]) for name in sorted(self.streams)}
        return document


def moved(positions: Mapping[str, Position], known: Mapping[str, Position]) -> dict[str, Position]:
    """Those positions that differ from the known ones, also where only the end of the stream is news."""
    return {name: position for name, position in positions.items() if not _is_same(position, known.get(name))}


def left_out(positions: Mapping[str, Position], known: Mapping[str, Position]) -> dict[str, Position]:
    """The known positions of streams that have none any more, since they were forgotten."""
    return {name: position for name, position in known.items() if name not in positions}


def ended(positions: Mapping[str, Position]) -> list[str]:
    """The streams that have ended."""
    return [name for name, position in positions.items() if position.ended]


def to_stream_positions(positions: Mapping[str, Position]) -> Iterable[pb.StreamPosition]:
    """The wire form of positions by stream."""
    return [pb.StreamPosition(stream=name, position=position.to_proto()) for name, position in positions.items()]


def _position(document: Mapping[str, Any]) -> Position:
    cursor = document.get("cursor")
    cursor = None if cursor is None else base64.b64decode(cursor)
    start, ended = document.get("start") is True, document.get("ended") is True
    return Position(int(document["epoch"]), int(document["sequence"]), cursor, start, ended)


def _is_same(position: Position, known: Position | None) -> bool:
    return known is not None and (known, known.ended) == (position, position.ended)


def _document(position: Position) -> dict[str, Any]:
    document: dict[str, Any] = {"epoch": position.epoch, "sequence": position.sequence}
    if position.cursor is not None:
        document["cursor"] = base64.b64encode(position.cursor).decode("ascii")
    if position.start:
        document["start"] = True
    if position.ended:
        document["ended"] = True
    return document

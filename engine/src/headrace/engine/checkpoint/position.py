"""Positions in streams, and the offsets that Spark keeps in its checkpoint."""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.contract import position as contract
from headrace.engine._errors import CheckpointError
from headrace.protocol.v1 import frame_pb2 as pb


@dataclass(frozen=True, order=True, slots=True)
class Position(contract.Position):
    """A place in a stream, and what the checkpoint knows about it.

    At a `start` nothing was read: the stream begins there for the pipeline, or has sent only a cursor. `ended` means that the
    source has ended the stream there. If the stream continues after all, it continues from there. `begin` is where the batch of a
    resumable stream begins, until a later batch records that this one was read as it was planned.
    """

    start: bool = field(default=False, compare=False)
    ended: bool = field(default=False, compare=False)

    @classmethod
    def from_proto(cls, position: pb.Position, *, start: bool = False, ended: bool = False) -> "Position":
        """Converts a wire message to a position."""
        cursor = position.cursor if position.HasField("cursor") else None
        begin = None
        if position.HasField("begin"):
            wire = position.begin
            cursor_there = wire.cursor if wire.HasField("cursor") else None
            begin = cls(wire.epoch, wire.sequence, cursor_there) if wire.epoch else cls(0, -1)
        return cls(position.epoch, position.sequence, cursor, position.moves, begin, start=start, ended=ended)

    def taken_as_read(self) -> "Position":
        """Returns it, once it is known that the batch that ends here was read as it was planned."""
        return self if self.begin is None else replace(self, begin=None)

    def taken_as_unread(self) -> "Position":
        """Returns where its stream continues if that is not known: where the batch of a resumable stream begins."""
        if self.begin is None:
            return self
        begin = self.begin
        return begin if isinstance(begin, Position) else Position(begin.epoch, begin.sequence, begin.cursor, begin.moves)

    def with_cursor_of(self, earlier: "Position") -> "Position":
        """Returns it with the cursor of an earlier position if it has none."""
        return self if self.cursor is not None else replace(self, cursor=earlier.cursor)

    def to_proto(self) -> pb.Position:
        """Returns the wire form."""
        begin = None
        if self.begin is not None:
            there = self.begin
            begin = pb.Begin(epoch=there.epoch, sequence=there.sequence, cursor=there.cursor) if there.epoch else pb.Begin()
        return pb.Position(epoch=self.epoch, sequence=self.sequence, cursor=self.cursor, moves=self.moves, begin=begin)


@dataclass(frozen=True)
class Offset:
    """A pipeline's position in each of its streams, which Spark writes to its offset log, as JSON.

    `run_number` and `run_id` identify the run of the pipeline that planned it; the next run's number is one more. The driver uses
    them to detach the run when the query ends. They are absent in the first offset. `finish` counts how often event time has
    ended, because all streams had ended, and `finished` is true if it did so here. `checkpoint` is the checkpoint's id.
    `planned_at` is when the batch that ends here was planned, in microseconds since 1970, if the application needs the present
    time: a batch that is repeated finds the same value. `awaited` are the streams that were opened and have no position yet:
    event time waits for them. `began_at` is when the first batch was planned, in microseconds since 1970, if the application
    needs the present time. `clock` is for how long the application had run, in microseconds, if it needs that for quiet streams.
    `history` is how many slices of its history the application has read. `wall_at` is the machine's clock when the batch was
    planned, if it was behind `planned_at`, which never goes back. `bootstrapped` are the tables that were read to their present
    end before the streams that meet them, each with the patterns of its streams.
    """

    pipeline: str
    streams: Mapping[str, Position]
    run_number: int | None = None
    finish: int = 0
    finished: bool = False
    run_id: str = ""
    checkpoint: str = ""
    planned_at: int | None = None
    awaited: frozenset[str] = frozenset()
    began_at: int | None = None
    history: int = 0
    clock: int | None = None
    wall_at: int | None = None
    bootstrapped: frozenset[tuple[str, str]] = frozenset()

    def taken_as_read(self) -> "Offset":
        """Returns it, once it is known that the batch that ends here was read as it was planned."""
        return replace(self, streams={name: position.taken_as_read() for name, position in self.streams.items()})

    def taken_as_unread(self) -> "Offset":
        """Returns where a run continues that does not know it: resumable streams continue from where the batch began."""
        return replace(self, streams={name: position.taken_as_unread() for name, position in self.streams.items()})

    @property
    def is_read(self) -> bool:
        """Whether the checkpoint records that everything up to here was read as it was planned."""
        return all(position.begin is None for position in self.streams.values())

    @classmethod
    def parse(cls, text: str) -> "Offset | None":
        """Parses a line of Spark's offset log; None if it is of another source, or of one without an offset.

        Raises:
            ValueError: The line is not JSON.
            CheckpointError: The document is not an offset of this source.
        """
        document = None if text == "-" else json.loads(text)
        is_own = isinstance(document, dict) and document.keys() >= {"pipeline", "checkpoint", "streams"}
        return cls.from_json(document) if is_own else None

    @classmethod
    def from_json(cls, document: Any) -> "Offset":
        """Parses the JSON form of an offset.

        Raises:
            CheckpointError: The document is not an offset of this source.
        """
        try:
            streams = {name: _position(position) for name, position in document["streams"].items()}
            finish, finished = int(document.get("finish", 0)), document.get("finished") is True
            run_id, checkpoint = str(document.get("run_id", "")), str(document["checkpoint"])
            at, awaited = document.get("plannedAt"), frozenset(map(str, document.get("awaited", ())))
            return cls(
                document["pipeline"],
                streams,
                document.get("run"),
                finish,
                finished,
                run_id,
                checkpoint,
                at,
                awaited,
                document.get("beganAt"),
                int(document.get("history", 0)),
                document.get("clock"),
                document.get("wallAt"),
                frozenset((table, str(each)) for table, some in document.get("bootstrapped", {}).items() for each in some),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"the checkpoint's offset is not an offset of this source ({type(error).__name__}: {error}); "
                "was the checkpoint written by another source? Use a new checkpointLocation"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON form. Equal offsets have equal documents."""
        document: dict[str, Any] = {"pipeline": self.pipeline, "checkpoint": self.checkpoint}
        if self.run_number is not None:
            document["run"] = self.run_number
        if self.finish:
            document["finish"] = self.finish
        if self.finished:
            document["finished"] = True
        if self.run_id:
            document["run_id"] = self.run_id
        if self.planned_at is not None:
            document["plannedAt"] = self.planned_at
        if self.wall_at is not None:
            document["wallAt"] = self.wall_at
        if self.began_at is not None:
            document["beganAt"] = self.began_at
        if self.clock is not None:
            document["clock"] = self.clock
        if self.history:
            document["history"] = self.history
        if self.awaited:
            document["awaited"] = sorted(self.awaited)
        if self.bootstrapped:
            tables = sorted({table for table, _ in self.bootstrapped})
            document["bootstrapped"] = {
                table: sorted(pattern for name, pattern in self.bootstrapped if name == table) for table in tables
            }
        document["streams"] = {name: _document(self.streams[name]) for name in sorted(self.streams)}
        return document


def moved(positions: Mapping[str, Position], earlier: Mapping[str, Position]) -> dict[str, Position]:
    """The positions that differ from the known ones, including positions that differ only in `ended` or in the cursor's moves."""
    return {name: position for name, position in positions.items() if not _is_same(position, earlier.get(name))}


def left_out(positions: Mapping[str, Position], earlier: Mapping[str, Position]) -> dict[str, Position]:
    """The known positions of streams that `positions` lacks, since they were forgotten."""
    return {name: position for name, position in earlier.items() if name not in positions}


def ended(positions: Mapping[str, Position]) -> list[str]:
    """The streams that have ended."""
    return [name for name, position in positions.items() if position.ended]


def to_stream_positions(positions: Mapping[str, Position]) -> Iterable[pb.StreamPosition]:
    """The wire form of positions by stream."""
    return [pb.StreamPosition(stream=name, position=to_wire(position)) for name, position in positions.items()]


def to_wire(position: Position | None) -> pb.Position | None:
    """The wire form of a position; None before the first message. A checkpoint has that position only if an operator set it."""
    return None if position is None or position.sequence < 0 else position.to_proto()


def _position(document: Mapping[str, Any]) -> Position:
    cursor = document.get("cursor")
    cursor = None if cursor is None else base64.b64decode(cursor)
    start, ended = document.get("start") is True, document.get("ended") is True
    moves = int(document.get("moves", 0))
    begin = document.get("begin")
    begin = None if begin is None else _position(begin)
    return Position(int(document["epoch"]), int(document["sequence"]), cursor, moves, begin, start=start, ended=ended)


def _is_same(position: Position, other: Position | None) -> bool:
    return other is not None and (other, other.ended, other.moves, other.begin) == (
        position,
        position.ended,
        position.moves,
        position.begin,
    )


def _document(position: Position) -> dict[str, Any]:
    document: dict[str, Any] = {"epoch": position.epoch, "sequence": position.sequence}
    if position.cursor is not None:
        document["cursor"] = base64.b64encode(position.cursor).decode("ascii")
    if position.moves:
        document["moves"] = position.moves
    if position.begin is not None:
        document["begin"] = _document(position.taken_as_unread())
    if position.start:
        document["start"] = True
    if position.ended:
        document["ended"] = True
    return document

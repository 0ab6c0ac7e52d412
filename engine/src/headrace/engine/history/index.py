"""The order in which an application reads a history: the parts of files, and the slices that micro-batches consist of.

Each message has a place: its event time, its part and its row, or, if the files have the sequences of streams, its sequence. A
slice has the messages between two places. So the slices are in order across files, sorted or not, and a micro-batch that is
repeated reads the same messages.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

from headrace.engine._errors import CheckpointError
from headrace.engine.history.files import File
from headrace.engine.history.live import Repeated
from headrace.engine.history.request import ColumnNames
from headrace.engine.history.run import Part, Place, Run

ALL = ""
"""The group of slices of all messages, if these are ordered by their event times."""


@dataclass(frozen=True)
class Index:
    """The order of a history. A checkpoint keeps it from its first start on.

    Attributes:
        request: The texts of what was asked for, to recognise another history.
        columns: The columns of the files.
        ordered: Whether the files have streams and sequences, by which messages are ordered.
        until: The event time before which messages come from the history, in microseconds since 1970; None for all of them.
        parts: The parts of the files, by number.
        bounds: The places at which slices end, without the last one: by stream if the messages have sequences, else of ALL.
        slices: The number of slices.
        messages: The number of messages.
        streams: The streams of the messages.
        repeated: The live messages that the history has.
    """

    request: Mapping[str, Any]
    columns: ColumnNames
    ordered: bool
    until: int | None
    parts: tuple[Part, ...]
    bounds: Mapping[str, Sequence[Place]]
    slices: int
    messages: int
    streams: tuple[str, ...]
    repeated: Repeated

    @property
    def ending(self) -> tuple[str, ...]:
        """The streams that end with the history; the others continue."""
        return () if self.ordered else self.streams

    def run(self, begin: int, end: int) -> Run:
        """What a task reads: the slices from `begin` (inclusive) to `end` (exclusive)."""
        bounds: dict[str, tuple[Place | None, ...]] = {}
        for group, places in self.bounds.items():
            edges = (None, *places, None)
            bounds[group] = tuple(edges[begin : end + 1])
        kept = tuple(part for part in self.parts if any(_overlap(span, bounds[group]) for group, span in part.spans.items()))
        return Run(kept, bounds, begin, self.columns, self.ordered, self.until, frozenset(self.streams))

    def to_json(self) -> dict[str, Any]:
        """The document that a checkpoint keeps."""
        files = list(dict.fromkeys(part.file for part in self.parts))
        numbers = {file: number for number, file in enumerate(files)}
        return {
            "request": dict(self.request),
            "columns": asdict(self.columns),
            "ordered": self.ordered,
            "until": self.until,
            "files": [astuple(file) for file in files],
            "parts": [[numbers[part.file], part.begin, part.end, part.stream, dict(part.spans)] for part in self.parts],
            "bounds": {group: [list(place) for place in places] for group, places in self.bounds.items()},
            "slices": self.slices,
            "messages": self.messages,
            "streams": list(self.streams),
            "repeated": self.repeated.to_json(),
        }

    @classmethod
    def from_json(cls, document: Any) -> "Index":
        """Parses the document of `to_json`.

        Raises:
            CheckpointError: It is not one.
        """
        try:
            files = [_file(*file) for file in document["files"]]
            parts = tuple(
                Part(number, files[file], begin, end, stream, {group: (low, high) for group, (low, high) in spans.items()})
                for number, (file, begin, end, stream, spans) in enumerate(document["parts"])
            )
            return cls(
                dict(document["request"]),
                ColumnNames(**document["columns"]),
                bool(document["ordered"]),
                document["until"],
                parts,
                {group: [(key, part, row) for key, part, row in places] for group, places in document["bounds"].items()},
                int(document["slices"]),
                int(document["messages"]),
                tuple(document["streams"]),
                Repeated.from_json(document["repeated"]),
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise CheckpointError(
                f"the checkpoint's record of its history cannot be read ({type(error).__name__}: {error}); restore the checkpoint"
            ) from None

    def dumps(self) -> str:
        """The document as text."""
        return json.dumps(self.to_json(), separators=(",", ":"))


def _file(path: str, kind: str, size: int, values: Sequence[Sequence[Any]] = ()) -> File:
    return File(path, kind, size, tuple((name, value) for name, value in values))


def _overlap(span: tuple[int, int], bounds: Sequence[Place | None]) -> bool:
    """Whether some message of a part may be between the outer bounds."""
    first, last = bounds[0], bounds[-1]
    return (first is None or span[1] >= first[0]) and (last is None or span[0] <= last[0])

"""Where the history ends in live streams: messages that it has are dropped, so that each counts once."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.contract.columns import NULL_TIME
from headrace.contract.names import covers
from headrace.engine._errors import HistoryError
from headrace.engine.codec import Columns, cut, sequences_of


@dataclass(frozen=True)
class Repeated:
    """The live messages that a history has.

    Attributes:
        last: The last sequence of streams in the history.
        until: The event time from which on messages are not in the history, in microseconds since 1970; None without it.
        patterns: The streams that it concerns.
    """

    last: Mapping[str, int] = field(default_factory=dict)
    until: int | None = None
    patterns: tuple[str, ...] = ()

    def dropped(self, frames: Iterable[Columns], count: dict[str, int]) -> Iterator[Columns]:
        """The frames without these messages, whose number is added to `count`, by stream.

        Raises:
            HistoryError: A message without an event time may be in the history, or not.
        """
        for frame in frames:
            before = frame.rows
            for kept in self._rest(frame):
                before -= kept.rows
                yield kept
            if before:
                count[frame.stream] = count.get(frame.stream, 0) + before

    def _rest(self, frame: Columns) -> Iterator[Columns]:
        if self.until is None:
            found = cut(frame, self.last.get(frame.stream, -1), frame.last)
            if found is not None:
                yield found
        elif not any(covers(pattern, frame.stream) for pattern in self.patterns):
            yield frame
        else:
            yield from self._after(frame, self.until)

    def _after(self, frame: Columns, until: int) -> Iterator[Columns]:
        """The messages of a frame from a time on."""
        times = np.frombuffer(frame.event_times, "<i8") if frame.event_times else np.full(frame.rows, NULL_TIME, np.int64)
        if (times >= until).all():
            yield frame
            return
        sequences = sequences_of(frame)
        undated = np.flatnonzero(times == NULL_TIME)
        if len(undated):
            raise HistoryError(
                f"stream {frame.stream}, sequence {int(sequences[undated[0]])}: the message has no event time, so nobody knows "
                "whether the history contains it; have the source give event times, or files the columns stream and sequence"
            )
        kept = times >= until
        edges = np.flatnonzero(np.diff(np.concatenate(([False], kept, [False])).astype(np.int8)))
        for low, high in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            found = cut(frame, int(sequences[low]) - 1, int(sequences[high - 1]))
            if found is not None:
                yield found

    def to_json(self) -> dict[str, Any]:
        """The document that a checkpoint keeps."""
        return {"last": dict(self.last), "until": self.until, "patterns": list(self.patterns)}

    @classmethod
    def from_json(cls, document: Any) -> "Repeated":
        """Parses the document of `to_json`."""
        return cls({name: int(last) for name, last in document["last"].items()}, document["until"], tuple(document["patterns"]))

"""The open windows of a key, and how they are stored."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from headrace.pipelines.states.state import StateClass
from headrace.pipelines.time.time import END
from headrace.pipelines.windows.windows import Bounds

_LAYOUT = "open windows"


class OpenWindows:
    """The open windows of a key.

    Attributes:
        windows: The accumulator of each.
        ends: The end of the first one.
        stream: The stream of the last element that was added.
        sequence: Its sequence.
        news: The windows that have changed since their last early result, if they have early results.
    """

    __slots__ = ("ends", "news", "sequence", "stream", "windows")

    def __init__(self, windows: dict[Bounds, Any], stream: str, sequence: int, news: Iterable[Bounds] = ()) -> None:
        self.windows, self.stream, self.sequence, self.news = windows, stream, sequence, set(news)
        self.ends = min((end for _, end in windows), default=END)


@dataclass(frozen=True)
class OpenWindowsClass(StateClass):
    """Stores open windows, with their accumulators as states."""

    def pack(self, states: Sequence[Any]) -> bytes:
        """Open windows as bytes."""
        counts = [len(opened.windows) for opened in states]
        bounds = [bounds for opened in states for bounds in opened.windows]
        last = [(opened.stream, opened.sequence, *([sorted(opened.news)] if opened.news else [])) for opened in states]
        accumulators = [accumulator for opened in states for accumulator in opened.windows.values()]
        return self.laid_out(_LAYOUT, (counts, bounds, last), accumulators)

    def unpack(self, packed: bytes) -> list[Any]:
        """The open windows from bytes."""
        (counts, bounds, last), accumulators = self.taken_apart(_LAYOUT, packed)
        each = iter(zip(bounds, accumulators, strict=True))
        return [
            OpenWindows(dict(islice(each, count)), stream, sequence, *news)
            for count, (stream, sequence, *news) in zip(counts, last, strict=True)
        ]

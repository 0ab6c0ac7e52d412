"""The marks of streams at a `key_by`."""

from dataclasses import dataclass, field

from headrace.pipelines.elements.message import NO_TIME

EVERY_STREAM = ""
"""Replaces a stream's name for the end of event time in all streams, and for forgotten streams, which count as one."""


@dataclass
class Marks:
    """The marks at a `key_by`.

    Attributes:
        maxima: The mark of each stream: its largest event time; NO_TIME before the first one.
        ended: The mark of each stream that has ended. It delays nothing, and the stream resumes there if it continues.
    """

    maxima: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)

    def open(self, stream: str) -> bool:
        """Waits for a stream from now on, if it is new; returns whether it is."""
        is_new = stream not in self.ended and stream not in self.maxima
        if is_new:
            self.maxima[stream] = NO_TIME
        return is_new

    def begin(self, stream: str) -> None:
        """Starts a micro-batch in which a stream has elements with event times."""
        self.maxima.setdefault(stream, self.ended.pop(stream, NO_TIME))

    def advance(self, stream: str, time: int) -> None:
        """Advances a stream to the largest time of its elements; NO_TIME has no effect."""
        if time > self.base(stream):
            self.maxima[stream] = time

    def base(self, stream: str) -> int:
        """The mark of a stream."""
        return self.maxima.get(stream, NO_TIME)

    def end_stream(self, stream: str) -> None:
        """Ends a stream after its elements of this micro-batch."""
        if stream in self.maxima:
            self.ended[stream] = self.maxima.pop(stream)

    def forget(self, stream: str) -> None:
        """Forgets a stream that has ended. Only the largest mark of all forgotten streams is kept."""
        self.end_stream(stream)
        if stream in self.ended:
            raise_to(self.ended, {EVERY_STREAM: self.ended.pop(stream)})

    def furthest(self) -> int:
        """The largest mark of all streams, also of streams that have ended."""
        return max(max(self.maxima.values(), default=NO_TIME), max(self.ended.values(), default=NO_TIME))


def raise_to(times: dict[str, int], others: dict[str, int]) -> None:
    """Updates each time to the maximum of both."""
    times.update({name: max(time, times.get(name, NO_TIME)) for name, time in others.items()})

"""Messages of the past in a trial, and the messages of streams that repeat them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.contract.names import covers
from headrace.pipelines._errors import TrialError
from headrace.pipelines.elements.message import NO_TIME, Message
from headrace.pipelines.graph.graph import Graph


@dataclass(frozen=True)
class Past:
    """Where the streams continue.

    Attributes:
        last: The last sequence of each stream, if the messages have sequences.
        until: The event time from which on messages come from the streams, in microseconds since 1970; None without it.
        patterns: The streams that it concerns.
    """

    last: Mapping[str, int] = field(default_factory=dict)
    until: int | None = None
    patterns: tuple[str, ...] = ()

    def contains(self, message: Message) -> bool:
        """Whether the history contains a message of a stream.

        Raises:
            TrialError: It has no event time, so nobody knows.
        """
        if self.until is None:
            return 0 < message.sequence <= self.last.get(message.stream, 0)
        if not any(covers(pattern, message.stream) for pattern in self.patterns):
            return False
        if message.event_time is None:
            raise TrialError(f"send(...): a message of {message.stream} has no event time, so it may be in the history or not")
        return message.event_time < self.until


def in_past(graph: Graph, messages: Sequence[Message], until: int | None) -> tuple[list[Message], tuple[str, ...], Past]:
    """Messages of the past in the order in which an application reads them, the streams that end with them, and their end.

    Raises:
        TrialError: No message is left, or one lacks the event time that orders it.
    """
    inside = [message for message in messages if until is None or _time(message) < until]
    if not inside:
        raise TrialError("history(...): no message is before until" if messages else "history(...): there is no message")
    if all(message.sequence for message in inside):
        by_place = {(message.stream, message.sequence): message for message in reversed(inside)}
        found = [by_place[place] for place in sorted(by_place)]
        last = {message.stream: message.sequence for message in found}
        return found, (), Past(last) if until is None else Past({}, until, tuple(last))
    patterns = {message.stream: _pattern(graph, message.stream) for message in inside}
    end = max(map(_time, inside)) + 1 if until is None else until
    found = [
        replace(message, stream=patterns[message.stream].replace("*", "history"), sequence=0)
        for message in sorted(inside, key=_time)
    ]
    return found, tuple(dict.fromkeys(_streams(found))), Past({}, end, tuple(dict.fromkeys(patterns.values())))


def _pattern(graph: Graph, stream: str) -> str:
    return next(pattern for pattern in graph.streams if covers(pattern, stream))


def _streams(messages: Iterable[Message]) -> Iterable[str]:
    return (message.stream for message in messages)


def _time(message: Message) -> int:
    return NO_TIME if message.event_time is None else message.event_time

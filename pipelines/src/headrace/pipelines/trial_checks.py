"""Checks of what a trial is given and asked for: a test with a wrong name would pass and show nothing."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

from headrace.contract.limits import MAX_SEQUENCE
from headrace.contract.names import covers, is_stream_name
from headrace.pipelines._errors import TrialError
from headrace.pipelines.arguments import excerpt
from headrace.pipelines.elements.headers import Headers, checked
from headrace.pipelines.elements.message import Message
from headrace.pipelines.graph.graph import Graph
from headrace.pipelines.steps.meters import Meter
from headrace.pipelines.steps.step import Counted

V = TypeVar("V")

_FIELDS: dict[str, tuple[type, ...]] = {
    "value": (bytes, type(None)),
    "key": (bytes, type(None)),
    "event_time": (int, type(None)),
    "sequence": (int,),
    "message_id": (str, type(None)),
    "headers": (Headers,),
}
"""The types of the fields of a message, besides its stream."""


class Known(defaultdict[str, list[V]]):
    """Lists by name, for names that a pipeline has."""

    def __init__(self, where: str, kind: str = "sink") -> None:
        super().__init__(list)
        self.where, self.kind = where, kind
        self.names: dict[str, None] = {}

    def __missing__(self, name: str) -> list[V]:
        """Creates the list of a name.

        Raises:
            TrialError: The pipeline lacks it.
        """
        self.check(name)
        return super().__missing__(name)

    def check(self, name: object) -> None:
        """Checks a name.

        Raises:
            TrialError: The pipeline lacks it.
        """
        if not isinstance(name, str) or name not in self.names:
            raise TrialError(f"{self.where} has no {self.kind} {excerpt(name)}; {_those(name, self.names)}")


class Counts(Counter[tuple[str, str]]):
    """Counts by event and step, for the steps of a pipeline that count the event."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        self.names: dict[tuple[str, str], None] = {}

    def __missing__(self, key: tuple[str, str]) -> int:
        """The count of what has not happened.

        Raises:
            TrialError: The pipeline does not count it.
        """
        if key in self.names:
            return 0
        counted = (f"{what}:{step}" for what, step in self.names)
        asked: object = ":".join(map(str, key)) if isinstance(key, tuple) else key
        raise TrialError(f"{self.where} counts no {excerpt(asked)}; {_those(asked, counted)}")


def counted_by(graph: Graph) -> dict[tuple[str, str], None]:
    """The counts that a pipeline can have, by event and step."""
    counted = {(what.value, step): None for what, step in graph.counted}
    at_keys = [graph.steps[number].name for number in sorted(graph.first_keys)]
    of_times = ((what.value, name) for what in (Counted.AHEAD, Counted.BEHIND) for name in at_keys)
    skipped = ((Counted.SKIPPED.value, step.name) for step in graph.steps)
    counted |= {(Counted.REPEATED.value, source.name): None for source in graph.sources.values()}
    return counted | dict.fromkeys(of_times) | dict.fromkeys(skipped)


def check_messages(graph: Graph, messages: Iterable[Any], method: str = "send") -> None:
    """Checks messages that a method takes.

    Raises:
        TrialError: One is no message or has a field of another type, or no source reads its stream.
    """
    for message in messages:
        if not isinstance(message, Message):
            raise TrialError(f"{method}(...): messages are Messages, each an argument of its own, not {excerpt(message)}")
        for field, kinds in _FIELDS.items():
            found = getattr(message, field)
            if not isinstance(found, kinds) or isinstance(found, bool):
                expected = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
                raise TrialError(f"{method}(...): the {field} of a message is {expected}, not {excerpt(found)}")
        try:
            checked(message.headers)
        except (TypeError, UnicodeEncodeError) as error:
            raise TrialError(f"{method}(...): the headers of a message: {error}") from None
        if not 0 <= message.sequence <= MAX_SEQUENCE:
            raise TrialError(f"{method}(...): the sequence of a message is at least 1 and less than 2^63, not {message.sequence}")
    check_streams(graph, method, dict.fromkeys(message.stream for message in messages))


def check_time(method: str, parameter: str, time: object) -> None:
    """Checks an event time.

    Raises:
        TrialError: It is neither None nor a whole number.
    """
    if time is not None and (isinstance(time, bool) or not isinstance(time, int)):
        raise TrialError(
            f"{method}(...): {parameter} is a whole number of microseconds since 1970 UTC, or None, not {excerpt(time)}"
        )


def check_streams(graph: Graph, method: str, streams: Iterable[Any]) -> None:
    """Checks the names of streams.

    Raises:
        TrialError: One is not the name of a stream, or no source reads it.
    """
    for stream in streams:
        if not isinstance(stream, str) or not is_stream_name(stream):
            raise TrialError(f"{method}(...): {excerpt(stream)} is not the name of a stream, such as 'orders/0'")
        if not any(covers(pattern, stream) for pattern in graph.streams):
            raise TrialError(
                f"{method}(...): no source of pipeline {graph.name} reads stream {stream}; it reads {', '.join(graph.streams)}"
            )


def check_names(parameter: str, names: Any) -> None:
    """Checks a list of the names of steps.

    Raises:
        TrialError: It is one text, or not a list of texts.
    """
    if isinstance(names, str) or not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
        raise TrialError(f"restart(...): {parameter} is a list of the names of steps, not {excerpt(names)}")


def no_states(graph: Graph, step: object) -> TrialError:
    """Returns the error for a step without states."""
    name = step if isinstance(step, str) else excerpt(step)
    keyed = [keyed.name for keyed in graph.keyed]
    return TrialError(f"pipeline {graph.name} has no step {name} that keeps states; {_those(step, keyed)}")


def meter_named(graph: Graph, kind: str, name: object, value: object) -> Meter:
    """Returns a counter or histogram of a pipeline.

    Raises:
        TrialError: There is none of this name, or it has no such value.
    """
    meters = {meter.name: meter for meter in graph.meters if meter.label == kind}
    if not isinstance(name, str) or name not in meters:
        raise TrialError(f"pipeline {graph.name} has no {kind} {excerpt(name)}; {_those(name, meters)}")
    if value not in meters[name].labels:
        raise TrialError(f"{kind} {name} has no value {excerpt(value)}; {_those(value, meters[name].labels)}")
    return meters[name]


def _those(name: object, choices: Iterable[str]) -> str:
    """What there is instead, and what was probably meant."""
    names: Collection[str] = list(choices)
    if not names:
        return "there are none"
    close = get_close_matches(name, names, 1) if isinstance(name, str) else []
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}"

"""The steps that keep no state."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.pipelines._elements import Elements, Key
from headrace.pipelines._fingerprints import named
from headrace.pipelines._keys import keyed
from headrace.pipelines._origin import NO_TIME
from headrace.pipelines._rows import ArrowColumn, MessageRows, Rows
from headrace.pipelines._step import Run, Step, each
from headrace.pipelines._time import event_time

if TYPE_CHECKING:
    import pyarrow as pa


_PAYLOADS = {bytes, type(None)}


@dataclass(frozen=True, eq=False)
class Source(Step):
    """Messages of streams, decoded.

    Attributes:
        streams: Patterns of their names.
        decode: Makes a value of a payload; what it returns None for goes no further. None where steps take whole messages.
        idle_after: After how much event time without an element a stream is idle, in microseconds; None for never.
        max_ahead: How far ahead of the present an event time may lie that brings the watermark forward, in microseconds.
    """

    streams: tuple[str, ...]
    decode: Callable[[bytes], Any] | None
    idle_after: int | None = None
    max_ahead: int | None = None

    def apply(self, elements: Elements, run: Run) -> Elements:
        """Decodes elements whose values are payloads."""
        if self.decode is None:
            return replace(elements, values=MessageRows(elements.origin, elements.places()))
        values, kept = each(self, self.decode, elements, run)
        return _without_none(values, kept)

    @property
    def label(self) -> str:
        """Its streams."""
        return f"source {', '.join(self.streams)}"


@dataclass(frozen=True, eq=False)
class Map(Step):
    """One value out for each, or none."""

    function: Callable[[Any], Any]

    def apply(self, elements: Elements, run: Run) -> Elements:
        """What the function returns; None goes no further."""
        values, kept = each(self, self.function, elements, run)
        return replace(_without_none(values, kept), decoded_by=None)


@dataclass(frozen=True, eq=False)
class FlatMap(Step):
    """Any number of values out for each."""

    function: Callable[[Any], Iterable[Any]]

    def apply(self, elements: Elements, run: Run) -> Elements:
        """All that the function yields."""
        many, kept = each(self, lambda value: list(self.function(value)), elements, run)
        indices = [index for index, results in enumerate(many) for _ in results]
        return kept.changed([result for results in many for result in results], indices)

    @property
    def label(self) -> str:
        """How users call it."""
        return "flat_map"


@dataclass(frozen=True, eq=False)
class Filter(Step):
    """Only values for which a function is true."""

    function: Callable[[Any], bool]

    def apply(self, elements: Elements, run: Run) -> Elements:
        """The elements that pass."""
        passed, kept = each(self, self.function, elements, run)
        return kept if all(passed) else kept.pick([index for index, passes in enumerate(passed) if passes])


@dataclass(frozen=True, eq=False)
class EventTime(Step):
    """Says when each value happened."""

    function: Callable[[Any], datetime | int | None]

    def apply(self, elements: Elements, run: Run) -> Elements:
        """The same elements with these times."""
        times, kept = each(self, lambda value: _time(self.function(value)), elements, run)
        return replace(kept, times=np.array(times, np.int64))

    @property
    def label(self) -> str:
        """How users call it."""
        return "event_time"


@dataclass(frozen=True, eq=False)
class Merge(Step):
    """Several flows in one."""

    def apply(self, elements: Elements, run: Run) -> Elements:
        """All of them."""
        return elements


@dataclass(frozen=True, eq=False)
class KeyBy(Step):
    """Says which key each value belongs to, and brings those of a key together.

    Attributes:
        function: The key of a value; None for the key of its message.
    """

    function: Callable[[Any], Key] | None

    def apply(self, elements: Elements, run: Run) -> Elements:
        """The same elements with their keys."""
        if self.function is None:
            own = elements.origin.keys
            assert own is not None, "blocks of such a flow carry keys"
            return replace(elements, keys=[own[place] or b"" for place in elements.places()])
        keys, kept = each(self, self.function, elements, run)
        return keyed(self, keys, kept, run)

    @property
    def by(self) -> str:
        """What it keys by, for people, and to notice that it has changed."""
        return "keys of messages" if self.function is None else named(self.function)

    @property
    def label(self) -> str:
        """How users call it."""
        return "key_by"


@dataclass(frozen=True, eq=False)
class Sink(Step):
    """Hands values to a sink.

    Attributes:
        sink: Its name at the gateway.
        encode: Makes a payload of a value.
    """

    sink: str
    encode: Callable[[Any], bytes]

    def apply(self, elements: Elements, run: Run) -> Elements:
        """Elements whose values are payloads."""
        if isinstance(elements.values, Rows) and self.encode is to_bytes:
            return self._column(elements, elements.values.batch)
        values, kept = each(self, self.encode, elements, run)
        if set(map(type, values)) <= _PAYLOADS:
            return replace(kept, values=values, decoded_by=None)
        there = list[int]()
        for index, value in enumerate(values):
            if value is None or isinstance(value, bytes):
                there.append(index)
            else:
                made = type(value).__name__
                run.failed(self, kept, index, TypeError(f"encode returned a value of type {made}, and a payload is bytes"))
        return replace(kept.pick(there), values=[values[index] for index in there], decoded_by=None)

    def _column(self, elements: Elements, batch: "pa.RecordBatch") -> Elements:
        if "value" not in batch.schema.names:
            raise TypeError(f"sink {self.sink} needs a column named value, or an encode function; there are {batch.schema.names}")
        return replace(elements, values=ArrowColumn(batch.column("value")), decoded_by=None)

    @property
    def label(self) -> str:
        """Its sink."""
        return f"sink {self.sink}"


def to_bytes(value: Any) -> bytes:
    """The payload of a value that is one already: bytes as they are, text in UTF-8.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"cannot write a value of type {type(value).__name__}: give the sink an encode function")


def _without_none(values: list[Any], elements: Elements) -> Elements:
    there = [index for index, value in enumerate(values) if value is not None]
    if len(there) == len(values):
        return replace(elements, values=values)
    return replace(elements.pick(there), values=[values[index] for index in there])


def _time(time: datetime | int | None) -> int:
    return NO_TIME if time is None else event_time(time)

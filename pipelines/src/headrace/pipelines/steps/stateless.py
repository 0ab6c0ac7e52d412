"""The steps without state."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.contract.names import covers
from headrace.pipelines.elements.elements import Elements, Key
from headrace.pipelines.elements.message import NO_TIME, Times
from headrace.pipelines.elements.rows import MessageRows, Rows, payloads
from headrace.pipelines.formats import EVERY, Decoder, Judge
from headrace.pipelines.steps.contract_check import judged
from headrace.pipelines.steps.fingerprints import name_of
from headrace.pipelines.steps.keys import keyed
from headrace.pipelines.steps.returned import spread
from headrace.pipelines.steps.step import Step, StepPass, each
from headrace.pipelines.time.time import TimeUnit, event_time, likely_unit

if TYPE_CHECKING:
    import pyarrow as pa


log = logging.getLogger("headrace.pipelines")

_PAYLOADS = {bytes, type(None)}


@dataclass(frozen=True, eq=False)
class Source(Step):
    """Decodes the messages of streams.

    Attributes:
        streams: Patterns of stream names.
        decode: Returns the value of a payload, or None to drop it. None if the values are whole messages.
        idle_after: The event time without an element after which a stream is idle, in microseconds; None for never.
        max_ahead: How far ahead of the present an event time may be and advance the watermark, in microseconds; None for no
            limit.
        await_streams: The number of streams without which event time does not begin; None for any.
        await_time: The time after the first micro-batch at which event time begins in any case, in microseconds; None for never.
        bootstrap: Whether it is read to its present end before the streams that meet it.
    """

    streams: tuple[str, ...]
    decode: Callable[[bytes], Any] | None
    idle_after: int | None = None
    max_ahead: int | None = None
    await_streams: int | None = None
    await_time: int | None = None
    judges: Mapping[str, Judge] = field(default_factory=dict)
    """What reads the payloads of streams under a contract, by pattern. The first one that matches does."""
    bootstrap: bool = False

    @property
    def contracts(self) -> Mapping[str, Judge]:
        """The contracts by the name of their counts: the step's, and the pattern of streams if there is more than one."""
        return {f"{self.name} {self._part(pattern)}".rstrip(): judge for pattern, judge in self.judges.items()}

    def _part(self, pattern: str) -> str:
        return "" if list(self.judges) == [EVERY] else pattern

    @property
    def awaits(self) -> bool:
        """Whether event time waits for streams, or for what they have, before it begins."""
        return self.bootstrap or self.await_streams is not None or self.await_time is not None

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """Decodes elements whose values are payloads."""
        if self.decode is None:
            return replace(elements, values=MessageRows(elements.origin, elements.places()))
        for pattern, judge in self.judges.items():
            if covers(pattern, elements.origin.stream):
                return without_none(*judged(self, judge, self._part(pattern), elements, step_pass))
        values = self.decode.at_once(elements.values) if isinstance(self.decode, Decoder) else None
        if values is not None:
            return without_none(values, elements)
        return without_none(*each(self, self.decode, elements, step_pass))

    @property
    def label(self) -> str:
        """The kind, with its streams."""
        return f"source {', '.join(self.streams)}"


@dataclass(frozen=True, eq=False)
class Map(Step):
    """One result for each value, or none."""

    function: Callable[[Any], Any]

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The results of the function, without None."""
        values, kept = each(self, self.function, elements, step_pass)
        return replace(without_none(values, kept), decoded_by=None)


@dataclass(frozen=True, eq=False)
class FlatMap(Step):
    """Any number of results for each value."""

    function: Callable[[Any], Iterable[Any]]

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """All results that the function yields."""
        many, kept = each(self, lambda value: spread(self.function(value)), elements, step_pass)
        indices = [index for index, results in enumerate(many) for _ in results]
        return kept.changed([result for results in many for result in results], indices)

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "flat_map"


@dataclass(frozen=True, eq=False)
class Filter(Step):
    """The values for which a function returns true."""

    function: Callable[[Any], bool]

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The elements for which the function returns true."""
        passed, kept = each(self, self.function, elements, step_pass)
        if set(map(type, passed)) <= {bool} and all(passed):
            return kept
        there = list[int]()
        for index, passes in enumerate(passed):
            try:
                if passes:
                    there.append(index)
            except BaseException as error:  # for instance an array, which is neither true nor false
                step_pass.failed(self, kept, index, error)
        return kept.pick(there)


@dataclass(frozen=True, eq=False)
class EventTime(Step):
    """Assigns event times.

    Attributes:
        function: Returns the time of a value.
        unit: The unit of numbers that it returns; None for microseconds.
    """

    function: Callable[[Any], datetime | float | None]
    unit: TimeUnit | None = None
    _warned: list[TimeUnit] = field(default_factory=list)
    """The unit that it was warned of, once."""

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The same elements with these times."""
        found, kept = each(self, lambda value: _time(self.function(value), self.unit), elements, step_pass)
        times = np.array(found, np.int64)
        if self.unit is None and not self._warned:
            self._warn(times)
        return replace(kept, times=times)

    def _warn(self, times: Times) -> None:
        """Warns once of numbers that were hardly meant as microseconds. Time in 1970 is not an error: tests use it."""
        unit = likely_unit(times)
        if unit is not None:
            self._warned.append(unit)
            what = "event times such as %d are early in 1970: if step %s returns %s, pass unit=TimeUnit.%s to event_time"
            log.warning(what, times[times != NO_TIME][0], self.name, unit.name.lower(), unit.name)

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "event_time"


@dataclass(frozen=True, eq=False)
class Merge(Step):
    """Merges several flows."""

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The same elements."""
        return elements

    @property
    def calls_function(self) -> bool:
        """False."""
        return False


@dataclass(frozen=True, eq=False)
class KeyBy(Step):
    """Partitions values by key.

    Attributes:
        function: Returns the key of a value; None for the key of its message.
    """

    function: Callable[[Any], Key] | None

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The same elements with their keys."""
        if self.function is None:
            own = elements.origin.keys
            assert own is not None, "messages have keys"
            keys = list(own) if elements.at is None else [own[place] for place in elements.at]
            return replace(elements, keys=[key or b"" for key in keys] if None in keys else keys)
        keys, kept = each(self, self.function, elements, step_pass)
        return keyed(self, keys, kept, step_pass)

    @property
    def calls_function(self) -> bool:
        """Whether a function returns the keys."""
        return self.function is not None

    @property
    def is_for_every_bucket(self) -> bool:
        """Whether each bucket gets all values."""
        return False

    @property
    def by(self) -> str:
        """A description of the key, for the fingerprint."""
        return "keys of messages" if self.function is None else name_of(self.function)

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "key_by"


@dataclass(frozen=True, eq=False)
class Sink(Step):
    """Writes values to a sink.

    Attributes:
        sink: The name of the sink.
        encode: Returns the payload of a value.
    """

    sink: str
    encode: Callable[[Any], bytes]

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The elements with payloads as values."""
        if isinstance(elements.values, Rows) and self.encode is to_bytes:
            return self._column(elements, elements.values.batch, step_pass)
        if self.encode is to_bytes and (plain := _plain_payloads(elements.values)) is not None:
            return replace(elements, values=plain, decoded_by=None)
        values, kept = each(self, self.encode, elements, step_pass)
        if set(map(type, values)) <= _PAYLOADS:
            return replace(kept, values=values, decoded_by=None)
        there = list[int]()
        for index, value in enumerate(values):
            if value is None or isinstance(value, bytes):
                there.append(index)
            else:
                made = type(value).__name__
                step_pass.failed(self, kept, index, TypeError(f"encode returned a value of type {made}; a payload must be bytes"))
        return replace(kept.pick(there), values=[values[index] for index in there], decoded_by=None)

    def _column(self, elements: Elements, batch: "pa.RecordBatch", step_pass: StepPass) -> Elements:
        try:
            if "value" not in batch.schema.names:
                raise TypeError(f"the sink needs a column named value, or an encode function; there are {batch.schema.names}")
            return replace(elements, values=payloads(batch.column("value")), decoded_by=None)
        except TypeError as error:
            for index in range(len(elements)):
                step_pass.failed(self, elements, index, error)
            return elements.pick([])

    @property
    def label(self) -> str:
        """The kind, with its sink."""
        return f"sink {self.sink}"


def to_bytes(value: Any) -> bytes:
    """The default payload of a value: bytes as they are, text in UTF-8.

    Raises:
        TypeError: The value is of another type.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"cannot write a value of type {type(value).__name__}: pass an encode function to the sink")


def _plain_payloads(values: Sequence[Any]) -> Sequence[bytes] | None:
    """Encodes values that are all bytes, or all text of valid Unicode; returns None if they are not."""
    kinds = set(map(type, values))
    if kinds == {str}:
        with suppress(UnicodeEncodeError):
            return list(map(str.encode, values))
    return values if kinds == {bytes} else None


def without_none(values: list[Any], elements: Elements) -> Elements:
    """The elements with these values, without elements whose value is None."""
    if NoneType not in set(map(type, values)):
        return replace(elements, values=values)
    there = [index for index, value in enumerate(values) if value is not None]
    return replace(elements.pick(there), values=[values[index] for index in there])


def _time(time: datetime | float | None, unit: TimeUnit | None) -> int:
    return NO_TIME if time is None else event_time(time, unit)

"""Ring buffers of numbers: the values of many parts at the same moments."""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from headrace.contract import clock

ABSENT = math.nan
"""A value that there is not."""
_VALUE_BYTES = array("f").itemsize
_Field = TypeVar("_Field", bound=str)


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one part.

    Attributes:
        times: When they were taken, oldest first, in seconds since 1970.
        values: By field, as many as `times`; NaN where there is none.
    """

    times: Sequence[float]
    values: Mapping[str, Sequence[float]]


@dataclass(slots=True, eq=False)
class _Part:
    """One part: a ring for each of its fields, one after the other in the same array."""

    fields: tuple[str, ...]
    rings: "array[float]"
    present_at: int
    """The last moment at which it was there."""


class Rings:
    """The values of parts at the last moments. All parts share the moments; one that is away has no values then.

    A part is forgotten once it has been away at all moments, or if another one needs its room: the one that has been away for the
    longest time. One for which there is no room has no values.

    Args:
        moments: How many moments are kept.
        max_bytes: How much memory the values may take.
    """

    def __init__(self, moments: int, max_bytes: int) -> None:
        # One more, which is written while the others are read.
        self._slots = moments + 1
        self._max_values = max_bytes // _VALUE_BYTES
        self._times = array("d", [0.0]) * self._slots
        self._parts: dict[tuple[str, str], _Part] = {}
        self._values = 0
        self._away: dict[tuple[str, str], None] = {}
        """Parts that were not there at the last moment, the one that has been away for the longest time first."""
        self._done = 0
        """How many moments are complete; the next one has this number."""

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def size_bytes(self) -> int:
        """How much memory the values take."""
        return self._values * _VALUE_BYTES

    def put(self, kind: str, name: str, values: Mapping[_Field, float]) -> bool:
        """Writes the values of a part at the moment that is not complete yet; returns whether there was room.

        Args:
            kind: Its kind.
            name: Its name.
            values: By field; always the same fields for a kind, in the same order.
        """
        key = kind, name
        part = self._parts.get(key) or self._new(key, tuple(values))
        if part is None:
            return False
        part.present_at = self._done
        self._away.pop(key, None)
        at = self._done % self._slots
        for ring, value in enumerate(values.values()):
            part.rings[ring * self._slots + at] = value
        return True

    def complete(self) -> None:
        """Completes the moment: readers see it from now on."""
        at = self._done % self._slots
        self._times[at] = clock.monotonic()
        for key, part in list(self._parts.items()):
            if part.present_at == self._done:
                continue
            if self._done - part.present_at >= self._slots - 1:
                self._forget(key)
                continue
            self._away.setdefault(key)
            for ring in range(len(part.fields)):
                part.rings[ring * self._slots + at] = ABSENT
        self._done += 1

    def read(self, kind: str, name: str, seconds: float) -> Series | None:
        """Returns the values of a part in the last seconds; None if there are none of such a part."""
        part = self._parts.get((kind, name))
        if part is None:
            return None
        now, wall = clock.monotonic(), clock.now()
        kept = range(max(0, self._done - self._slots + 1), self._done)
        slots = [number % self._slots for number in kept if now - self._times[number % self._slots] <= seconds]
        values = {field: [part.rings[ring * self._slots + slot] for slot in slots] for ring, field in enumerate(part.fields)}
        return Series([wall - (now - self._times[slot]) for slot in slots], values)

    def _new(self, key: tuple[str, str], fields: tuple[str, ...]) -> _Part | None:
        size = len(fields) * self._slots
        while self._values + size > self._max_values:
            if not self._away:
                return None
            self._forget(next(iter(self._away)))
        self._values += size
        part = self._parts[key] = _Part(fields, array("f", [ABSENT]) * size, self._done)
        return part

    def _forget(self, key: tuple[str, str]) -> None:
        part = self._parts.pop(key)
        self._values -= len(part.rings)
        self._away.pop(key, None)

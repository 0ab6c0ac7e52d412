"""Records which function is called with which message, where others can read it, even after the process has died.

A function may end its process, crash it, or not return. The record is text in memory that a file or another thread shares. Before
each call, the sequence is written with one assignment of eight digits, so that it costs little.
"""

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.steps.step import Cell

RECORD_BYTES = 512
"""The size of the memory for a record."""
_DIGITS = 8
_MODULUS = 10**_DIGITS
_NAMES_BYTES = RECORD_BYTES - 64
"""The most that pipeline, step and stream take; the rest is for sequences."""
_FEW = 16
"""So few sequences are formatted one by one."""
_FOUR = np.array([int.from_bytes(b"%04d" % number, "little") for number in range(10_000)], np.uint64)
"""Each number of four digits as their bytes, of which the first one is the lowest."""
_SIZES = 10 ** np.arange(1, _DIGITS, dtype=np.int64)
_SHIFTS = np.arange(_DIGITS - 1, -1, -1, dtype=np.uint64) * np.uint64(8)
_BLANKS = np.array([int.from_bytes(bytes(size) + b" " * (_DIGITS - size), "little") for size in range(1, _DIGITS + 1)], np.uint64)
"""By the number of digits before them."""


@dataclass(frozen=True)
class _Notes:
    """The row for the messages of elements.

    Attributes:
        leading: The digits that all sequences begin with.
        notes: The other digits of each, as a word; or the sequences themselves.
        are_words: Whether they are words.
    """

    leading: str
    notes: Sequence[int]
    are_words: bool


class CallRecord:
    """What one thread is doing: nothing, or a step with a message. Without memory, nothing is recorded."""

    def __init__(self) -> None:
        self._memory: Any = None
        self._names: dict[tuple[str, str, str], bytes] = {}
        self._noted: tuple[Any, Any, _Notes] | None = None
        """The notes of the last elements, with what they were made of: the next step often has elements of the same messages."""

    def keep_in(self, memory: Any) -> None:
        """Records in this memory from now on: a `bytearray` or an `mmap` of RECORD_BYTES. None to record nothing."""
        self._memory = memory
        if memory is not None:
            self.end()

    def begin(self, pipeline: str, step: str, elements: Elements) -> None:
        """Records that a step processes elements."""
        if self._memory is None or not len(elements):
            return
        sequences = elements.origin.sequences
        first, last = (int(sequences[elements.place(index)]) for index in (0, len(elements) - 1))
        numbers = f"sequence {first}" if first == last else f"sequences {first} to {last}"
        self._write(self._of(pipeline, step, elements.origin.stream) + numbers.encode())

    def begin_due(self, pipeline: str, step: str) -> None:
        """Records that a step fires timers and windows that are due."""
        if self._memory is not None:
            self._write(self._of(pipeline, step, "") + b"timers and windows that are due")

    def notes(self, pipeline: str, step: str, elements: Elements) -> tuple[Cell, Sequence[int]]:
        """Where to write, and what, before the call with each of the elements."""
        if self._memory is None or not len(elements):
            return [0], range(len(elements))
        found = self._notes_of(elements)
        text = self._of(pipeline, step, elements.origin.stream) + b"sequence " + found.leading.encode()
        self._write(text)
        if not found.are_words:
            return _SequenceCell(self._memory, len(text)), found.notes
        return memoryview(self._memory)[len(text) : len(text) + _DIGITS].cast("Q"), found.notes

    def end(self) -> None:
        """Records that nothing is processed."""
        if self._memory is not None:
            self._write(b"")

    def _notes_of(self, elements: Elements) -> _Notes:
        last = self._noted
        if last is not None and last[0] is elements.origin and last[1] is elements.at and len(last[2].notes) == len(elements):
            return last[2]
        sequences = np.asarray(elements.origin.sequences, np.int64)
        notes = _notes(sequences[: len(elements)] if elements.at is None else sequences[np.asarray(elements.at, np.int64)])
        self._noted = elements.origin, elements.at, notes
        return notes

    def _of(self, pipeline: str, step: str, stream: str) -> bytes:
        at = pipeline, step, stream
        found = self._names.get(at)
        if found is None:
            text = f"pipeline {pipeline}, step {step}, " + (f"stream {stream}, " if stream else "")
            cut = text.encode(errors="backslashreplace")[:_NAMES_BYTES].decode(errors="ignore").encode()
            if len(self._names) > 10_000:
                self._names.clear()
            found = self._names[at] = cut
        return found

    def _write(self, text: bytes) -> None:
        self._memory[:RECORD_BYTES] = text.ljust(RECORD_BYTES - 1) + b"\n"


class _SequenceCell:
    """Writes whole sequences, which takes longer."""

    def __init__(self, memory: Any, at: int) -> None:
        self._memory, self._at = memory, at

    def __setitem__(self, index: int, sequence: int, /) -> None:
        self._memory[self._at : self._at + 20] = b"%-20d" % sequence


def _notes(sequences: npt.NDArray[np.int64]) -> _Notes:
    leading = sequences // _MODULUS
    first = int(leading[0])
    if (leading != first).any():
        return _Notes("", sequences.tolist(), are_words=False)
    return _Notes(str(first) if first else "", _words(sequences % _MODULUS, has_zeros=bool(first)), are_words=True)


def _words(numbers: npt.NDArray[np.int64], *, has_zeros: bool) -> list[int]:
    """Each number as a word whose bytes are its digits, with zeros before or blanks behind them."""
    if len(numbers) < _FEW:
        form = b"%08d" if has_zeros else b"%-8d"
        return [int.from_bytes(form % number, sys.byteorder) for number in numbers.tolist()]
    found = _FOUR[numbers // 10_000] | _FOUR[numbers % 10_000] << np.uint64(32)
    if not has_zeros:
        sizes = np.searchsorted(_SIZES, numbers, side="right")
        found = found >> _SHIFTS[sizes] | _BLANKS[sizes]
    words: list[int] = (found if sys.byteorder == "little" else found.byteswap()).tolist()
    return words


_of_thread = threading.local()


def call_record() -> CallRecord:
    """The record of this thread."""
    found: CallRecord | None = getattr(_of_thread, "record", None)
    if found is None:
        found = _of_thread.record = CallRecord()
    return found

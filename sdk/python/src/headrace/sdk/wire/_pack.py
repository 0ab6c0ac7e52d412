"""Packs messages and batches into columns, without a Python loop over messages where possible. Pure functions."""

import contextlib
from array import array
from collections.abc import Iterable, Sequence, Sized
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby, pairwise
from operator import sub
from types import NoneType
from typing import TypeGuard, cast

from headrace.contract.columns import MAX_DELTA, NULL_TIME, time_outside
from headrace.contract.columns import NULL_LENGTH as NULL
from headrace.contract.counts import counted
from headrace.contract.limits import MAX_SEQUENCE
from headrace.sdk._errors import InvalidMessage
from headrace.sdk.wire._columns import Column, Columns, any_given, join, little_endian
from headrace.sdk.wire._message import Batch, Headers, Message, Packed, Steps
from headrace.sdk.wire._messages import Messages

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def pack(items: Sequence[Message | Messages | Batch], next_sequence: int, last: int | None) -> Columns | None:
    """Packs what a source yielded into one block of columns; returns None if it contains no message.

    Args:
        items: Messages, by themselves or gathered, and batches, in order.
        next_sequence: The sequence of the first message, unless it sets one itself.
        last: The sequence of the message before, which all of these must exceed; None if there is none.

    Raises:
        InvalidMessage: An item cannot be packed, or sequences do not increase.
    """
    parts: list[Columns] = []
    for part in _parts(items, next_sequence):
        if last is not None and part.first <= last:
            raise InvalidMessage(f"sequence {part.first} follows {last}: sequences must increase strictly")
        last = part.last
        if part.first < 0 or last > MAX_SEQUENCE:
            raise InvalidMessage(f"sequences {part.first} to {last} are not within 0 to 2**63 - 1")
        parts.append(part)
    return join(parts) if parts else None


def _parts(items: Sequence[Message | Messages | Batch], next_sequence: int) -> Iterable[Columns]:
    """Packs each batch, and each run of messages between batches. A cursor without messages goes with the part before it."""
    part: Columns | None = None
    for item in _with_runs(items):
        if len(item):
            if part is not None:
                yield part
            part = pack_messages(item, next_sequence) if isinstance(item, Messages) else pack_batch(item, next_sequence)
            next_sequence = part.last + 1
        elif part is not None and (cursor := lone_cursor(item)) is not None:
            part = replace(part, cursors=[*part.cursors, (part.count, cursor)])
    if part is not None:
        yield part


def lone_cursor(item: Message | Messages | Batch) -> bytes | None:
    """Returns the cursor of a batch that has nothing else; otherwise None."""
    return item.cursor if isinstance(item, Batch) and not len(item) else None


def _with_runs(items: Sequence[Message | Messages | Batch]) -> Iterable[Messages | Batch]:
    """Gathers messages that are by themselves."""
    for is_alone, some in groupby(items, lambda item: isinstance(item, Message)):
        if is_alone:
            yield Messages.of(cast("Iterable[Message]", some))
        else:
            yield from cast("Iterable[Messages | Batch]", some)


def pack_batch(batch: Batch, next_sequence: int) -> Columns:
    """Packs a batch. Its sequences begin at `next_sequence`, unless it sets them itself.

    Raises:
        InvalidMessage: Columns differ in length or have a wrong type, or sequences do not increase.
    """
    values = _column(batch.values, "values")
    count = len(values.lengths)
    first, deltas = _sequences(batch.sequences, count, next_sequence)
    counts, names, header_values = _headers(batch.headers)
    columns = Columns(
        count=count,
        first=first,
        deltas=deltas,
        values=values,
        keys=None if batch.keys is None else _column(batch.keys, "keys"),
        event_times=_times(batch.event_times),
        message_ids=_ids(batch.message_ids),
        header_counts=counts,
        header_names=names,
        header_values=header_values,
        cursors=[] if batch.cursor is None else [(count, batch.cursor)],
        tokens=batch.tokens or (),
    )
    _check_counts(columns, batch)
    return columns


def pack_messages(messages: Messages, next_sequence: int) -> Columns:
    """Packs messages. One without a sequence follows the message before it; the first gets `next_sequence`.

    Raises:
        InvalidMessage: A field has a wrong type, or sequences do not increase.
    """
    count = len(messages)
    first, deltas = _sequences(_counted(messages.sequences, next_sequence), count, next_sequence)
    keys = messages.keys
    columns = Columns(
        count=count,
        first=first,
        deltas=deltas,
        values=_column(messages.values, "value"),
        keys=_column(keys, "key") if any_given(keys) else None,
    )
    further = messages.further
    return _with_further(columns, further) if any_given(further) else columns


def _with_further(columns: Columns, messages: Sequence[Message | None]) -> Columns:
    """Adds what some messages have besides value, key and sequence; the others are None."""
    times = [None if m is None else m.event_time for m in messages]
    ids = [None if m is None else m.message_id for m in messages]
    headers = [None if m is None else m.headers for m in messages]
    tokens = [None if m is None else m.token for m in messages]
    cursors = [(at, m.cursor) for at, m in enumerate(messages, 1) if m is not None and m.cursor is not None]
    counts, names, header_values = _headers(headers if any(headers) else None)
    return replace(
        columns,
        event_times=_times(times) if any_given(times) else None,
        message_ids=_ids(ids) if any_given(ids) else None,
        header_counts=counts,
        header_names=names,
        header_values=header_values,
        cursors=cursors,
        tokens=tokens if any_given(tokens) else (),
    )


def _column(values: Sequence[bytes | None] | Packed, name: str) -> Column:
    """Joins byte strings, or checks a packed column.

    Raises:
        InvalidMessage: An entry is not bytes, or packed lengths are inconsistent.
    """
    if isinstance(values, Packed):
        column = Column(values.data, values.lengths)
        if column.lengths.typecode != "I" or sum(column.lengths) - NULL * column.lengths.count(NULL) != len(column.data):
            raise InvalidMessage(f"packed {name}: lengths must be array('I') and add up to the {len(column.data)} bytes of data")
        return column
    with contextlib.suppress(TypeError):
        # Without nulls, which is common, no Python code runs for each entry.
        return Column(b"".join(values), array("I", map(len, values)))  # type: ignore[arg-type]
    try:
        present = [value for value in values if value is not None]
        return Column(b"".join(present), array("I", [NULL if value is None else len(value) for value in values]))
    except (TypeError, OverflowError) as error:
        raise InvalidMessage(f"{name} must be bytes or None: {error}") from error


def _ids(ids: Sequence[str | None] | Packed | None) -> Column | None:
    """Encodes message ids."""
    if ids is None:
        return None
    try:
        if isinstance(ids, Packed):
            return _checked_text(_column(ids, "message_ids"))
        return _column([None if i is None else i.encode() for i in ids], "message_ids")
    except (AttributeError, UnicodeError) as error:
        raise InvalidMessage(f"message ids must be str or None: {error}") from error


def _checked_text(column: Column) -> Column:
    """Returns a packed column after checking that each entry is UTF-8; raises UnicodeDecodeError otherwise."""
    if not column.data.isascii():
        for start, end in pairwise(column.ends):
            column.data[start:end].decode()
    return column


def _times(times: "Sequence[int | datetime | None] | array[int] | None") -> "array[int] | None":
    """Packs event times.

    Raises:
        InvalidMessage: One has a wrong type, or is outside the years 1 to 9999.
    """
    if times is None:
        return None
    try:
        packed = _packed_times(times)
    except (TypeError, OverflowError) as error:
        raise InvalidMessage(f"event times must be microseconds as int, aware datetimes, or None: {error}") from error
    if (at := time_outside(little_endian(packed))) is not None:
        raise InvalidMessage(
            f"event time {packed[at]} is not within the years 1 to 9999: it is in microseconds since 1970-01-01 UTC"
        )
    return packed


def _packed_times(times: "Sequence[int | datetime | None] | array[int]") -> "array[int]":
    """Packs event times as they are."""
    if isinstance(times, array):
        if times.typecode != "q":
            raise InvalidMessage(f"event times must be array('q') of microseconds, not array('{times.typecode}')")
        return times
    return array("q", times) if _all_int(times) else array("q", map(_microseconds, times))


def _all_int(times: Sequence[object]) -> TypeGuard[Sequence[int]]:
    """Returns whether every entry is exactly an int; runs in C."""
    return set(map(type, times)) <= {int}


def _microseconds(time: int | datetime | None) -> int:
    """One event time in microseconds since 1970-01-01 UTC."""
    if time is None:
        return NULL_TIME
    if isinstance(time, bool):
        raise TypeError(f"not {time}")
    return (time - _EPOCH) // _MICROSECOND if isinstance(time, datetime) else time


def _headers(headers: Sequence[Headers | None] | None) -> "tuple[array[int] | None, Column | None, Column | None]":
    """Packs headers into counts, names and values."""
    if headers is None:
        return None, None, None
    try:
        counts = array("I", [len(h) if h else 0 for h in headers])
        pairs = list(chain.from_iterable(h for h in headers if h))
        names = _column([name.encode() for name, _ in pairs], "header names")
        values = [value.encode() if isinstance(value, str) else value for _, value in pairs]
        return counts, names, _column(values, "header values")
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidMessage(f"headers must be pairs of a str, and bytes, str or None: {error}") from error


def _counted(sequences: list[int | None], next_sequence: int) -> Sequence[int] | None:
    """Fills in missing sequences by counting; returns None if all are missing."""
    kinds = set(map(type, sequences))
    if kinds == {NoneType}:
        return None
    if kinds == {int}:
        given = cast("list[int]", sequences)
        # Sequences without gaps are common, and compared faster than subtracted.
        without_gaps = range(given[0], given[0] + len(given))
        return without_gaps if given == list(without_gaps) else given
    filled_in = []
    for sequence in sequences:
        if not isinstance(sequence, int | None):
            raise InvalidMessage("sequences must be int")
        next_sequence = next_sequence if sequence is None else sequence
        filled_in.append(next_sequence)
        next_sequence += 1
    return filled_in


def _sequences(sequences: Sequence[int] | Steps | None, count: int, next_sequence: int) -> "tuple[int, array[int]]":
    """Returns the first sequence, and the deltas; these are empty if all are 1."""
    none: array[int] = array("I")
    if sequences is None:
        return next_sequence, none
    if isinstance(sequences, Steps):
        first, deltas = sequences.first, sequences.deltas
        if len(deltas) != count - 1 or deltas.typecode != "I":
            raise InvalidMessage(
                f"sequences: array('I') of {count - 1} deltas for {counted(count, 'message')}, found {len(deltas)}"
            )
    elif len(sequences) != count:
        raise InvalidMessage(f"sequences: {len(sequences)} for {counted(count, 'message')}")
    elif count == 0:
        return next_sequence, none
    else:
        first = sequences[0]
        if isinstance(sequences, range) and sequences.step == 1:
            return first, none
        if not _all_int(sequences):
            raise InvalidMessage("sequences must be int")
        deltas = _deltas(sequences)
    if deltas and min(deltas) < 1:
        raise InvalidMessage("sequences must increase strictly from message to message: two are equal")
    return first, none if not deltas or max(deltas) == 1 else deltas


def _deltas(sequences: Sequence[int]) -> "array[int]":
    """Returns the differences between consecutive sequences."""
    try:
        deltas: array[int] = array("Q", map(sub, sequences[1:], sequences))
    except (TypeError, OverflowError) as error:
        raise InvalidMessage(f"sequences must be int and increase strictly from message to message: {error}") from error
    return deltas if deltas and max(deltas) > MAX_DELTA else array("I", deltas)


def _check_counts(columns: Columns, batch: Batch) -> None:
    """Checks that every column of a batch has one entry for each message; raises InvalidMessage otherwise."""
    lengths: dict[str, Sized | None] = {
        "keys": None if columns.keys is None else columns.keys.lengths,
        "event_times": columns.event_times,
        "message_ids": None if columns.message_ids is None else columns.message_ids.lengths,
        "headers": columns.header_counts,
        "tokens": batch.tokens,
    }
    for name, column in lengths.items():
        if column is not None and len(column) != columns.count:
            raise InvalidMessage(f"{name}: {len(column)} entries for {counted(columns.count, 'message')}")

"""Separates messages that cannot be sent from messages that can. Pure functions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeVar

from headrace.contract.columns import NULL_LENGTH as NULL
from headrace.contract.columns import NULL_TIME
from headrace.sdk._errors import InvalidMessage
from headrace.sdk.wire import Batch, Column, Columns, Message, Messages, Packed, Steps, pack_batch, pack_messages

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unsendable:
    """A message that the gateway cannot accept.

    Attributes:
        message: The message, as the source yielded it.
        error: Why it cannot be sent.
    """

    message: Message
    error: InvalidMessage


Item = Message | Messages | Batch
Piece = Sequence[Item] | Unsendable
"""Items that can be sent, or a message that cannot."""


def separated(items: Sequence[Item], error: InvalidMessage) -> list[Piece]:
    """Splits items that cannot be packed together into runs that can, and single messages that cannot.

    Args:
        items: The items that a source yielded, in order.
        error: Why they cannot be packed together.

    Raises:
        InvalidMessage: `error`, if no single message causes it: columns differ in length, or sequences do not increase.
    """
    pieces: list[Piece] = []
    sound: list[Item] = []
    for item in items:
        for part in _split(item, error):
            if isinstance(part, Batch) or (wrong := _wrong(part)) is None:
                sound.append(part)
                continue
            if sound:
                pieces.append(sound)
                sound = []
            pieces.append(Unsendable(part, wrong))
    if not pieces:
        raise error
    return [*pieces, sound] if sound else pieces


def message_at(columns: Columns, at: int) -> Message:
    """Returns the message at an index of columns, with its token."""
    headers = None
    if columns.header_counts is not None and columns.header_counts[at]:
        assert columns.header_names is not None
        assert columns.header_values is not None
        places = range(columns.header_ends[at], columns.header_ends[at + 1])
        headers = [
            ((_entry(columns.header_names, place) or b"").decode(), _entry(columns.header_values, place)) for place in places
        ]
    message_id = _entry(columns.message_ids, at)
    time = NULL_TIME if columns.event_times is None else columns.event_times[at]
    return Message(
        _entry(columns.values, at),
        _entry(columns.keys, at),
        event_time=None if time == NULL_TIME else time,
        sequence=columns.sequences[at],
        message_id=None if message_id is None else message_id.decode(errors="replace"),
        headers=headers,
        token=columns.tokens[at] if columns.tokens else None,
    )


def _split(item: Item, error: InvalidMessage) -> Iterable[Message | Batch]:
    """Returns a batch that can be packed, or else the messages, which are checked separately."""
    if isinstance(item, Message):
        return [item]
    if isinstance(item, Messages):
        return item
    try:
        pack_batch(item, 1)
    except InvalidMessage:
        return _messages(item, error)
    return [item]


def _wrong(message: Message) -> InvalidMessage | None:
    """Returns why a message cannot be packed, or None. Ignores its sequence and cursor, for which the source is responsible."""
    try:
        pack_messages(Messages.of([replace(message, sequence=None, cursor=None)]), 1)
    except InvalidMessage as error:
        return error
    return None


def _messages(batch: Batch, error: InvalidMessage) -> list[Message]:
    """Converts a batch to messages.

    Raises:
        InvalidMessage: `error`, if not every column has an entry for each message.
    """
    count = len(batch)
    if count == 0:
        raise error
    columns = (
        _entries(batch.values, count, error),
        _entries(batch.keys, count, error),
        _listed(batch.event_times, count, error),
        _texts(batch.message_ids, count, error),
        _listed(batch.headers, count, error),
        _listed(_sequences(batch.sequences), count, error),
        _listed(batch.tokens, count, error),
    )
    messages = [
        Message(value, key, time, sequence, message_id, headers, token=token)
        for value, key, time, message_id, headers, sequence, token in zip(*columns, strict=True)
    ]
    messages[-1] = replace(messages[-1], cursor=batch.cursor)
    return messages


def _listed(column: Sequence[T] | None, count: int, error: InvalidMessage) -> Sequence[T | None]:
    """Returns a column, or nulls if it is None; raises `error` if it does not have an entry for each message."""
    if column is None:
        return [None] * count
    if len(column) != count:
        raise error
    return column


def _entries(column: Sequence[bytes | None] | Packed | None, count: int, error: InvalidMessage) -> Sequence[bytes | None]:
    """Returns the entries of a column, packed or not; raises `error` if it does not have an entry for each message."""
    if not isinstance(column, Packed):
        return _listed(column, count, error)
    if len(column.lengths) != count or sum(length for length in column.lengths if length != NULL) != len(column.data):
        raise error
    packed = Column(column.data, column.lengths)
    return [_entry(packed, at) for at in range(count)]


def _texts(column: Sequence[str | None] | Packed | None, count: int, error: InvalidMessage) -> Sequence[str | None]:
    """Returns the entries of a text column. Invalid UTF-8 becomes surrogates, which packing rejects."""
    if not isinstance(column, Packed):
        return _listed(column, count, error)
    entries = _entries(column, count, error)
    return [None if entry is None else entry.decode(errors="surrogateescape") for entry in entries]


def _sequences(sequences: Sequence[int] | Steps | None) -> Sequence[int] | None:
    """Returns the sequence of each message."""
    return list(accumulate(sequences.deltas, initial=sequences.first)) if isinstance(sequences, Steps) else sequences


def _entry(column: Column | None, at: int) -> bytes | None:
    """Returns an entry of a column."""
    if column is None or column.lengths[at] == NULL:
        return None
    return column.data[column.ends[at] : column.ends[at + 1]]

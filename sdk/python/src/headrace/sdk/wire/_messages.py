"""Single messages that a source yielded, gathered by their fields."""

from collections.abc import Iterable, Iterator
from typing import Any

from headrace.sdk.wire._message import Message

FIELDS = 4
"""The number of entries that each message has in a list of fields."""


class Messages:
    """Consecutive messages, as a list of fields: for each message its value, key and sequence, and the message or None.

    The message itself is there only if it has further attributes. Otherwise nothing refers to it: many objects that
    live on cost the garbage collector more time than everything else that happens to a message.
    """

    __slots__ = ("_fields",)

    def __init__(self, fields: list[Any]) -> None:
        """Takes a list of fields."""
        self._fields = fields

    @classmethod
    def of(cls, messages: Iterable[Message]) -> "Messages":
        """Gathers messages."""
        return cls([field for message in messages for field in fields_of(message)])

    @property
    def values(self) -> list[bytes | None]:
        """The payloads."""
        return self._fields[0::FIELDS]

    @property
    def keys(self) -> list[bytes | None]:
        """The keys."""
        return self._fields[1::FIELDS]

    @property
    def sequences(self) -> list[int | None]:
        """The sequences; None for a message that the SDK numbers."""
        return self._fields[2::FIELDS]

    @property
    def further(self) -> list[Message | None]:
        """The messages that have further attributes."""
        return self._fields[3::FIELDS]

    def __len__(self) -> int:
        """Returns the number of messages."""
        return len(self._fields) // FIELDS

    def __iter__(self) -> Iterator[Message]:
        """Yields the messages."""
        for value, key, sequence, message in zip(self.values, self.keys, self.sequences, self.further, strict=True):
            yield message or Message(value, key, sequence=sequence)


def fields_of(message: Message) -> tuple[bytes | None, bytes | None, int | None, Message | None]:
    """Returns the fields of a message."""
    is_plain = (
        message.event_time is None
        and message.message_id is None
        and message.headers is None
        and message.cursor is None
        and message.token is None
    )
    return message.value, message.key, message.sequence, None if is_plain else message

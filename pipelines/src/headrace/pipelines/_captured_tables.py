"""Tables of databases whose changes are captured: the messages of the presets of the bridge to Kafka Connect."""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import GenericAlias
from typing import Any, TypeVar, overload

import msgspec

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import FormatError, GraphError
from headrace.pipelines.elements.message import Message

K = TypeVar("K")

_TOPIC = "connect.topic"
_MARKER = "connect.marker"
_PLAIN = (int, str, float, bytes)
_UNSENT = "__debezium_unavailable_value"
_IN_BASE64 = b64encode(_UNSENT.encode()).decode()
_UNSENT_VALUES = (_UNSENT, _UNSENT.encode(), _IN_BASE64, [_UNSENT])
"""What a row has for a column that the database did not send: as text, as bytes, as their JSON, and as an array."""


@overload
def primary_key(table: str, key: type[K]) -> Callable[[Message], K]: ...


@overload
def primary_key(table: str, key: None = None) -> Callable[[Message], Any]: ...


def primary_key(table: str, key: Any = None) -> Callable[[Message], Any]:
    """Returns what to pass as `key` for a table of a database whose changes a stream carries, such as one of Debezium.

    `Pipeline.table` and `broadcast` then read the messages of this table only, by primary key.

    ```python
    customers = app.table("shop/*", decode=json(Customer), key=primary_key("public.customers", int))
    ```

    A message that lacks the header `connect.topic`, or has no key or one of another type, is one for which a function raises. So
    is a row with a value that PostgreSQL did not send, as of a large column that the change leaves as it was.

    Args:
        table: The table as its preset names it, such as `public.customers`, or the whole topic of another connector.
        key: The type of the primary key, such as `int`, or `tuple[int, str]` for two columns, in the order of the key. By
            default, keys are of any type: the value of the column, or a tuple of the values.

    Raises:
        GraphError: `table` cannot be the name of a topic, or `key` is no type of keys.
    """
    if not isinstance(table, str) or not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", table):
        raise GraphError(
            "primary_key(...): table must have 1 to 249 ASCII letters, digits or any of '._-', such as 'public.customers', and "
            f"is {check.excerpt(table)}; for other characters, Debezium writes _"
        )
    if key is not None and not _is_key(key):
        raise GraphError(
            "primary_key(...): key must be int, str, float, bytes or a tuple of these, such as tuple[int, str], not "
            f"{check.excerpt(key)}"
        )
    return PrimaryKey(table, key)


def _is_key(kind: Any) -> bool:
    if isinstance(kind, GenericAlias):
        return kind.__origin__ is tuple and len(kind.__args__) > 1 and all(part in _PLAIN for part in kind.__args__)
    return isinstance(kind, type) and kind in _PLAIN


@dataclass(frozen=True)
class PrimaryKey:
    """The key of the rows of one captured table.

    Attributes:
        table: The table, or its whole topic.
        kind: The type of the primary key; None for any.
    """

    table: str
    kind: Any

    def __call__(self, message: Message) -> Any:
        """Returns the primary key of a row.

        Raises:
            FormatError: The message has no key, or one of another type.
        """
        if message.key is None:
            raise FormatError(f"captured table {self.table}: the message has no key, so the table needs a primary key")
        try:
            fields = msgspec.json.decode(message.key)
            values = tuple(fields.values()) if isinstance(fields, dict) else (fields,)
            key = values[0] if len(values) == 1 else values
            return _plain(key) if self.kind is None else msgspec.convert(key, self.kind)
        except (msgspec.MsgspecError, TypeError) as error:
            key_of = f"captured table {self.table}: the key {check.excerpt(message.key)}"
            wanted = "plain values" if self.kind is None else getattr(self.kind, "__name__", str(self.kind))
            raise FormatError(f"{key_of} is not JSON of {wanted}: {error}") from error

    def has(self, message: Message) -> bool:
        """Returns whether a message is a change of the table.

        Raises:
            FormatError: It does not say of what it is.
        """
        topic = message.headers.get(_TOPIC)
        if topic is None:
            if any(name == _MARKER for name, _ in message.headers):
                return False
            raise FormatError(
                f"captured table {self.table}: the message has no header {_TOPIC}, which the bridge to Kafka Connect writes; for "
                "other streams, pass another key"
            )
        name = topic.decode(errors="replace")
        return name in (self.table, f"{message.stream.partition('/')[0]}.{self.table}")

    def complete(self, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """Returns the decoder that refuses a row with a value that the database did not send."""
        return lambda payload: self._checked(payload, decode(payload))

    def _checked(self, payload: bytes, row: Any) -> Any:
        if _UNSENT.encode() not in payload and _IN_BASE64.encode() not in payload:
            return row
        for column in msgspec.json.decode(payload, type=dict[str, Any]):
            value = row.get(column) if isinstance(row, Mapping) else getattr(row, column, None)
            if value in _UNSENT_VALUES:
                raise FormatError(
                    f"captured table {self.table}: PostgreSQL did not send column {column}, which is large and did not change: "
                    "ALTER TABLE ... REPLICA IDENTITY FULL makes it send all, or leave the column out of the class of the row"
                )
        return row


def _plain(key: Any) -> Any:
    if key == ():
        raise TypeError("it has no column")
    for value in key if isinstance(key, tuple) else (key,):
        if not isinstance(value, int | float | str):
            raise TypeError(f"it has {check.excerpt(value)}")
    return key

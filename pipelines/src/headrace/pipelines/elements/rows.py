"""Values in Arrow columns, for columnar steps. Other steps access them as Python objects, which are created on demand."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.pipelines.elements.headers import NO_HEADERS, Lazy
from headrace.pipelines.elements.message import NO_TIME, Message, Origin

if TYPE_CHECKING:
    import pyarrow as pa


class Column(Lazy):
    """A column of bytes."""

    @abstractmethod
    def array(self) -> "pa.Array":
        """The column as an Arrow array of binary or string."""

    @abstractmethod
    def take(self, indices: npt.NDArray[np.int64]) -> "Column":
        """The values at these indices."""


class ArrowColumn(Column):
    """A column that is an Arrow array."""

    def __init__(self, array: "pa.Array") -> None:
        self._array = array

    def __len__(self) -> int:
        """The number of values."""
        return len(self._array)

    @cached_property
    def objects(self) -> Sequence[Any]:
        """The values, one by one."""
        return list(self._array.to_pylist())

    def array(self) -> "pa.Array":
        """The column itself."""
        return self._array

    def take(self, indices: npt.NDArray[np.int64]) -> "ArrowColumn":
        """Some of the values."""
        return ArrowColumn(self._array.take(_arrow_indices(indices)))


class Rows(Lazy):
    """Values that are rows of a record batch."""

    @property
    @abstractmethod
    def batch(self) -> "pa.RecordBatch":
        """All rows."""

    @abstractmethod
    def take(self, indices: Sequence[int]) -> "Rows":
        """Some of the rows."""


class TableRows(Rows):
    """The result of a columnar step. Other steps receive each row as a dict."""

    def __init__(self, batch: "pa.RecordBatch") -> None:
        self._batch = batch

    def __len__(self) -> int:
        """The number of rows."""
        return int(self._batch.num_rows)

    @cached_property
    def objects(self) -> Sequence[Any]:
        """A dict for each row."""
        return list(self._batch.to_pylist())

    @property
    def batch(self) -> "pa.RecordBatch":
        """All rows."""
        return self._batch

    def take(self, indices: Sequence[int]) -> "TableRows":
        """Some of the rows."""
        return TableRows(self._batch.take(_arrow_indices(indices)))


class MessageRows(Rows):
    """Messages. Columnar steps receive the columns `key`, `value`, `event_time`, `sequence`; others receive `Message`s."""

    def __init__(self, origin: Origin, places: Sequence[int]) -> None:
        self._origin = origin
        self._places = places

    def __len__(self) -> int:
        """The number of messages."""
        return len(self._places)

    @cached_property
    def objects(self) -> Sequence[Any]:
        """Each message."""
        origin = self._origin
        raw, keys, times, ids, headers = origin.raw or (), origin.keys, origin.times, origin.ids, origin.headers
        sequences = origin.sequences.tolist()
        return [
            Message(
                raw[place],
                keys[place] if keys is not None else None,
                int(times[place]) if times is not None and times[place] != NO_TIME else None,
                origin.stream,
                sequences[place],
                ids[place] if ids is not None else None,
                headers[place] if headers is not None else NO_HEADERS,
            )
            for place in self._places
        ]

    @property
    def payloads(self) -> Sequence[bytes | None]:
        """The value of each message."""
        raw = self._origin.raw or ()
        return raw if self._is_whole else [raw[place] for place in self._places]

    @property
    def _is_whole(self) -> bool:
        return isinstance(self._places, range) and len(self._places) == len(self._origin)

    @cached_property
    def batch(self) -> "pa.RecordBatch":
        """All messages."""
        import pyarrow as pa

        origin, count = self._origin, len(self._origin)
        times = np.full(count, NO_TIME) if origin.times is None else origin.times
        batch = pa.RecordBatch.from_pydict(
            {
                "key": pa.nulls(count, pa.binary()) if origin.keys is None else as_array(origin.keys),
                "value": as_array(origin.raw or ()),
                "event_time": pa.array(times, pa.timestamp("us", tz="UTC"), mask=times == NO_TIME),
                "sequence": pa.array(origin.sequences),
            }
        )
        return batch if self._is_whole else batch.take(_arrow_indices(self._places))

    def take(self, indices: Sequence[int]) -> "MessageRows":
        """Some of the messages."""
        return MessageRows(self._origin, [self._places[index] for index in indices])


def joined(parts: Sequence[Sequence[Any]], origin: Origin, places: Sequence[int]) -> Sequence[Any]:
    """The values of several parts, one after the other: rows if all are messages, or rows with the same columns.

    Args:
        parts: The values of each part.
        origin: The messages of all parts.
        places: The index in `origin` of each value's message.
    """
    if all(isinstance(part, MessageRows) for part in parts):
        return MessageRows(origin, places)
    batches = [part.batch for part in parts if isinstance(part, TableRows)]
    if len(batches) == len(parts) and all(batch.schema.equals(batches[0].schema) for batch in batches):
        import pyarrow as pa

        return TableRows(pa.Table.from_batches(batches).combine_chunks().to_batches()[0])
    return list(chain.from_iterable(parts))


def payloads(column: "pa.Array") -> ArrowColumn:
    """A column of payloads: bytes, or text in UTF-8, of any Arrow type for them.

    Raises:
        TypeError: It has values of another type.
    """
    import pyarrow as pa

    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_null(plain) or any(of(plain) for of in _payload_types())):
        raise TypeError(f"the column value has values of type {column.type}; payloads must be binary or string")
    try:
        return ArrowColumn(column.cast(plain).cast(pa.binary()))
    except pa.ArrowException as error:
        raise TypeError(f"the column value cannot become payloads: {error}") from None


def _payload_types() -> Sequence[Any]:
    from pyarrow import types

    return (
        types.is_binary,
        types.is_large_binary,
        types.is_binary_view,
        types.is_fixed_size_binary,
        types.is_string,
        types.is_large_string,
        types.is_string_view,
    )


def as_array(values: Sequence[bytes | None]) -> "pa.Array":
    """The Arrow array of a column of bytes."""
    import pyarrow as pa

    return values.array() if isinstance(values, Column) else pa.array(values, pa.binary())


def keys_array(keys: Sequence[Any]) -> "pa.Array":
    """The Arrow array of keys in their normal form.

    Raises:
        TypeError: They are not of one type, or tuples.
    """
    import pyarrow as pa

    if isinstance(keys, Column):
        return keys.array()
    kinds = set(map(type, keys)) - {type(None)}
    if len(kinds) > 1 or tuple in kinds:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"the keys of a columnar step must be bytes, text or numbers, all of one type, and they are {found}")
    return pa.array(keys) if kinds else pa.array(keys, pa.binary())


def _arrow_indices(indices: Sequence[int] | npt.NDArray[np.int64]) -> "pa.Array":
    import pyarrow as pa

    return pa.array(np.asarray(indices, np.int64))

"""The headers of values in Arrow columns, for columnar steps."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.pipelines.elements.headers import NO_HEADERS, Headers, HeadersColumn

_HEADER = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS = pa.list_(_HEADER)


class ArrowHeaders(HeadersColumn):
    """Headers that are an Arrow array of the type `HEADERS`."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    @classmethod
    def of(cls, column: pa.Array) -> "ArrowHeaders":
        """The headers in a column that a function returned.

        Raises:
            TypeError: It is not a column of headers, or contains a null.
        """
        try:
            array = column.cast(HEADERS)
        except pa.ArrowException as error:
            raise TypeError(f"the column headers must be of type {HEADERS}, not {column.type}: {error}") from None
        entries = array.flatten()
        if array.null_count or entries.null_count or entries.field(0).null_count:
            raise TypeError("the column headers has a null, a null header or a header without a name; use an empty list")
        return cls(array)

    def __len__(self) -> int:
        """The number of values."""
        return len(self._array)

    @cached_property
    def objects(self) -> Sequence[Any]:
        """The headers of each value."""
        return [Headers((header["name"], header["value"]) for header in headers) for headers in self._array.to_pylist()]

    def take(self, indices: npt.NDArray[np.int64]) -> "ArrowHeaders":
        """The headers of the values at these indices."""
        return ArrowHeaders(self._array.take(pa.array(indices)))

    def array(self) -> pa.Array:
        """The array itself."""
        return self._array


def headers_array(headers: Sequence[Headers] | None, count: int) -> pa.Array:
    """The headers of `count` values as an Arrow array. `headers` is None if none has any."""
    if isinstance(headers, HeadersColumn):
        return headers.array()
    lists = [[{"name": name, "value": value} for name, value in own] for own in headers or [NO_HEADERS] * count]
    return pa.array(lists, HEADERS)

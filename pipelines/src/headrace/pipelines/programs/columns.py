"""Packed columns: joined values, and their lengths as little-endian u32."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from headrace.contract.columns import NULL_LENGTH

_U32 = np.dtype("<u4")


class ColumnError(ValueError):
    """A column is inconsistent."""


def pack(values: Sequence[bytes | None]) -> tuple[bytes, bytes]:
    """The joined values, and their lengths."""
    if None in values:
        lengths = [NULL_LENGTH if value is None else len(value) for value in values]
        return b"".join(value for value in values if value is not None), pack_numbers(lengths)
    there: Iterable[bytes] = values  # type: ignore[assignment]
    return b"".join(there), pack_numbers(list(map(len, there)))


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """Numbers as little-endian u32."""
    return np.array(numbers, _U32).tobytes()


def unpack(what: str, data: bytes, lengths: bytes) -> list[bytes | None]:
    """The values of a column.

    Args:
        what: The name of the column, for errors.
        data: The joined values.
        lengths: Their lengths.

    Raises:
        ColumnError: The lengths do not add up to the size of the data.
    """
    numbers = _numbers(what, lengths)
    is_null = numbers == NULL_LENGTH
    has_nulls = bool(is_null.any())
    sizes = np.where(is_null, 0, numbers) if has_nulls else numbers
    total = int(sizes.sum(dtype=np.uint64))
    if total != len(data):
        raise ColumnError(f"the lengths of {what} add up to {total}, and the size of the column is {len(data)}")
    ends = list(accumulate(sizes.tolist()))
    starts = [0, *ends[:-1]]
    if not has_nulls:
        return [data[start:end] for start, end in zip(starts, ends, strict=False)]
    nulls = is_null.tolist()
    return [None if null else data[start:end] for start, end, null in zip(starts, ends, nulls, strict=False)]


def unpack_numbers(what: str, data: bytes) -> list[int]:
    """Numbers from little-endian u32.

    Raises:
        ColumnError: The size is not a multiple of four.
    """
    numbers: list[int] = _numbers(what, data).tolist()
    return numbers


def _numbers(what: str, data: bytes) -> npt.NDArray[np.uint32]:
    if len(data) % 4:
        raise ColumnError(f"{what} has {len(data)} bytes, which is not a multiple of 4")
    return np.frombuffer(data, _U32)

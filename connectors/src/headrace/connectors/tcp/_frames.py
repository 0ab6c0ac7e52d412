"""Length-prefixed messages in a stream of bytes."""

import struct
from array import array
from dataclasses import dataclass

from headrace.sdk import Packed

_PREFIX = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Cut:
    """The result of cutting bytes into messages.

    Attributes:
        values: The complete messages.
        end: The offset just past the last one of them.
        needed: The number of bytes from there on that the next message needs to be complete, as far as is known.
        too_long: The announced length of the next message, in bytes, if it is above the limit.
    """

    values: Packed
    end: int
    needed: int
    too_long: int | None = None


def cut(data: bytes, max_bytes: int) -> Cut:
    """Cuts bytes into messages of up to `max_bytes`."""
    values: list[bytes] = []
    at, size, unpack = 0, len(data), _PREFIX.unpack_from
    needed = _PREFIX.size
    too_long = None
    while at + 4 <= size:
        (length,) = unpack(data, at)
        if length > max_bytes:
            too_long = length
            break
        end = at + 4 + length
        if end > size:
            needed = 4 + length
            break
        values.append(data[at + 4 : end])
        at = end
    return Cut(Packed(b"".join(values), array("I", map(len, values))), at, needed, too_long)

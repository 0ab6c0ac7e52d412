"""Checksums of record batches, CRC-32C, many bytes at a time: kafka-python's own loop takes longer than the rest of a fetch.

The checksum is linear. The contribution of a byte depends on its value and on the number of bytes that follow, and is taken from
a table. The contributions of all bytes of a block are then added together, and so is the checksum of the previous bytes, as part
of the block's first four bytes.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.uint8]

_POLYNOMIAL = 0x82F63B78
_BLOCK = 1024
_AT_ONCE = 64 * _BLOCK
_ONES = 0xFFFFFFFF


def crc32c(data: "bytes | bytearray | memoryview") -> int:
    """Returns the checksum of some bytes."""
    cells = np.frombuffer(data, np.uint8)
    whole = len(cells) - len(cells) % _BLOCK
    state = _ONES
    for begin in range(0, whole, _AT_ONCE):
        blocks = cells[begin : min(begin + _AT_ONCE, whole)].reshape(-1, _BLOCK)
        for part in _parts(blocks, _BLOCK):
            state = part ^ _moved_on(state, _BLOCK)
    rest = cells[whole:]
    if len(rest) >= 4:
        (part,) = _parts(rest.reshape(1, -1), len(rest))
        return part ^ _moved_on(state, len(rest)) ^ _ONES
    for byte in rest.tolist():
        state = int(_tables()[-1, (state ^ byte) & 0xFF]) ^ state >> 8
    return state ^ _ONES


def _parts(blocks: Cells, size: int) -> list[int]:
    """Returns the checksum of each block alone, as if only zeros preceded it."""
    places = np.arange(_BLOCK - size, _BLOCK) * 256
    found: list[int] = np.bitwise_xor.reduce(_tables().ravel()[blocks + places], axis=1).tolist()
    return found


def _moved_on(state: int, size: int) -> int:
    """Returns the checksum of the previous bytes after a number of zeros, at least 4."""
    first, second, third, fourth = _tables()[_BLOCK - size : _BLOCK - size + 4]
    return int(first[state & 0xFF] ^ second[state >> 8 & 0xFF] ^ third[state >> 16 & 0xFF] ^ fourth[state >> 24])


@cache
def _tables() -> npt.NDArray[np.uint32]:
    """Returns the contribution of each byte value, by its position in a block; the last row is the usual CRC-32C table."""
    last = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        last = np.where(last & 1, last >> 1 ^ _POLYNOMIAL, last >> 1).astype(np.uint32)
    tables = np.empty((_BLOCK, 256), np.uint32)
    tables[-1] = last
    for place in range(_BLOCK - 1, 0, -1):
        tables[place - 1] = last[tables[place] & 0xFF] ^ tables[place] >> 8
    return tables

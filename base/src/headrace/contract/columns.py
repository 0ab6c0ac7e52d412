"""How frames are encoded: the values that represent null in packed columns, limits of deltas and times, protobuf's numbers."""

import sys
from array import array

NULL_LENGTH = 0xFFFFFFFF
"""The length of a null key, value or id; it adds nothing to the column's data."""
NULL_TIME = -(2**63)
"""The event time of a message without one."""
MAX_DELTA = 0xFFFFFFFF
"""The largest difference between the sequences of two consecutive messages in a frame."""
MIN_TIME = -62_135_596_800_000_000
"""The first microsecond of the year 1, since 1970-01-01 UTC: the earliest event time."""
MAX_TIME = 253_402_300_799_999_999
"""The last microsecond of the year 9999, since 1970-01-01 UTC: the latest event time: a watermark of it drops all else."""

# The most significant bytes of times from 1970 to 8800.
_USUAL_TOPS = b"\x00\x01\x02"


def time_outside(column: bytes) -> int | None:
    """Returns the index of the first event time that is neither null nor within the years 1 to 9999; None if there is none.

    Args:
        column: The times in microseconds since 1970-01-01 UTC, as in a frame: i64, little-endian.
    """
    # One byte of each time is enough for most columns, and is checked in C.
    if not column[7::8].translate(None, _USUAL_TOPS):
        return None
    times = array("q", column)
    if sys.byteorder == "big":
        times.byteswap()
    given = times if NULL_TIME not in times else [time for time in times if time != NULL_TIME]
    if not given or (min(given) >= MIN_TIME and max(given) <= MAX_TIME):
        return None
    return next(at for at, time in enumerate(times) if time != NULL_TIME and not MIN_TIME <= time <= MAX_TIME)


def varint(number: int) -> bytes:
    """Encodes a number that is not negative as a protobuf varint: seven bits per byte, lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)

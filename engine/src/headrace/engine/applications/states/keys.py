"""Assigns keys to buckets: the same in every process and for the life of a checkpoint, whose states are stored by bucket."""

import zlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from headrace.pipelines.runtime import Key, in_order_of_keys

Hashes = npt.NDArray[np.uint64]
Buckets = npt.NDArray[np.int32]

PARTS = 128
"""The number of parts of a bucket's keys: a power of two, more than the most segments of a snapshot."""

_MAX_LENGTH = 64
"""Keys longer than this, in bytes, are hashed one by one, since a padded table of them would be large."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def bucket_ids(partitions: int) -> tuple[int, ...]:
    """An id for each bucket, such that Spark shuffles each bucket to a separate partition.

    Spark's partition is the remainder of a number's hash, Murmur3 with seed 42 (`HashPartitioning`): consecutive numbers collide.
    """
    ids: dict[int, int] = {}
    number = 0
    while len(ids) < partitions:
        ids.setdefault(_murmur3(number) % partitions, number)
        number += 1
    return tuple(ids[partition] for partition in range(partitions))


def _murmur3(number: int, seed: int = 42) -> int:
    """Murmur3 x86_32 of one 32-bit integer, like Spark's `Murmur3_x86_32.hashInt`; signed, as in Java."""
    word = number * 0xCC9E2D51 & 0xFFFFFFFF
    word = (word << 15 | word >> 17) & 0xFFFFFFFF
    mixed = seed ^ (word * 0x1B873593 & 0xFFFFFFFF)
    mixed = (mixed << 13 | mixed >> 19) & 0xFFFFFFFF
    mixed = (mixed * 5 + 0xE6546B64 & 0xFFFFFFFF) ^ 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    mixed ^= mixed >> 16
    return mixed - 2**32 if mixed >= 2**31 else mixed


def buckets_of(keys: Sequence[Key], count: int) -> Buckets:
    """The bucket of each key. Keys that are equal and of one type share a bucket."""
    return packed_buckets(*_packed(keys), count)


def packed_buckets(data: bytes, lengths: npt.NDArray[np.int64], count: int) -> Buckets:
    """The bucket of each key of a packed column: the concatenated keys, and their lengths in bytes."""
    if count == 1 or not len(lengths):
        return np.zeros(len(lengths), np.int32)
    return (_hashes(data, lengths) % np.uint64(count)).astype(np.int32)


def segments_of(keys: Sequence[Key], count: int) -> list[int]:
    """The segment of each key in a bucket's snapshot of `count` segments; independent of the key's bucket.

    If a segment is added, keys move to it from only one other segment.
    """
    if count == 1 or not keys:
        return [0] * len(keys)
    segments: list[int] = _segments(_spread(keys), count).tolist()
    return segments


def parts_of(keys: Sequence[Key]) -> list[int]:
    """The part of each key. Each segment consists of whole parts, however many segments there are."""
    parts: list[int] = (_spread(keys) % np.uint64(PARTS)).tolist() if keys else []
    return parts


def parts_in(segment: int, count: int) -> list[int]:
    """The parts that a segment of a snapshot of `count` segments consists of."""
    if count == 1:
        return list(range(PARTS))
    parts: list[int] = np.flatnonzero(_segments(np.arange(PARTS, dtype=np.uint64), count) == segment).tolist()
    return parts


def _spread(keys: Sequence[Key]) -> Hashes:
    """The bits of each key's hash that determine its segment, in 32 bits."""
    # Buckets depend on the low bits, and a long key's hash has only 32 bits.
    return _hashes(*_packed(keys)) * _MULTIPLIER >> np.uint64(32)


def _segments(hashes: Hashes, count: int) -> Hashes:
    width = np.uint64(1 << count.bit_length())
    wide, narrow = hashes % width, hashes % (width // np.uint64(2))
    return np.where(wide < np.uint64(count), wide, narrow)


def in_order_of_hashes(keys: Sequence[Key]) -> list[Key]:
    """The keys in an order that is the same in every process; faster for many keys than comparing them."""
    if len(keys) < 2:
        return list(keys)
    hashes = _hashes(*_packed(keys))
    order = np.argsort(hashes)
    ordered, found = [keys[place] for place in order.tolist()], hashes[order]
    same = np.flatnonzero(found[1:] == found[:-1])
    if not len(same):
        return ordered
    # Each group of keys with equal hashes.
    starts = np.flatnonzero(np.r_[True, found[1:] != found[:-1]])
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(ordered)], strict=True):
        if end - start > 1:
            ordered[start:end] = in_order_of_keys(ordered[start:end])
    return ordered


def _packed(keys: Sequence[Key]) -> tuple[bytes, npt.NDArray[np.int64]]:
    """The keys as a packed column."""
    kinds = set(map(type, keys))
    spelled: Sequence[bytes]
    if kinds == {bytes}:
        spelled = cast(Sequence[bytes], keys)
    elif bytes in kinds or (str in kinds and len(kinds) > 1):
        spelled = [_spelled(key) for key in keys]
    else:
        texts = cast(Sequence[str], keys) if str in kinds else list(map(repr, keys))
        joined = "".join(texts)
        if joined.isascii():
            return joined.encode(), np.fromiter(map(len, texts), np.int64, len(texts))
        spelled = [text.encode() for text in texts]
    return b"".join(spelled), np.fromiter(map(len, spelled), np.int64, len(spelled))


def _hashes(data: bytes, lengths: npt.NDArray[np.int64]) -> Hashes:
    """The hash of each key. It depends only on the key, so padding words are skipped."""
    long = lengths > _MAX_LENGTH
    if long.any():
        return _some_long(data, lengths, long)
    longest = int(lengths.max())
    words = -(-longest // 8)
    table = np.zeros((len(lengths), 8 * words), np.uint8)
    joined = np.frombuffer(data, np.uint8)
    shortest = int(lengths.min())
    if shortest == longest:
        table[:, :longest] = joined.reshape(len(lengths), longest)
    else:
        table[np.arange(8 * words) < lengths[:, None]] = joined
    hashes: Hashes = (lengths.astype(np.uint64) + np.uint64(1)) * _MULTIPLIER
    for number, word in enumerate(table.view("<u8").T):
        mixed = (hashes ^ word) * _MULTIPLIER
        mixed ^= mixed >> _SHIFT
        hashes = mixed if 8 * number < shortest else np.where(lengths > 8 * number, mixed, hashes)
    return hashes


def _some_long(data: bytes, lengths: npt.NDArray[np.int64], long: npt.NDArray[np.bool_]) -> Hashes:
    hashes = np.zeros(len(lengths), np.uint64)
    ends = np.cumsum(lengths)
    for index in np.flatnonzero(long).tolist():
        hashes[index] = zlib.crc32(data[ends[index] - lengths[index] : ends[index]])
    short = np.frombuffer(data, np.uint8)[np.repeat(~long, lengths)]
    if not long.all():
        hashes[~long] = _hashes(short.tobytes(), lengths[~long])
    return hashes


def _spelled(key: Any) -> bytes:
    return key if isinstance(key, bytes) else key.encode() if isinstance(key, str) else repr(key).encode()

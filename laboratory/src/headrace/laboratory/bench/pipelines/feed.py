"""The input of the applications: packed columns that are cheap to generate, and reproducible."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from headrace.engine.codec import Columns
from headrace.laboratory.bench.pipelines.apps import EVERY

FRAME = 5_000
"""The number of messages in a frame: about as many as a connector sends in one."""
WORD_BYTES = 8

_SYMBOLS, _REJECTING = 350, 15
_ROUND = 70_000
"""The number of quotes and orders that repeat; one of the orders is rejected."""
_REJECTED_AT = 5_000
_NBBO = np.dtype([("type", "u1"), ("symbol", "S4"), ("time", "S21"), ("bid", ">f8"), ("offer", ">f8")])
_ORDER = np.dtype(
    [
        ("type", "u1"),
        ("side", "u1"),
        ("account", ">u4"),
        ("order_id", "S6"),
        ("symbol", "S4"),
        ("quantity", ">f8"),
        ("price", ">f8"),
        ("time", "S21"),
    ]
)
_TIME = b"20160902-09:30:00.000"

Numbers = npt.NDArray[np.int64]


class Stream(Protocol):
    """The messages of one stream. Sequences start at 0."""

    @property
    def name(self) -> str:
        """The stream's name, `source/partition`."""

    def frames(self, begin: int, end: int) -> Iterator[Columns]:
        """Yields the messages from `begin` (inclusive) to `end` (exclusive), counted from 0."""


class Feed(Protocol):
    """Streams with the same number of messages each."""

    @property
    def streams(self) -> Sequence[Stream]:
        """All of them."""

    def results(self, end: int) -> int:
        """Returns the number of results of the first `end` messages."""


def frames(feed: Feed, begin: int, end: int) -> Iterator[Columns]:
    """Yields the messages of a feed from `begin` to `end`, an equal share of each stream."""
    share = len(feed.streams)
    for stream in feed.streams:
        yield from stream.frames(begin // share, end // share)


@dataclass(frozen=True)
class Rounds:
    """A stream that repeats the same messages, all of the same length, with keys of the same length."""

    name: str
    values: bytes
    keys: bytes
    count: int

    def frames(self, begin: int, end: int) -> Iterator[Columns]:
        """Yields frames, which end where a round ends."""
        size, key_size = len(self.values) // self.count, len(self.keys) // self.count
        while begin < end:
            at = begin % self.count
            n = min(FRAME, end - begin, self.count - at)
            values, keys = self.values[at * size : (at + n) * size], self.keys[at * key_size : (at + n) * key_size]
            yield _frame(self.name, begin, n, keys, values)
            begin += n


@dataclass(frozen=True)
class MarketFeed:
    """As many quotes as orders, for 350 symbols, 15 of which reject; the first quotes are one for each symbol.

    It has no attributes, since it is pickled for every task.
    """

    @property
    def streams(self) -> Sequence[Stream]:
        """Quotes and orders."""
        return _market()

    def results(self, end: int) -> int:
        """Returns the number of rejected orders, once the quotes of all symbols are known."""
        rounds, rest = divmod(end // 2, _ROUND)
        return rounds + (rest > _REJECTED_AT)


@cache
def _market() -> tuple[Rounds, Rounds]:
    random = np.random.default_rng(35)
    names = np.array([f"{'ABCD'[n // 100]}{n % 100:03d}".encode() for n in range(_SYMBOLS)])
    prices = np.round(10 + 190 * random.random(_SYMBOLS), 2)
    rejecting = np.arange(_SYMBOLS) >= _SYMBOLS - _REJECTING
    which = random.integers(0, _SYMBOLS, _ROUND)
    which[:_SYMBOLS] = np.arange(_SYMBOLS)
    r, refused = random.random(_ROUND), rejecting[which]
    quotes = np.empty(_ROUND, _NBBO)
    quotes["type"], quotes["symbol"], quotes["time"] = 2, names[which], _TIME
    quotes["bid"] = prices[which] + r - np.where(refused, (0.05 + r) * 0.1 + 0.01, 0)
    quotes["offer"] = quotes["bid"] + np.where(refused, 0.03 * r + 0.05, random.integers(0, 4, _ROUND) / 100)
    accepted = _SYMBOLS - _REJECTING
    busy = random.random(_ROUND) < 0.8
    about = np.where(busy, random.integers(0, accepted // 5, _ROUND), random.integers(accepted // 5, accepted, _ROUND))
    about[_REJECTED_AT] = _SYMBOLS - 1
    orders = np.empty(_ROUND, _ORDER)
    orders["type"], orders["side"], orders["time"] = 1, random.integers(1, 3, _ROUND), _TIME
    orders["account"], orders["order_id"] = random.integers(1, 301, _ROUND), np.char.mod("%06d", np.arange(_ROUND))
    orders["symbol"], orders["quantity"] = names[about], random.integers(1, 66, _ROUND) * 10
    orders["price"] = np.round(prices[about] + random.random(_ROUND), 2)
    return (
        Rounds("market/nbbo", quotes.tobytes(), quotes["symbol"].tobytes(), _ROUND),
        Rounds("market/orders", orders.tobytes(), orders["symbol"].tobytes(), _ROUND),
    )


@dataclass(frozen=True)
class Words:
    """A stream of words, which are their own keys.

    Attributes:
        keys: The number of different words; at most 10^8.
        loaded: The number of first messages that are each word in turn; later ones are random, with equal probability.
        name: The name of the stream.
    """

    keys: int
    loaded: int = 0
    name: str = "words/0"

    @property
    def streams(self) -> Sequence[Stream]:
        """The one stream."""
        return (self,)

    def frames(self, begin: int, end: int) -> Iterator[Columns]:
        """Yields frames of words."""
        for at in range(begin, end, FRAME):
            n = min(FRAME, end - at)
            words = spelled(self.numbers(at, at + n))
            yield _frame(self.name, at, n, words, words)

    def numbers(self, begin: int, end: int) -> Numbers:
        """Returns the numbers of the words of the messages from `begin` to `end`."""
        at = np.arange(begin, end, dtype=np.uint64)
        # SplitMix64: computes any number of the sequence without the earlier ones.
        mixed = (at + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        drawn = (mixed ^ (mixed >> np.uint64(31))) % np.uint64(self.keys)
        return np.where(at < self.loaded, at % np.uint64(self.keys), drawn).astype(np.int64)

    def results(self, end: int) -> int:
        """Returns how many occurrences are emitted."""
        counts = np.zeros(self.keys, np.int64)
        for at in range(0, end, 10**6):
            counts += np.bincount(self.numbers(at, min(end, at + 10**6)), minlength=self.keys)
        return int((counts // EVERY).sum())


_FOUR_DIGITS = np.frombuffer(b"".join(b"%04d" % n for n in range(10**4)), np.uint32)


def spelled(numbers: Numbers) -> bytes:
    """Returns numbers as text of eight digits each, concatenated."""
    halves = np.empty((len(numbers), 2), np.uint32)
    halves[:, 0] = _FOUR_DIGITS[numbers // 10**4]
    halves[:, 1] = _FOUR_DIGITS[numbers % 10**4]
    return halves.tobytes()


def _frame(stream: str, at: int, count: int, keys: bytes, values: bytes) -> Columns:
    lengths, key_lengths = _lengths(count, len(values) // count), _lengths(count, len(keys) // count)
    nothing = (b"",) * 8
    return Columns(stream, at, at + count - 1, count, b"", keys, key_lengths, values, lengths, *nothing)


@cache
def _lengths(count: int, size: int) -> bytes:
    return np.full(count, size, "<u4").tobytes()

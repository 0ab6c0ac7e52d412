"""A reproducible market: quotes and orders in blocks, each of which depends only on its number."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from struct import unpack_from

import numpy as np
import numpy.typing as npt

BLOCK = 10_000
"""The number of messages in a block."""
SEED = 35
"""The seed of a market with 5 rejected orders in its first 350,000, and 14 in a million."""
REJECTED = 5 / 350_000
"""The share of orders for symbols at whose quotes orders are rejected."""

_SYMBOLS, _REJECTING = 350, 15
_BEGINS = datetime(2016, 9, 2, 9, 30, tzinfo=UTC)
_NBBO = np.dtype([("type", "u1"), ("symbol", "S4"), ("time", "S21"), ("bid", ">f8"), ("offer", ">f8")])
_ORDER = np.dtype(
    [
        ("type", "u1"),
        ("side", "u1"),
        ("account", ">u4"),
        ("order_id", "u1", 6),
        ("symbol", "S4"),
        ("quantity", ">f8"),
        ("price", ">f8"),
        ("time", "S21"),
    ]
)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """Messages of one kind, which all have the same length; their keys are their symbols."""

    values: bytes
    keys: bytes
    count: int

    def messages(self) -> list[tuple[bytes, bytes]]:
        """Returns the key and value of each message."""
        size = len(self.values) // self.count
        return [(self.keys[4 * n : 4 * n + 4], self.values[size * n : size * n + size]) for n in range(self.count)]


class Feed:
    """Any number of quotes and orders for the symbols of some opening quotes.

    The opening quotes come first. A later quote causes rejections if and only if its symbol's opening quote does.
    """

    def __init__(self, opening: Sequence[bytes] = (), seed: int = SEED, rejected: float = REJECTED) -> None:
        self.seed, self.rejected = seed, rejected
        self.opening = np.frombuffer(b"".join(opening or made_up(seed)), _NBBO)
        self.names = self.opening["symbol"]
        bid, offer = self.opening["bid"].astype(float), self.opening["offer"].astype(float)
        self.rejecting = (offer - bid >= 0.05) | ((offer - bid) / ((bid + offer) / 2) >= 0.05)
        # Below a dollar, three cents would be more than 5 %.
        self.prices = np.maximum(bid, 1.0)

    def nbbo(self, block: int) -> Block:
        """Returns the quotes from number `block * BLOCK` on; all symbols are equally likely."""
        which, r, cents = self._random(1, block, 3)
        symbol = _below(which, len(self.names))
        records = _quotes(self.names[symbol], self.prices[symbol], self.rejecting[symbol], r, cents)
        records["time"] = _time(block)
        at = len(self.opening) - block * BLOCK
        if at > 0:
            records[:at] = self.opening[block * BLOCK :][:BLOCK]
        return Block(records.tobytes(), records["symbol"].tobytes(), BLOCK)

    def orders(self, block: int) -> Block:
        """Returns the orders from number `block * BLOCK` on: 80 % for the first 20 % of the symbols, very few to be rejected."""
        rejected, busy, which, side, account, quantity, cents = self._random(2, block, 7)
        symbol = np.where(
            rejected < self.rejected,
            _one_of(np.flatnonzero(self.rejecting), which),
            _skewed(np.flatnonzero(~self.rejecting), busy, which),
        )
        records = np.empty(BLOCK, _ORDER)
        records["type"] = 1
        records["side"] = 1 + _below(side, 2)
        records["account"] = 1 + _below(account, 300)
        records["order_id"] = _digits(np.arange(block * BLOCK, (block + 1) * BLOCK), 6)
        records["symbol"] = self.names[symbol]
        records["quantity"] = 10 + 10 * _below(quantity, 65)
        records["price"] = np.round(self.prices[symbol] + cents, 2)
        records["time"] = _time(block)
        return Block(records.tobytes(), records["symbol"].tobytes(), BLOCK)

    def _random(self, kind: int, block: int, columns: int) -> Floats:
        return np.random.default_rng((self.seed, kind, block)).random((columns, BLOCK))


def made_up(seed: int) -> list[bytes]:
    """Returns opening quotes of 335 symbols whose orders are accepted, and of 15 whose orders are rejected."""
    prices, r, cents = np.random.default_rng((seed, 0)).random((3, _SYMBOLS))
    names = np.array([f"{'ABCDEFGHIJ'[n // 100]}{n % 100:03d}".encode() for n in range(_SYMBOLS)])
    rejecting = np.arange(_SYMBOLS) >= _SYMBOLS - _REJECTING
    records = _quotes(names, np.round(5 + 195 * prices, 2), rejecting, r, cents)
    records["time"] = _time(0)
    return [record.tobytes() for record in records]


def read_opening(path: Path) -> list[bytes]:
    """Reads the quotes of a file, each preceded by its length as a big-endian u32."""
    data, at, quotes = path.read_bytes(), 0, []
    while at < len(data):
        (size,) = unpack_from(">I", data, at)
        quotes.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return quotes


def _quotes(
    names: npt.NDArray[np.bytes_], prices: Floats, rejecting: npt.NDArray[np.bool_], r: Floats, cents: Floats
) -> npt.NDArray[np.void]:
    """Returns quotes without times: bid and offer are up to 3 cents apart, or 5 to 8 if orders are to be rejected."""
    bid = prices + r - np.where(rejecting, (0.05 + r) * 0.1 + 0.01, 0)
    records = np.empty(len(names), _NBBO)
    records["type"] = 2
    records["symbol"] = names
    records["bid"] = bid
    records["offer"] = bid + np.where(rejecting, 0.03 * r + 0.05, _below(cents, 4) / 100)
    return records


def _skewed(symbols: npt.NDArray[np.intp], busy: Floats, which: Floats) -> npt.NDArray[np.intp]:
    first = len(symbols) // 5
    return np.where(busy < 0.8, _one_of(symbols[:first], which), _one_of(symbols[first:], which))


def _one_of(symbols: npt.NDArray[np.intp], which: Floats) -> npt.NDArray[np.intp]:
    chosen: npt.NDArray[np.intp] = symbols[_below(which, len(symbols))]
    return chosen


def _below(random: Floats, limit: int) -> npt.NDArray[np.int64]:
    return (random * limit).astype(np.int64)


def _digits(numbers: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    return numbers[:, None] // 10 ** np.arange(count - 1, -1, -1) % 10 + ord("0")


def _time(block: int) -> str:
    """Returns the time of a block: one second later for each block."""
    return (_BEGINS + timedelta(seconds=block)).strftime("%Y%m%d-%H:%M:%S.000")

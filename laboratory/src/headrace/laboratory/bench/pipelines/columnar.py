"""Market Spread in columns: the same application as `apps.market_spread`, with NumPy."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.laboratory.bench.pipelines.apps import MAX_SPREAD, NBBO, Market
from headrace.pipelines import Flow, KeyStates, Message, Pipeline

Records = npt.NDArray[np.void]

_NBBO = np.dtype([("type", "u1"), ("symbol", ">u4"), ("time", "S21"), ("bid", ">f8"), ("offer", ">f8")])
_ORDER = np.dtype(
    [
        ("type", "u1"),
        ("side", "u1"),
        ("account", ">u4"),
        ("order_id", "S6"),
        ("symbol", ">u4"),
        ("quantity", ">f8"),
        ("price", ">f8"),
        ("time", "21u1"),
    ]
)
_RESULT = np.dtype(
    [
        ("side", "u1"),
        ("account", ">u4"),
        ("order_id", "S6"),
        ("symbol", ">u4"),
        ("quantity", ">f8"),
        ("price", ">f8"),
        ("bid", ">f8"),
        ("offer", ">f8"),
        ("time", ">u8"),
    ]
)
_COPIED = ("side", "account", "order_id", "symbol", "quantity", "price")


def decide(rows: pa.RecordBatch, markets: KeyStates[Market]) -> pa.RecordBatch | None:
    """Updates markets with quotes, or checks orders against them."""
    data = _bytes(rows.column("value"))
    if data[0] == NBBO:
        _take_quotes(np.frombuffer(data, _NBBO), markets)
        return None
    return _rejected(np.frombuffer(data, _ORDER), markets)


def market_spread() -> Pipeline:
    """Builds Market Spread with the key of the messages, which is their symbol."""
    app = Pipeline("bench-market-spread-columnar")
    both: Flow[Message] = app.source("market/nbbo").merge(app.source("market/orders"))
    both.key_by().stateful_columns(decide, Market, name="markets").sink("bench")
    return app


def _take_quotes(quotes: Records, markets: KeyStates[Market]) -> None:
    """Stores the last quote of each symbol in a batch."""
    symbols, last = np.unique(quotes["symbol"][::-1], return_index=True)
    bids, offers = quotes["bid"][::-1][last], quotes["offer"][::-1][last]
    spreads = offers - bids
    rejects = (spreads >= MAX_SPREAD) | (spreads / ((bids + offers) / 2) >= MAX_SPREAD)
    for symbol, bid, offer, reject in zip(symbols.tolist(), bids.tolist(), offers.tolist(), rejects.tolist(), strict=True):
        market = markets[symbol.to_bytes(4, "big")]
        market.bid, market.offer, market.reject = bid, offer, reject


def _rejected(orders: Records, markets: KeyStates[Market]) -> pa.RecordBatch | None:
    symbols, which = np.unique(orders["symbol"], return_inverse=True)
    keys = [symbol.to_bytes(4, "big") for symbol in symbols.tolist()]
    of_symbols = [markets[key] if key in markets else Market() for key in keys]
    refused = np.flatnonzero(np.array([market.reject for market in of_symbols])[which])
    if not len(refused):
        return None
    found, which = orders[refused], which[refused]
    results = np.empty(len(refused), _RESULT)
    for name in _COPIED:
        results[name] = found[name]
    results["bid"] = np.array([market.bid for market in of_symbols])[which]
    results["offer"] = np.array([market.offer for market in of_symbols])[which]
    results["time"] = _milliseconds(found["time"])
    return pa.RecordBatch.from_arrays([_values(results)], ["value"])


def _milliseconds(times: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Converts texts such as 20130416-14:30:00.123 to milliseconds since 1970-01-01 UTC."""
    digits = times.astype(np.int64) - ord("0")

    def number(begin: int, end: int) -> npt.NDArray[np.int64]:
        powers = 10 ** np.arange(end - begin - 1, -1, -1)
        found: npt.NDArray[np.int64] = digits[:, begin:end] @ powers
        return found

    months = ((number(0, 4) - 1970) * 12 + number(4, 6) - 1).astype("M8[M]")
    days = months.astype("M8[D]").astype(np.int64) + number(6, 8) - 1
    seconds = ((days * 24 + number(9, 11)) * 60 + number(12, 14)) * 60 + number(15, 17)
    return seconds * 1000 + number(18, 21)


def _bytes(column: pa.Array) -> Any:
    """Returns the concatenated bytes of all values."""
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    return memoryview(column.buffers()[2])[offsets[0] : offsets[-1]]


def _values(records: Records) -> pa.Array:
    """Converts records of one size to values."""
    ends = np.arange(len(records) + 1, dtype=np.int32) * records.dtype.itemsize
    return pa.Array.from_buffers(pa.binary(), len(records), [None, pa.py_buffer(ends), pa.py_buffer(records.tobytes())])

"""Market Spread in columns: the same application, written with NumPy for its speed."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from app import Market, decide, too_far_apart
from messages import NBBO, decode_order, encode_result

from headrace.pipelines import Flow, KeyStates, Message, Pipeline

QUOTES = np.dtype({"names": ["bid", "offer"], "formats": [">f8", ">f8"], "offsets": [26, 34], "itemsize": 42})
"""The fields of quotes that are needed."""

Places = npt.NDArray[np.int32]


def decide_all(rows: pa.RecordBatch, markets: KeyStates[Market]) -> pa.RecordBatch | None:
    """Updates markets with quotes, or checks orders against them. All rows are from one stream."""
    keys, values = rows["key"].dictionary_encode(), rows["value"]
    symbols, which = keys.dictionary.to_pylist(), keys.indices.to_numpy()
    if values[0].as_py()[0] == NBBO:
        take_quotes(symbols, which, values, markets)
        return None
    return rejected(symbols, which, values, markets)


def take_quotes(symbols: Sequence[bytes], which: Places, values: pa.Array, markets: KeyStates[Market]) -> None:
    """Stores the last quote of each symbol: no order comes between the quotes of a batch."""
    last = np.empty(len(symbols), np.int64)
    last[which] = np.arange(len(which))
    quotes = np.frombuffer(values.cast(pa.binary(QUOTES.itemsize)).buffers()[1], QUOTES)[last]
    bids, offers = quotes["bid"], quotes["offer"]
    rejects = too_far_apart(bids, offers)
    for symbol, bid, offer, reject in zip(symbols, bids.tolist(), offers.tolist(), rejects.tolist(), strict=True):
        market = markets[symbol]
        market.bid, market.offer, market.reject = bid, offer, reject


def rejected(symbols: Sequence[bytes], which: Places, values: pa.Array, markets: KeyStates[Market]) -> pa.RecordBatch | None:
    """Returns the results of rejected orders. These are few, so they are processed one by one."""
    of_symbols = [markets[symbol] for symbol in symbols]
    places = np.flatnonzero(np.array([market.reject for market in of_symbols])[which])
    keys, results = [], []
    for place in places.tolist():
        symbol = which[place]
        result = decide(decode_order(values[place].as_py()), of_symbols[symbol])
        if result is not None:
            keys.append(symbols[symbol])
            results.append(encode_result(result))
    return pa.RecordBatch.from_pydict({"key": keys, "value": results}) if results else None


columns = Pipeline("market_spread_columns")
both: Flow[Message] = columns.source("market/nbbo").merge(columns.source("market/orders"))
both.key_by().stateful_columns(decide_all, Market, name="markets").sink("rejected")

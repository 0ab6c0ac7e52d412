"""The applications that the pipelines benchmark runs: Market Spread, a word count, and one that returns its input."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from struct import pack, unpack
from typing import Any

from headrace.pipelines import Flow, Pipeline

NBBO = 2
"""The type of a quote; the type of an order is 1."""
MAX_SPREAD = 0.05
EVERY = 32
"""One of this many occurrences of a word is emitted."""


@dataclass(frozen=True)
class App:
    """An application, and its functions.

    Attributes:
        pipeline: Builds the pipeline.
        decode: Decodes any payload.
        decoders: Decodes the payloads of each stream.
        function: Called with a value and its key's state.
        state: Creates the state of a new key; a dataclass.
        columns: The fields of that class, as a Spark schema.
        encode: Encodes a result.
    """

    pipeline: Callable[[], Pipeline]
    decode: Callable[[bytes], Any]
    decoders: dict[str, Callable[[bytes], Any]]
    function: Callable[[Any, Any], Any]
    state: type
    columns: str
    encode: Callable[[Any], bytes]


@dataclass(slots=True)
class Market:
    """The latest quote of a symbol. There is no trade before the first one."""

    bid: float = 0.0
    offer: float = 0.0
    reject: bool = True


def decode_nbbo(payload: bytes) -> tuple[Any, ...]:
    """Decodes type, symbol, time, bid and offer."""
    return unpack(">B4s21sdd", payload)


def decode_order(payload: bytes) -> tuple[Any, ...]:
    """Decodes type, side, account, order id, symbol, quantity, price and time."""
    return unpack(">BBI6s4sdd21s", payload)


def decode_either(payload: bytes) -> tuple[Any, ...]:
    """Decodes a quote or an order."""
    return decode_nbbo(payload) if payload[0] == NBBO else decode_order(payload)


def symbol(message: tuple[Any, ...]) -> bytes:
    """Returns the symbol of a quote or an order."""
    found: bytes = message[1] if message[0] == NBBO else message[4]
    return found


def decide(message: tuple[Any, ...], market: Market) -> tuple[Any, ...] | None:
    """Updates the market of a symbol with a quote, or checks an order against it."""
    if message[0] == NBBO:
        _, _, _, bid, offer = message
        spread = offer - bid
        market.bid = bid
        market.offer = offer
        market.reject = spread >= MAX_SPREAD or spread / ((bid + offer) / 2) >= MAX_SPREAD
        return None
    if not market.reject:
        return None
    _, side, account, order_id, about, quantity, price, time = message
    at = datetime.strptime(time.decode(), "%Y%m%d-%H:%M:%S.%f").replace(tzinfo=UTC)
    return side, account, order_id, about, quantity, price, market.bid, market.offer, round(at.timestamp() * 1000)


def encode_result(result: tuple[Any, ...]) -> bytes:
    """Encodes a rejected order in 55 bytes."""
    return pack(">BI6s4sddddQ", *result)


RESULT_BYTES = 55


def market_spread() -> Pipeline:
    """Builds Market Spread with the key of the messages, which is their symbol."""
    return _market_spread("bench-market-spread", None)


def market_spread_by_function() -> Pipeline:
    """Builds Market Spread with a key that a function computes."""
    return _market_spread("bench-computed-key", symbol)


def _market_spread(name: str, key: Callable[[tuple[Any, ...]], bytes] | None) -> Pipeline:
    app = Pipeline(name)
    quotes: Flow[tuple[Any, ...]] = app.source("market/nbbo", decode=decode_nbbo)
    orders = app.source("market/orders", decode=decode_order)
    quotes.merge(orders).key_by(key).stateful(decide, Market, name="markets").sink("bench", encode=encode_result)
    return app


@dataclass(slots=True)
class Count:
    """The number of occurrences of a word."""

    n: int = 0


def count(word: str, state: Count) -> str | None:
    """Counts a word, and returns it at every 32nd occurrence."""
    state.n += 1
    return None if state.n % EVERY else word


def word_count() -> Pipeline:
    """Builds a word count with one state object per word."""
    app = Pipeline("bench-word-count")
    app.source("words/*", decode=bytes.decode).key_by().stateful(count, Count, name="counts").sink("bench")
    return app


def number(payload: bytes, state: Count) -> bytes:
    """Counts a message, and returns it."""
    state.n += 1
    return payload


def stamps() -> Pipeline:
    """Builds an application that returns every message after updating its key's state."""
    app = Pipeline("bench-stamps")
    app.source("stamps/*", decode=bytes).key_by().stateful(number, Count, name="counts").sink("bench")
    return app


MARKET_SPREAD = App(
    market_spread,
    decode_either,
    {"market/nbbo": decode_nbbo, "market/orders": decode_order},
    decide,
    Market,
    "bid double, offer double, reject boolean",
    encode_result,
)
WORD_COUNT = App(word_count, bytes.decode, {"words/0": bytes.decode}, count, Count, "n bigint", str.encode)

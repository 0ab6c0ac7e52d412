"""The applications that the pipelines benchmark runs: Market Spread, a word count, and one that gives back what it gets."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from struct import pack, unpack
from typing import Any

from headrace.pipelines import Flow, Pipeline

NBBO = 2
"""The type of a quote; that of an order is 1."""
MOST = 0.05
EVERY = 32
"""A word is given out each time that it was counted so many times again."""


@dataclass(frozen=True)
class App:
    """An application, and its functions by themselves.

    Attributes:
        pipeline: Makes the pipeline.
        decode: Makes a value of any payload.
        decoders: The same, of the payloads of each stream.
        function: Takes a value and its key's state.
        state: Makes the state of a new key; a dataclass.
        columns: That class in Spark's words.
        encode: Makes a payload of a result.
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
    """Type, symbol, time, bid, offer."""
    return unpack(">B4s21sdd", payload)


def decode_order(payload: bytes) -> tuple[Any, ...]:
    """Type, side, account, order id, symbol, quantity, price, time."""
    return unpack(">BBI6s4sdd21s", payload)


def decode_either(payload: bytes) -> tuple[Any, ...]:
    """A quote or an order."""
    return decode_nbbo(payload) if payload[0] == NBBO else decode_order(payload)


def symbol(message: tuple[Any, ...]) -> bytes:
    """What a quote or an order is about."""
    found: bytes = message[1] if message[0] == NBBO else message[4]
    return found


def decide(message: tuple[Any, ...], market: Market) -> tuple[Any, ...] | None:
    """A quote changes the market of its symbol; an order is held against it."""
    if message[0] == NBBO:
        _, _, _, bid, offer = message
        spread = offer - bid
        market.bid = bid
        market.offer = offer
        market.reject = spread >= MOST or spread / ((bid + offer) / 2) >= MOST
        return None
    if not market.reject:
        return None
    _, side, account, order_id, about, quantity, price, time = message
    at = datetime.strptime(time.decode(), "%Y%m%d-%H:%M:%S.%f").replace(tzinfo=UTC)
    return side, account, order_id, about, quantity, price, market.bid, market.offer, round(at.timestamp() * 1000)


def encode_result(result: tuple[Any, ...]) -> bytes:
    """A rejected order, in 55 bytes."""
    return pack(">BI6s4sddddQ", *result)


RESULT_BYTES = 55


def market_spread() -> Pipeline:
    """By the key of the messages, which is their symbol."""
    return _market_spread("bench-market-spread", None)


def market_spread_by_function() -> Pipeline:
    """By a key that a function computes."""
    return _market_spread("bench-computed-key", symbol)


def _market_spread(name: str, key: Callable[[tuple[Any, ...]], bytes] | None) -> Pipeline:
    app = Pipeline(name)
    quotes: Flow[tuple[Any, ...]] = app.source("market/nbbo", decode=decode_nbbo)
    orders = app.source("market/orders", decode=decode_order)
    quotes.merge(orders).key_by(key).stateful(decide, Market, name="markets").sink("bench", encode=encode_result)
    return app


@dataclass(slots=True)
class Count:
    """How often there was a word."""

    n: int = 0


def count(word: str, state: Count) -> str | None:
    """Counts; gives the word each time that it was there so many times again."""
    state.n += 1
    return None if state.n % EVERY else word


def word_count() -> Pipeline:
    """One state object for each word."""
    app = Pipeline("bench-word-count")
    app.source("words/*", decode=bytes.decode).key_by().stateful(count, Count, name="counts").sink("bench")
    return app


def number(payload: bytes, state: Count) -> bytes:
    """Counts, and gives back what it got."""
    state.n += 1
    return payload


def stamps() -> Pipeline:
    """Gives back every message, once its key's state has changed."""
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

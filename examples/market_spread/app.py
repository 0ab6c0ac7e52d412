"""Market Spread: rejects orders for symbols whose best prices are too far apart."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from messages import NBBO, Nbbo, Order, Result, decode_nbbo, decode_order, encode_result

from headrace.pipelines import Flow, Pipeline

MAX_SPREAD = 0.05
"""Orders are accepted while bid and offer are less than 5 cents, and less than 5 %, apart."""


@dataclass(slots=True)
class Market:
    """The latest quote of a symbol. There is no trade before the first one."""

    bid: float = 0.0
    offer: float = 0.0
    reject: bool = True


def too_far_apart(bid: Any, offer: Any) -> Any:
    """Whether orders are rejected at these prices, which may also be arrays."""
    spread = offer - bid
    return (spread >= MAX_SPREAD) | (spread / ((bid + offer) / 2) >= MAX_SPREAD)


def decide(message: Nbbo | Order, market: Market) -> Result | None:
    """Updates the market of a symbol with a quote, or checks an order against it."""
    if message[0] == NBBO:
        _, _, _, market.bid, market.offer = message
        market.reject = too_far_apart(market.bid, market.offer)
        return None
    if not market.reject:
        return None
    _, side, account, order_id, symbol, quantity, price, time = message
    return Result(side, account, order_id, symbol, quantity, price, market.bid, market.offer, milliseconds(time))


def milliseconds(time: bytes) -> int:
    """Converts a time to milliseconds since 1970-01-01 UTC."""
    return round(datetime.strptime(time.decode(), "%Y%m%d-%H:%M:%S.%f").replace(tzinfo=UTC).timestamp() * 1000)


app = Pipeline("market_spread")
quotes: Flow[Nbbo | Order] = app.source("market/nbbo", decode=decode_nbbo)
orders: Flow[Nbbo | Order] = app.source("market/orders", decode=decode_order)
# The key of each message is its symbol.
quotes.merge(orders).key_by().stateful(decide, Market, name="markets").sink("rejected", encode=encode_result)

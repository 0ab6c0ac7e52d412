"""The messages of Market Spread: big-endian records of a fixed length.

Quotes and orders are plain tuples, as returned by `unpack`: creating an instance of a class would double the time that a
message takes. The first field is the type.
"""

from struct import pack, unpack
from typing import Final, Literal, NamedTuple

ORDER: Final = 1
NBBO: Final = 2

Nbbo = tuple[Literal[2], bytes, bytes, float, float]
"""The best prices of a symbol: type, symbol, time, bid, offer."""
Order = tuple[Literal[1], int, int, bytes, bytes, float, float, bytes]
"""Type, side (1 buys, 2 sells), account, order id, symbol, quantity, price, time."""


class Result(NamedTuple):
    """A rejected order, with the prices at that moment."""

    side: int
    account: int
    order_id: bytes
    symbol: bytes
    quantity: float
    price: float
    bid: float
    offer: float
    timestamp: int
    """The order's time, in milliseconds since 1970-01-01 UTC."""


def decode_nbbo(payload: bytes) -> Nbbo:
    """Parses a quote of 42 bytes. Its time is text: `20160902-15:47:52.000`."""
    return unpack(">B4s21sdd", payload)


def decode_order(payload: bytes) -> Order:
    """Parses an order of 53 bytes."""
    return unpack(">BBI6s4sdd21s", payload)


def encode_result(result: Result) -> bytes:
    """Returns a result as 55 bytes."""
    return pack(">BI6s4sddddQ", *result)


def decode_result(payload: bytes) -> Result:
    """Parses the bytes of `encode_result`."""
    return Result(*unpack(">BI6s4sddddQ", payload))

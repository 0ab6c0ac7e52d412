"""The progress of a run of Market Spread, from the gateway's status and the sink's files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.laboratory.demo.market import Rejected, read_rejected
from headrace.laboratory.demo.observer import Observer
from headrace.laboratory.demo.progress import RunProgress
from headrace.laboratory.demo.view import milliseconds
from headrace.protocol.v1.admin_pb2 import StreamStatus
from headrace.terminal.tables import FittingTable, plain_table

_SHOWN = 10
_SIDES = {1: "buy", 2: "sell"}
_QUOTES, _ORDERS = "market/nbbo", "market/orders"


@dataclass(frozen=True, kw_only=True)
class MarketProgress(RunProgress):
    """The run at one moment."""

    quotes: int
    """The number of quotes that the gateway has received."""
    orders: int
    """The number of orders that the gateway has received."""
    rejected: int
    latest: tuple[Rejected, ...]
    """The latest rejected orders, the newest last."""

    def line(self) -> str:
        """Returns the figures in a line."""
        return (
            f"quotes {self.quotes:>9,}  orders {self.orders:>9,}  committed {self.committed / self.total:4.0%}"
            f"  {self.rate:>9,.0f}/s  ack latency {milliseconds(self.ack_latency_s):>8}  rejected {self.rejected:>4,}"
        )

    def arrivals(self) -> Mapping[str, str]:
        """Returns the numbers of quotes and orders received."""
        return {"quotes": f"{self.quotes:,}", "orders": f"{self.orders:,}"}

    def results(self) -> Mapping[str, str]:
        """Returns the number of rejected orders."""
        return {"rejected": f"{self.rejected:,}"}

    def table(self) -> FittingTable | None:
        """Returns the latest rejected orders as a table."""
        return rejected_table(self.latest) if self.latest else None


def rejected_table(orders: Sequence[Rejected]) -> FittingTable:
    """Returns rejected orders as a table."""
    table = plain_table("rejected", "order", "side", "#quantity", "#price", "#bid", "#offer", "#apart")
    for order in orders:
        prices = (f"{price:,.2f}" for price in (order.price, order.bid, order.offer))
        apart = f"{100 * (order.offer - order.bid):.2f} cents"
        symbol, number = order.symbol.decode().strip(), order.order_id.decode()
        table.add_row(symbol, number, _SIDES.get(order.side, "?"), f"{order.quantity:,.0f}", *prices, apart)
    return table


@dataclass(kw_only=True)
class MarketObserver(Observer[MarketProgress]):
    """Observes the gateway and the sink's files.

    Attributes:
        results: The folder of these files.
    """

    results: Path
    rejected: list[Rejected] = field(default_factory=list)
    _received: dict[str, int] = field(default_factory=lambda: {_QUOTES: 0, _ORDERS: 0})

    def count(self, stream: StreamStatus) -> tuple[int, int]:
        """Converts positions to numbers of messages: the first message of each stream has sequence 0."""
        if stream.stream not in self._received:
            return 0, 0
        if stream.HasField("received"):
            self._received[stream.stream] = stream.received.sequence + 1
        return self._received[stream.stream], stream.acknowledged.sequence + 1 if stream.HasField("acknowledged") else 0

    def progress(self, **known: Any) -> MarketProgress:
        """Adds the orders rejected so far."""
        self.rejected += read_rejected(self.results, len(self.rejected))
        return MarketProgress(
            **known,
            quotes=self._received[_QUOTES],
            orders=self._received[_ORDERS],
            rejected=len(self.rejected),
            latest=tuple(self.rejected[-_SHOWN:]),
        )

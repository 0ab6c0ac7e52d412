"""How far a run of Market Spread is: what the gateway's status and the sink's files say."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.demo._market import Rejected, read_rejected
from headrace.demo._meter import Meter
from headrace.demo._status import GatewayStatus
from headrace.demo._view import BAR_WIDTH, milliseconds

_SHOWN = 10
_SIDES = {1: "buy", 2: "sell"}


@dataclass(frozen=True)
class MarketProgress:
    """The run at one moment. Counts are of messages."""

    elapsed_s: float
    total: int
    quotes: int
    """Received by the gateway."""
    orders: int
    """Likewise."""
    committed: int
    rate: float
    """Messages committed each second, lately."""
    ack_latency_s: float | None
    """From a message's arrival at the gateway to its acknowledgement: the median of the latest measurements."""
    rejected: int
    latest: tuple[Rejected, ...]
    """Some of the rejected orders, the latest last."""
    attached: bool
    """True once the pipeline has been attached."""

    @property
    def moved(self) -> int:
        """Grows as long as anything goes on."""
        return self.attached + self.quotes + self.orders + self.committed

    def summary(self) -> str:
        """In a line."""
        if not self.quotes:
            return "Spark is attached" if self.attached else "Spark starts"
        return (
            f"quotes {self.quotes:>9,}  orders {self.orders:>9,}  committed {self.committed / self.total:4.0%}"
            f"  {self.rate:>9,.0f}/s  ack latency {milliseconds(self.ack_latency_s):>8}  rejected {self.rejected:>4,}"
        )

    def screen(self) -> RenderableType:
        """On a terminal: a bar, the figures, and the orders rejected last."""
        figures = Table.grid(padding=(0, 3))
        figures.add_row("quotes", "orders", "committed", "rate", "ack latency", "rejected", "elapsed", style="dim")
        figures.add_row(
            f"{self.quotes:,}",
            f"{self.orders:,}",
            f"{self.committed:,}",
            f"{self.rate:,.0f}/s",
            milliseconds(self.ack_latency_s),
            f"{self.rejected:,}",
            f"{self.elapsed_s:.1f} s",
        )
        waiting = Text("" if self.quotes else self.summary(), style="dim")
        parts = [figures, ProgressBar(total=self.total, completed=self.committed, width=BAR_WIDTH) if self.quotes else waiting]
        if self.latest:
            parts.append(rejected_table(self.latest))
        return Group(*parts)


def rejected_table(orders: Sequence[Rejected]) -> Table:
    """Rejected orders, for people."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("rejected")
    table.add_column("order")
    table.add_column("side")
    for column in ("quantity", "price", "bid", "offer", "apart"):
        table.add_column(column, justify="right")
    for order in orders:
        prices = (f"{price:,.2f}" for price in (order.price, order.bid, order.offer))
        apart = f"{100 * (order.offer - order.bid):.2f} cents"
        symbol, number = order.symbol.decode().strip(), order.order_id.decode()
        table.add_row(symbol, number, _SIDES.get(order.side, "?"), f"{order.quantity:,.0f}", *prices, apart)
    return table


@dataclass
class MarketObserver:
    """Looks at the gateway and at the sink's files, again and again; a gateway that is away leaves what was known.

    Attributes:
        messages: How many each of the two streams has.
        results: The folder of the sink's files.
    """

    messages: int
    results: Path
    began: float = field(default_factory=time.monotonic)
    meter: Meter = field(default_factory=Meter)
    gateway: GatewayStatus = field(default_factory=GatewayStatus)
    rejected: list[Rejected] = field(default_factory=list)
    _attached: bool = False
    _received: dict[str, int] = field(default_factory=lambda: {"market/nbbo": 0, "market/orders": 0})

    def look(self) -> MarketProgress:
        """How far the run is now."""
        now = time.monotonic() - self.began
        status = self.gateway.get()
        if status is not None:
            self._attached |= any(pipeline.attached for pipeline in status.pipelines)
            committed = 0
            for stream in status.streams:
                # The first message of each stream has the sequence 0.
                if stream.stream in self._received and stream.HasField("received"):
                    self._received[stream.stream] = stream.received.sequence + 1
                if stream.stream in self._received and stream.HasField("acknowledged"):
                    committed += stream.acknowledged.sequence + 1
            self.meter.note(sum(self._received.values()), committed, now)
        self.rejected += read_rejected(self.results, len(self.rejected))
        return MarketProgress(
            elapsed_s=now,
            total=2 * self.messages,
            quotes=self._received["market/nbbo"],
            orders=self._received["market/orders"],
            committed=self.meter.committed,
            rate=self.meter.rate(now),
            ack_latency_s=self.meter.recent_latency(),
            rejected=len(self.rejected),
            latest=tuple(self.rejected[-_SHOWN:]),
            attached=self._attached,
        )

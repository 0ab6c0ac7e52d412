"""How far the run is: what the gateway's status and the pipeline's table say."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from headrace.demo._airlines import Airline, Table, read_table
from headrace.demo._flights import FlightFile
from headrace.demo._meter import Meter
from headrace.demo._status import GatewayStatus
from headrace.demo._view import BAR_WIDTH, milliseconds


@dataclass(frozen=True)
class Progress:
    """The run at one moment. Counts are of messages, taken from positions, so that a gateway's restart loses none."""

    elapsed_s: float
    total: int
    received: int
    committed: int
    rate: float
    """Messages committed each second, lately."""
    ack_latency_s: float | None
    """From a message's arrival at the gateway to its acknowledgement: the median of the latest measurements."""
    airlines: tuple[Airline, ...]
    attached: bool
    """True once a pipeline has been attached."""

    def summary(self) -> str:
        """In a line."""
        if not self.received:
            return "Spark is attached" if self.attached else "Spark starts"
        share = self.committed / self.total
        return (
            f"in {self.received:>7,}  committed {self.committed:>7,} ({share:4.0%})  {self.rate:>8,.0f}/s"
            f"  ack latency {milliseconds(self.ack_latency_s):>8}  airlines {len(self.airlines):>2}"
        )

    def screen(self) -> RenderableType:
        """On a terminal: a bar, the figures and the airlines so far."""
        figures = Grid.grid(padding=(0, 3))
        figures.add_row("messages in", "committed", "rate", "ack latency", "airlines", "elapsed", style="dim")
        figures.add_row(
            f"{self.received:,}",
            f"{self.committed:,}",
            f"{self.rate:,.0f}/s",
            milliseconds(self.ack_latency_s),
            str(len(self.airlines)),
            f"{self.elapsed_s:.1f} s",
        )
        bar = ProgressBar(total=self.total, completed=self.committed, width=BAR_WIDTH)
        waiting = Text("" if self.received else self.summary(), style="dim")
        parts = [figures, bar if self.received else waiting]
        if self.airlines:
            parts.append(airline_table(self.airlines, {}))
        return Group(*parts)


def airline_table(airlines: Sequence[Airline], names: dict[str, str]) -> Grid:
    """The figures of all airlines, for people."""
    table = Grid(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("airline")
    if names:
        table.add_column("name")
    for column in ("flights", "cancelled", "mean delay", "worst delay"):
        table.add_column(column, justify="right")
    for airline in airlines:
        mean = f"{airline.mean_delay:.2f} min" if airline.mean_delay is not None else "-"
        worst = f"{airline.worst_delay:,} min" if airline.worst_delay is not None else "-"
        name = (names.get(airline.carrier, ""),) if names else ()
        table.add_row(airline.carrier, *name, f"{airline.flights:,}", f"{airline.cancelled:,}", mean, worst)
    return table


@dataclass
class Observer:
    """Looks at the gateway and at the table, again and again; a gateway that is away leaves what was known."""

    flights: FlightFile
    stream: str
    table: Path
    began: float = field(default_factory=time.monotonic)
    meter: Meter = field(default_factory=Meter)
    gateway: GatewayStatus = field(default_factory=GatewayStatus)
    _attached: bool = False
    _table: Table | None = None

    def look(self) -> Progress:
        """How far the run is now."""
        now = time.monotonic() - self.began
        status = self.gateway.get()
        if status is not None:
            self._attached |= any(pipeline.attached for pipeline in status.pipelines)
            for stream in status.streams:
                if stream.stream == self.stream:
                    received = self.flights.lines_through(stream.received.sequence)
                    self.meter.note(received, self.flights.lines_through(stream.acknowledged.sequence), now)
        self._table = read_table(self.table) or self._table
        return Progress(
            elapsed_s=now,
            total=self.flights.lines,
            received=self.meter.received,
            committed=self.meter.committed,
            rate=self.meter.rate(now),
            ack_latency_s=self.meter.recent_latency(),
            airlines=self._table.airlines if self._table is not None else (),
            attached=self._attached,
        )

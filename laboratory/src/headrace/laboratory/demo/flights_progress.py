"""The progress of a run of the flights, from the gateway's status and the pipeline's table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.laboratory.demo.airlines import Airline, Table, read_table
from headrace.laboratory.demo.flights import FlightFile
from headrace.laboratory.demo.observer import Observer
from headrace.laboratory.demo.progress import RunProgress
from headrace.laboratory.demo.view import milliseconds
from headrace.protocol.v1.admin_pb2 import StreamStatus
from headrace.terminal.tables import FittingTable, plain_table


@dataclass(frozen=True, kw_only=True)
class FlightsProgress(RunProgress):
    """The run at one moment."""

    airlines: tuple[Airline, ...]

    def line(self) -> str:
        """Returns the figures in a line."""
        return (
            f"in {self.received:>7,}  committed {self.committed:>7,} ({self.committed / self.total:4.0%})  {self.rate:>8,.0f}/s"
            f"  ack latency {milliseconds(self.ack_latency_s):>8}  airlines {len(self.airlines):>2}"
        )

    def arrivals(self) -> Mapping[str, str]:
        """Returns the number of flights received, including the file's header."""
        return {"messages in": f"{self.received:,}"}

    def results(self) -> Mapping[str, str]:
        """Returns the number of airlines."""
        return {"airlines": str(len(self.airlines))}

    def table(self) -> FittingTable | None:
        """Returns the airlines so far."""
        return airline_table(self.airlines, {}) if self.airlines else None


def airline_table(airlines: Sequence[Airline], names: dict[str, str]) -> FittingTable:
    """Returns the figures of all airlines as a table."""
    table = plain_table("airline", *(["name"] if names else []), "#flights", "#cancelled", "#mean delay", "#worst delay")
    for airline in airlines:
        mean = f"{airline.mean_delay:.2f} min" if airline.mean_delay is not None else "-"
        worst = f"{airline.worst_delay:,} min" if airline.worst_delay is not None else "-"
        name = (names.get(airline.carrier, ""),) if names else ()
        table.add_row(airline.carrier, *name, f"{airline.flights:,}", f"{airline.cancelled:,}", mean, worst)
    return table


@dataclass(kw_only=True)
class FlightsObserver(Observer[FlightsProgress]):
    """Observes the gateway and the table."""

    flights: FlightFile
    stream: str
    table: Path
    _table: Table | None = None

    def count(self, stream: StreamStatus) -> tuple[int, int]:
        """Converts the stream's positions, which are byte offsets, to numbers of lines."""
        if stream.stream != self.stream:
            return 0, 0
        return self.flights.lines_through(stream.received.sequence), self.flights.lines_through(stream.acknowledged.sequence)

    def progress(self, **known: Any) -> FlightsProgress:
        """Adds the airlines so far."""
        self._table = read_table(self.table) or self._table
        return FlightsProgress(**known, airlines=self._table.airlines if self._table is not None else ())

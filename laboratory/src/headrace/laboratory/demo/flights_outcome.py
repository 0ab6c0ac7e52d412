"""The outcome of a run of the flights, for people and for programs."""

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from headrace.laboratory.demo.airlines import Airline, Difference
from headrace.laboratory.demo.chaos import Killed
from headrace.laboratory.demo.flights import airline_names
from headrace.laboratory.demo.flights_progress import airline_table
from headrace.laboratory.demo.outcome import RunOutcome


@dataclass(frozen=True)
class Pace:
    """The sizes that determine how fast the stream moves."""

    max_messages: int
    """The maximum in a micro-batch."""
    buffer_bytes: str
    """The size of the gateway's buffer."""


@dataclass(frozen=True, kw_only=True)
class FlightsOutcome(RunOutcome):
    """The airlines, and the differences from a plain computation."""

    airlines: tuple[Airline, ...]
    differences: tuple[Difference, ...]
    figures_compared: int
    kills: tuple[Killed, ...]
    pace: Pace
    seed: int | None

    @property
    def right(self) -> bool:
        """Whether every figure equals the figure of a plain computation."""
        return not self.differences

    def check(self) -> str:
        """Returns the result of the comparison, in a line."""
        if self.differences:
            return f"{len(self.differences)} of {self.figures_compared} figures differ from a plain computation over the file"
        count = len(self.kills)
        after = f" after {count} {'kill' if count == 1 else 'kills'}" if count else ""
        return f"all {self.figures_compared} figures equal a plain computation over the file{after}"

    def print_results(self, console: Console) -> None:
        """Prints the airlines, and each figure that differs."""
        console.print(airline_table(self.airlines, airline_names()))
        console.print()
        for difference in self.differences:
            console.print(str(difference), style="red")

    def results(self) -> dict[str, Any]:
        """Returns the results as plain data for JSON. Times are in seconds, delays in minutes."""
        return {
            "airlines": [{**asdict(airline), "mean_delay": airline.mean_delay} for airline in self.airlines],
            "checks": {
                "equal": self.equal,
                "figures": self.figures_compared,
                "differences": [asdict(difference) for difference in self.differences],
            },
            "pace": asdict(self.pace),
            "seed": self.seed,
            "kills": [asdict(killed) for killed in self.kills],
        }

"""The outcome of a run of a demo: the number of messages, their rate, and whether the results are right."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from headrace.laboratory.demo.meter import Stretch
from headrace.laboratory.demo.view import milliseconds
from headrace.terminal.tables import FittingTable, plain_table


@dataclass(frozen=True, kw_only=True)
class RunOutcome(ABC):
    """The outcome of any run."""

    messages: int
    acknowledged: int
    elapsed_s: float
    stream_s: float
    """Seconds from the first message's arrival at the gateway to the last one's acknowledgement."""
    ack_latency_p50_s: float | None
    ack_latency_p99_s: float | None
    halves: tuple[Stretch, Stretch] | None
    """The stream while Spark's JVM warms up, and afterwards; None if the driver was killed meanwhile."""

    @property
    @abstractmethod
    def right(self) -> bool:
        """Whether the results equal the results of a plain computation."""

    @abstractmethod
    def check(self) -> str:
        """Returns the result of the comparison, given that all messages are acknowledged."""

    @abstractmethod
    def print_results(self, console: Console) -> None:
        """Prints the results."""

    @abstractmethod
    def results(self) -> dict[str, Any]:
        """Returns the results as plain data for JSON."""

    @property
    def rate(self) -> float:
        """Messages per second, over the time of the stream."""
        return self.messages / self.stream_s if self.stream_s else 0.0

    @property
    def equal(self) -> bool:
        """Whether every message was acknowledged and the results are right."""
        return self.right and self.acknowledged == self.messages

    def summary(self) -> str:
        """Returns the result in one line."""
        if self.acknowledged != self.messages:
            return f"only {self.acknowledged:,} of {self.messages:,} messages are acknowledged"
        return self.check()

    def print_to(self, console: Console) -> None:
        """Prints the results, the check and the times."""
        console.print()
        self.print_results(console)
        console.print(f"{'Equal' if self.equal else 'NOT EQUAL'}: {self.summary()}.", style="green" if self.equal else "red")
        latency = f"{milliseconds(self.ack_latency_p50_s)} (p50), {milliseconds(self.ack_latency_p99_s)} (p99)"
        console.print(
            f"{self.acknowledged:,} messages acknowledged in {self.stream_s:.1f} s: {self.rate:,.0f} a second; "
            f"from arrival to acknowledgement {latency}; {self.elapsed_s:.1f} s in all."
        )
        if self.halves is not None:
            console.print(_halves(*self.halves))

    def document(self) -> dict[str, Any]:
        """Returns everything as plain data for JSON. Times are in seconds."""
        cold, warm = self.halves or (None, None)
        return {
            "messages": self.messages,
            "acknowledged": self.acknowledged,
            "elapsed_s": round(self.elapsed_s, 3),
            "stream_s": round(self.stream_s, 3),
            "messages_per_s": round(self.rate),
            "ack_latency_p50_s": _rounded(self.ack_latency_p50_s),
            "ack_latency_p99_s": _rounded(self.ack_latency_p99_s),
            "cold": _half(cold),
            "warm": _half(warm),
            **self.results(),
        }


def _halves(cold: Stretch, warm: Stretch) -> FittingTable:
    table = plain_table("", "#messages", "#a second", "#p50", "#p99")
    for name, half in (("first half, JVM cold", cold), ("second half, JVM warm", warm)):
        latency = (milliseconds(half.ack_latency_p50_s), milliseconds(half.ack_latency_p99_s))
        table.add_row(name, f"{half.messages:,}", f"{half.rate:,.0f}", *latency)
    return table


def _half(half: Stretch | None) -> dict[str, Any] | None:
    if half is None:
        return None
    return {
        "messages": half.messages,
        "took_s": round(half.took_s, 3),
        "messages_per_s": round(half.rate),
        "ack_latency_p50_s": _rounded(half.ack_latency_p50_s),
        "ack_latency_p99_s": _rounded(half.ack_latency_p99_s),
    }


def _rounded(seconds: float | None) -> float | None:
    return round(seconds, 3) if seconds is not None else None

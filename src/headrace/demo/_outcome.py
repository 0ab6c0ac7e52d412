"""What every run of a demo comes to: how many messages, how fast, and whether the results are right."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from headrace.demo._view import milliseconds


@dataclass(frozen=True, kw_only=True)
class RunOutcome(ABC):
    """What a run came to, whatever it has computed."""

    messages: int
    acknowledged: int
    elapsed_s: float
    stream_s: float
    """From the first message's arrival at the gateway to the last one's acknowledgement."""
    ack_latency_p50_s: float | None
    ack_latency_p99_s: float | None

    @property
    @abstractmethod
    def right(self) -> bool:
        """True where the results are those of a plain computation."""

    @property
    def rate(self) -> float:
        """Messages a second, over the time of the stream."""
        return self.messages / self.stream_s if self.stream_s else 0.0

    @property
    def equal(self) -> bool:
        """True where every message was acknowledged and the results are right."""
        return self.right and self.acknowledged == self.messages


def print_check(console: Console, outcome: RunOutcome, summary: str) -> None:
    """Whether all is right, and the times."""
    console.print(f"{'Equal' if outcome.equal else 'NOT EQUAL'}: {summary}.", style="green" if outcome.equal else "red")
    latency = f"{milliseconds(outcome.ack_latency_p50_s)} (p50), {milliseconds(outcome.ack_latency_p99_s)} (p99)"
    console.print(
        f"{outcome.acknowledged:,} messages acknowledged in {outcome.stream_s:.1f} s: {outcome.rate:,.0f} a second; "
        f"from arrival to acknowledgement {latency}; {outcome.elapsed_s:.1f} s in all."
    )


def figures(outcome: RunOutcome) -> dict[str, Any]:
    """The same as JSON has it. Times are in seconds."""
    return {
        "messages": outcome.messages,
        "acknowledged": outcome.acknowledged,
        "elapsed_s": round(outcome.elapsed_s, 3),
        "stream_s": round(outcome.stream_s, 3),
        "messages_per_s": round(outcome.rate),
        "ack_latency_p50_s": _rounded(outcome.ack_latency_p50_s),
        "ack_latency_p99_s": _rounded(outcome.ack_latency_p99_s),
    }


def _rounded(seconds: float | None) -> float | None:
    return round(seconds, 3) if seconds is not None else None

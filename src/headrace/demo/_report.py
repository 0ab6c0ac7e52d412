"""What a run came to, for people and for programs."""

from dataclasses import asdict
from typing import Any

from rich.console import Console

from headrace.demo._flights import airline_names
from headrace.demo._run import Outcome, Pace
from headrace.demo._view import airline_table, milliseconds


def summary(outcome: Outcome) -> str:
    """The result in one line."""
    if outcome.acknowledged != outcome.messages:
        return f"only {outcome.acknowledged:,} of {outcome.messages:,} messages are acknowledged"
    if outcome.differences:
        return f"{len(outcome.differences)} of {outcome.figures_compared} figures differ from a plain computation over the file"
    after = f" after {len(outcome.kills)} kills" if outcome.kills else ""
    return f"all {outcome.figures_compared} figures equal a plain computation over the file{after}"


def print_outcome(console: Console, outcome: Outcome) -> None:
    """The table, the check and the times."""
    console.print()
    console.print(airline_table(outcome.airlines, airline_names()))
    console.print()
    for difference in outcome.differences:
        console.print(str(difference), style="red")
    console.print(f"{'Equal' if outcome.equal else 'NOT EQUAL'}: {summary(outcome)}.", style="green" if outcome.equal else "red")
    latency = f"{milliseconds(outcome.ack_latency_p50_s)} (p50), {milliseconds(outcome.ack_latency_p99_s)} (p99)"
    console.print(
        f"{outcome.acknowledged:,} messages acknowledged in {outcome.stream_s:.1f} s: {outcome.rate:,.0f} a second; "
        f"from arrival to acknowledgement {latency}; {outcome.elapsed_s:.1f} s in all."
    )


def document(outcome: Outcome, pace: Pace, seed: int | None) -> dict[str, Any]:
    """The result as JSON has it. Times are in seconds, delays in minutes."""
    return {
        "messages": outcome.messages,
        "acknowledged": outcome.acknowledged,
        "elapsed_s": round(outcome.elapsed_s, 3),
        "stream_s": round(outcome.stream_s, 3),
        "messages_per_s": round(outcome.rate),
        "ack_latency_p50_s": _rounded(outcome.ack_latency_p50_s),
        "ack_latency_p99_s": _rounded(outcome.ack_latency_p99_s),
        "airlines": [{**asdict(airline), "mean_delay": airline.mean_delay} for airline in outcome.airlines],
        "checks": {
            "equal": outcome.equal,
            "figures": outcome.figures_compared,
            "differences": [asdict(difference) for difference in outcome.differences],
        },
        "pace": asdict(pace),
        "seed": seed,
        "kills": [asdict(killed) for killed in outcome.kills],
    }


def _rounded(seconds: float | None) -> float | None:
    return round(seconds, 3) if seconds is not None else None

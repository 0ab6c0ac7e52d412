"""What a run came to, for people and for programs."""

from dataclasses import asdict
from typing import Any

from rich.console import Console

from headrace.demo._flights import airline_names
from headrace.demo._outcome import figures, print_check
from headrace.demo._progress import airline_table
from headrace.demo._run import Outcome, Pace


def summary(outcome: Outcome) -> str:
    """The result in one line."""
    if outcome.acknowledged != outcome.messages:
        return f"only {outcome.acknowledged:,} of {outcome.messages:,} messages are acknowledged"
    if outcome.differences:
        return f"{len(outcome.differences)} of {outcome.figures_compared} figures differ from a plain computation over the file"
    count = len(outcome.kills)
    after = f" after {count} {'kill' if count == 1 else 'kills'}" if count else ""
    return f"all {outcome.figures_compared} figures equal a plain computation over the file{after}"


def print_outcome(console: Console, outcome: Outcome) -> None:
    """The table, the check and the times."""
    console.print()
    console.print(airline_table(outcome.airlines, airline_names()))
    console.print()
    for difference in outcome.differences:
        console.print(str(difference), style="red")
    print_check(console, outcome, summary(outcome))


def document(outcome: Outcome, pace: Pace, seed: int | None) -> dict[str, Any]:
    """The result as JSON has it. Times are in seconds, delays in minutes."""
    return {
        **figures(outcome),
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

"""What a run of Market Spread came to, for people and for programs."""

from dataclasses import asdict
from typing import Any

from rich.console import Console

from headrace.demo._market_progress import rejected_table
from headrace.demo._market_run import MarketOutcome
from headrace.demo._outcome import figures, print_check

_SHOWN = 20


def summary(outcome: MarketOutcome) -> str:
    """The result in one line."""
    if outcome.acknowledged != outcome.messages:
        return f"only {outcome.acknowledged:,} of {outcome.messages:,} messages are acknowledged"
    found = outcome.checked
    if not found.equal:
        return (
            f"of {found.rejected:,} orders to be rejected {found.missing:,} were not, and {found.wrong:,} were wrongly rejected"
        )
    return f"the {found.rejected:,} rejected orders are those that a plain loop over the same messages rejects"


def print_outcome(console: Console, outcome: MarketOutcome) -> None:
    """The rejected orders, the check and the times."""
    console.print()
    if outcome.rejected:
        console.print(rejected_table(outcome.rejected[:_SHOWN]))
        if len(outcome.rejected) > _SHOWN:
            console.print(f"and {len(outcome.rejected) - _SHOWN:,} more")
        console.print()
    print_check(console, outcome, summary(outcome))


def document(outcome: MarketOutcome) -> dict[str, Any]:
    """The result as JSON has it. Times are in seconds."""
    return {
        **figures(outcome),
        "rejected": [
            {**asdict(order), "order_id": order.order_id.decode(), "symbol": order.symbol.decode().strip()}
            for order in outcome.rejected
        ],
        "checks": {"equal": outcome.equal, **asdict(outcome.checked)},
    }

"""The report of a run, for people and for programs."""

from dataclasses import asdict
from typing import Any

from rich.console import Console

from headrace.laboratory.chaos.run import Outcome
from headrace.laboratory.chaos.schedule import How
from headrace.terminal.tables import plain_table

_SHOWN = 20
_HOW = {How.KILL: "", How.RIVAL: ", replaced while it ran", How.STALE: ", replaced while it stood still"}


def summary(outcome: Outcome) -> str:
    """Returns the verdict in one line."""
    after = f"after {sum(len(killed.roles) for killed in outcome.kills)} kills"
    if outcome.findings:
        return f"{len(outcome.findings)} findings {after}"
    return f"all {outcome.messages:,} messages are in both sinks as they should be, with the right state, {after}"


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Prints every kill with its recovery, and the verdict."""
    table = plain_table("#at", "killed", "process", "#recovered after")
    for killed in outcome.kills:
        names = " and ".join(killed.roles) + (", while others recovered" if killed.in_recovery else _HOW[killed.how])
        table.add_row(f"{killed.at_s:.1f} s", names, " ".join(map(str, killed.pids)), f"{killed.recovered_s:.1f} s")
    console.print(table)
    console.print()
    for finding in outcome.findings[:_SHOWN]:
        console.print(str(finding), style="red", markup=False)
    if len(outcome.findings) > _SHOWN:
        console.print(f"... and {len(outcome.findings) - _SHOWN} more", style="red")
    word, style = ("DOES NOT HOLD", "red") if outcome.findings else ("Holds", "green")
    console.print(f"{word}: {summary(outcome)}.", style=style)


def document(outcome: Outcome, seed: int, master: str) -> dict[str, Any]:
    """Returns the result as plain data for JSON. Times are in seconds."""
    return {
        "seed": seed,
        "master": master,
        "messages": outcome.messages,
        "elapsed_s": round(outcome.elapsed_s, 3),
        "failed_queries": outcome.failed_queries,
        "kills": [
            asdict(killed) | {"at_s": round(killed.at_s, 3), "recovered_s": round(killed.recovered_s, 3)}
            for killed in outcome.kills
        ],
        "findings": [asdict(finding) for finding in outcome.findings],
    }

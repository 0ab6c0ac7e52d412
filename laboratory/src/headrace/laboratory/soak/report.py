"""The report of a soak, for people and for programs."""

from typing import Any

from rich.console import Console

from headrace.laboratory.soak.run import Outcome, Plan
from headrace.laboratory.soak.series import Judged
from headrace.laboratory.soak.slope import CONFIDENCE, Verdict
from headrace.terminal.tables import plain_table

_STYLES = {Verdict.GROWS: "red", Verdict.UNSURE: "yellow", Verdict.TOO_SHORT: "dim", Verdict.FLAT: ""}


def summary(outcome: Outcome, plan: Plan) -> str:
    """Returns the result in one line."""
    ran = f"{outcome.measured_s / 60:.1f} minutes"
    if outcome.growing:
        found = ", ".join(f"{_label(judged)} by {_slope(judged)} MB an hour" for judged in outcome.growing)
        return f"memory grows over {ran}: {found}"
    if outcome.stopped:
        return f"stopped after {outcome.measured_s / 60:.1f} of {plan.seconds / 60:g} minutes; no growth was found until then"
    judged = [one for one in outcome.judged if one.slope is not None]
    if not judged:
        return f"{ran} are too short for a verdict"
    if unsure := [one for one in judged if one.verdict is Verdict.UNSURE]:
        found = ", ".join(f"{_label(one)} with {_slope(one)} MB an hour" for one in unsure)
        return f"no significant growth over {ran}; only a longer run can decide about {found}"
    steepest = max(judged, key=lambda one: (one.slope.per_hour if one.slope else 0.0) / one.bound)
    return f"nothing grows by more than {plan.bound:g} MB an hour; steepest {_label(steepest)}, {_slope(steepest)} MB an hour"


def print_outcome(console: Console, outcome: Outcome, plan: Plan) -> None:
    """Prints every process with its slope, and the result."""
    numbers = ("#pid", "#MB at first", "#MB at last", "#resident", "#MB/hour", f"#{CONFIDENCE:.1%} interval", "#bound")
    table = plain_table("process", *numbers, "", prose=True)
    for judged in outcome.judged:
        series, slope = judged.series, judged.slope
        table.add_row(
            series.name,
            str(series.pid or ""),
            _megabytes(series.own[:1]),
            _megabytes(series.own[-1:]),
            _megabytes(series.resident[-1:]),
            _slope(judged),
            f"{slope.low:+,.1f} to {slope.high:+,.1f}" if slope else "",
            f"{judged.bound:g}",
            str(judged.verdict),
            style=_STYLES[judged.verdict],
        )
    console.print(table)
    console.print(
        f"{outcome.messages:,} messages acknowledged in {outcome.micro_batches:,} micro-batches; "
        f"{outcome.measured_s / 60:.1f} minutes, the first {plan.warm_up_s / 60:.1f} of them warm-up."
    )
    console.print(f"{summary(outcome, plan)}.", style="red" if outcome.growing else "" if outcome.stopped else "green")


def document(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """Returns the result as plain data for JSON. Memory is in MB of 10^6 bytes, slopes in MB per hour, times in seconds."""
    return {
        "plan": {
            "seconds": plan.seconds,
            "warm_up_s": plan.warm_up_s,
            "bound_mb_per_hour": plan.bound,
            "messages_per_s": plan.rate,
            "keys": plan.keys,
            "master": plan.master,
        },
        "measured_s": round(outcome.measured_s, 1),
        "stopped": outcome.stopped,
        "messages": outcome.messages,
        "unacknowledged": outcome.unacknowledged,
        "micro_batches": outcome.micro_batches,
        "processes": [_process(judged) for judged in outcome.judged],
    }


def _process(judged: Judged) -> dict[str, Any]:
    series, slope = judged.series, judged.slope
    return {
        "name": series.name,
        "pid": series.pid,
        "samples": len(series.times_s),
        "first_mb": round(series.own[0], 3) if series.own else None,
        "last_mb": round(series.own[-1], 3) if series.own else None,
        "last_resident_mb": round(series.resident[-1], 3) if series.resident else None,
        "mb_per_hour": round(slope.per_hour, 3) if slope else None,
        "low_mb_per_hour": round(slope.low, 3) if slope else None,
        "high_mb_per_hour": round(slope.high, 3) if slope else None,
        "bound_mb_per_hour": judged.bound,
        "verdict": str(judged.verdict),
    }


def _megabytes(values: list[float]) -> str:
    """Formats the only value; empty if there is none."""
    return f"{values[0]:,.1f}" if values else ""


def _label(judged: Judged) -> str:
    series = judged.series
    return series.name if series.pid is None else f"{series.name} ({series.pid})"


def _slope(judged: Judged) -> str:
    return f"{judged.slope.per_hour:+,.1f}" if judged.slope else ""

"""What observing a gateway costs: runs with and without it, in turns."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.parts import Say

PAIRS = 6


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a gateway."""

    rate: float
    """Messages acknowledged per second."""
    cpu_us: float
    """The gateway's processor time for each message, in microseconds."""


def overhead(name: str, what: str, run: Callable[[bool], Run], say: Say, quick: bool) -> Iterator[Figure]:
    """Compares messages per second with and without something that observes the gateway.

    Each comes first in as many pairs as the other, so that what the machine does meanwhile affects both alike. The gateway's
    processor time varies less from run to run.

    Args:
        name: The name of the figure.
        what: What observes the gateway, for the progress.
        run: Runs once, observed or not.
        say: Takes the progress.
        quick: Whether one pair is enough.
    """
    observed, plain = list[Run](), list[Run]()
    for pair in range(1 if quick else PAIRS):
        for is_observed in (False, True) if pair % 2 else (True, False):
            (observed if is_observed else plain).append(run(is_observed))
        say(f"  {observed[-1].rate:,.0f} messages/s with {what}, {plain[-1].rate:,.0f} without")
    rate, baseline = (statistics.geometric_mean(run.rate for run in runs) for runs in (observed, plain))
    yield Figure(name, rate, "messages/s", baseline, ">= 0.97 of the baseline", rate >= 0.97 * baseline)
    cpu, without = (statistics.geometric_mean(run.cpu_us for run in runs) for runs in (observed, plain))
    yield Figure(f"{name}_gateway_cpu", cpu, "us/message", without)
    yield from itself(name, [run.rate for run in plain], "messages/s")
    yield from itself(f"{name}_gateway_cpu", [run.cpu_us for run in plain], "us/message")

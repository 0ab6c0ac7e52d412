"""`headrace bench latency`: from when a message is due until it is visible, and acknowledged."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headrace.laboratory.bench.figures import Figure, Progress
from headrace.laboratory.bench.latency import parts as measured
from headrace.laboratory.bench.latency.measure import KEYS
from headrace.laboratory.bench.latency.plot import Series, svg
from headrace.laboratory.bench.latency.workers import real_time_workers
from headrace.laboratory.bench.parts import Part, run_parts

PARTS = {
    "stateful": measured.stateful,
    "real-time": measured.real_time,
    "real-time-rates": measured.real_time_rates,
    "real-time-workers": lambda _, *others: real_time_workers(*others),
    "stateless": measured.stateless,
    "curves": measured.curves,
}


def run(parts: Sequence[str], quick: bool, say: Progress, *, plot: Path | None) -> tuple[list[Figure], dict[str, Any]]:
    """Runs the named parts in one session, one after the other, warm unless quick. Returns their figures and the conditions.

    Args:
        parts: Their names.
        quick: Whether to only check that everything works.
        say: Called with lines of progress.
        plot: The file for a plot of what was measured, if there is to be one.
    """
    plotted: Series = {}
    known: dict[str, Part] = {name: partial(part, plotted) for name, part in PARTS.items()}
    found = run_parts(
        known | {"warm-up": measured.warm_up},
        parts if quick else ["warm-up", *parts],
        quick,
        say,
        quick_start=True,
        jvm="as headrace run starts it, also for floor_p50",
        rate=f"{measured.RATE:,} messages/s",
        keys=str(KEYS),
        latency="from when a message is due until it can be read in the sink's file; ack_p50 until its source knows",
        floor="one row a micro-batch, groupBy().count() in the JVM, the session's state store, noop sink; all of its duration",
        sink="file-sink, lines, every transaction forced to disk",
        real_time="to an at-least-once sink that appends to a file, without forcing it to disk",
        processes="connector, gateway, Spark (local[*]), sink and the observer of its files share all cores",
    )
    if plot is not None:
        plot.write_text(svg(plotted), encoding="utf-8")
    return found

"""The figures of a benchmark, as a table for people and as JSON for programs."""

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from headrace.contract.errors import HeadraceError
from headrace.terminal.tables import FittingTable, plain_table


class NothingMeasured(HeadraceError):
    """Nothing happened while a benchmark measured; the message has its part."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        name: The name of the measurement.
        value: The figure.
        unit: Its unit.
        baseline: The figure to compare it with, in the same unit and from the same run; None if there is none.
        target: The target, as text; empty if there is none.
        met: Whether the target is met; None if there is none.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    target: str = ""
    met: bool | None = None

    @property
    def ratio(self) -> float | None:
        """The value divided by the baseline."""
        return self.value / self.baseline if self.baseline else None


BUDGET_S = 480.0
"""How long a run of all parts may take until it begins no further one, in seconds: ten minutes, without what it then ends."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a benchmark. Each figure is shown and kept as soon as it is measured: a run that ends early has some.

    Attributes:
        say: Shows a line.
        figures: The measurements so far.
        ends_at: When it is to begin nothing more, on the monotonic clock; None if it may take as long as it needs.
        not_begun: The measurements that it has not begun for this reason.
    """

    say: Callable[[str], None]
    figures: list[Figure] = field(default_factory=list)
    ends_at: float | None = None
    not_begun: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> None:
        """Shows a line."""
        self.say(text)

    def begins(self, part: str, takes_s: float = 0.0) -> bool:
        """Returns whether there is time for a part, by the seconds that it takes; notes the part if there is not."""
        if self.ends_at is None or time.monotonic() + takes_s < self.ends_at:
            return True
        self.not_begun.append(part)
        self.say(f"{part} is left out: the benchmark would take more than ten minutes; --only runs a part, however long it takes")
        return False

    def take(self, figure: Figure) -> None:
        """Shows and keeps a figure. It replaces the figure of the same name from fewer rounds."""
        self.figures[:] = [*(known for known in self.figures if known.name != figure.name), figure]
        baseline = "" if figure.baseline is None else f", baseline {_number(figure.baseline)}"
        target = "" if figure.met is None else f", target {figure.target} {'met' if figure.met else 'missed'}"
        self.say(f"  {figure.name}: {_number(figure.value)} {figure.unit}{baseline}{target}")


def measured(name: str, part: Callable[[], Iterator[Figure]], progress: Progress) -> list[Figure]:
    """Runs a part of a benchmark, and returns its figures. The progress has each of them as soon as it is measured.

    Raises:
        NothingMeasured: It divides by nothing, or takes the mean of nothing: nothing happened while it measured.
    """
    found = dict[str, Figure]()
    try:
        for figure in part():
            found[figure.name] = figure
            if math.isfinite(figure.value):
                progress.take(figure)
    except (statistics.StatisticsError, ZeroDivisionError) as error:
        raise NothingMeasured(f"{name} has measured nothing ({error}); run it again on a machine that is less busy") from error
    figures = list(found.values())
    if lacking := [figure.name for figure in figures if not math.isfinite(figure.value)]:
        raise NothingMeasured(
            f"{name} has measured nothing for {', '.join(lacking)}; run it again on a machine that is less busy"
        )
    return figures


def itself(name: str, values: Sequence[float], unit: str) -> Iterator[Figure]:
    """Compares a figure with itself: how much the runs of the same thing differ says what another ratio of the run is worth.

    Yields nothing if it was measured once.

    Args:
        name: The name of the figure.
        values: What its runs have measured, one after the other.
        unit: Its unit.
    """
    if len(values) > 1:
        yield Figure(f"{name}_itself", statistics.geometric_mean(values[1::2]), unit, statistics.geometric_mean(values[::2]))


def document(figures: Sequence[Figure], conditions: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON form: `{"figures": [...], "conditions": {...}}`."""
    return {"figures": [asdict(figure) | {"ratio": figure.ratio} for figure in figures], "conditions": conditions}


def table(title: str, figures: Sequence[Figure]) -> FittingTable:
    """Returns the figures as a table."""
    columns = ("figure", "#value", "unit", "#baseline", "#ratio", "target", "met")
    drawn = plain_table(*columns, title=title, title_justify="left")
    for figure in figures:
        met = "" if figure.met is None else "yes" if figure.met else "no"
        drawn.add_row(
            figure.name, _number(figure.value), figure.unit, _number(figure.baseline), _number(figure.ratio), figure.target, met
        )
    return drawn


def machine() -> dict[str, Any]:
    """Returns the conditions that all benchmarks share."""
    packages = ("headrace", "pyspark", "grpcio", "pyarrow")
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}"

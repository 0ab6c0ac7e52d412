"""What a run shows while it runs: a screen for people, lines for logs, nothing for programs."""

from collections.abc import Sequence
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.demo._airlines import Airline
from headrace.demo._progress import Progress

_LINE_EVERY_S = 1.0
_DRAW_EVERY_S = 0.1
_BAR_WIDTH = 60


class View(Protocol):
    """Where a run's progress goes."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def show(self, progress: Progress) -> None:
        """Called some 20 times a second."""

    def tell(self, progress: Progress, event: str) -> None:
        """Something happened."""


class SilentView:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def show(self, progress: Progress) -> None:
        """Nothing."""

    def tell(self, progress: Progress, event: str) -> None:
        """Nothing."""


class LineView:
    """A line each second, and one for each event."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = 0.0
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def show(self, progress: Progress) -> None:
        """Prints a line if it is time."""
        if progress.elapsed_s >= self._next_s:
            self._next_s = progress.elapsed_s + _LINE_EVERY_S
            self._print(progress, _summary(progress))

    def tell(self, progress: Progress, event: str) -> None:
        """Prints a line."""
        self._print(progress, event)

    def _print(self, progress: Progress, text: str) -> None:
        # While nothing moves, as Spark starts, one line is enough.
        if text != self._last:
            self._console.print(f"{progress.elapsed_s:5.1f} s  {text}", soft_wrap=True)
        self._last = text


class ScreenView:
    """A bar, the figures and the airlines so far, drawn again in place; events stay above."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._next_s = 0.0

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, progress: Progress) -> None:
        """Draws it again if it is time."""
        if progress.elapsed_s >= self._next_s:
            self._next_s = progress.elapsed_s + _DRAW_EVERY_S
            self._live.update(_screen(progress), refresh=True)

    def tell(self, progress: Progress, event: str) -> None:
        """Prints a line above."""
        self._live.console.print(f"{progress.elapsed_s:5.1f} s  {event}")


def choose_view(console: Console, *, silent: bool) -> View:
    """What suits where the output goes."""
    if silent:
        return SilentView()
    return ScreenView(console) if console.is_terminal else LineView(console)


def _summary(progress: Progress) -> str:
    if not progress.received:
        return "Spark is attached" if progress.attached else "Spark starts"
    share = progress.committed / progress.total
    return (
        f"in {progress.received:>7,}  committed {progress.committed:>7,} ({share:4.0%})  {progress.rate:>8,.0f}/s"
        f"  ack latency {milliseconds(progress.ack_latency_s):>8}  airlines {len(progress.airlines):>2}"
    )


def _screen(progress: Progress) -> RenderableType:
    figures = Table.grid(padding=(0, 3))
    figures.add_row("messages in", "committed", "rate", "ack latency", "airlines", "elapsed", style="dim")
    figures.add_row(
        f"{progress.received:,}",
        f"{progress.committed:,}",
        f"{progress.rate:,.0f}/s",
        milliseconds(progress.ack_latency_s),
        str(len(progress.airlines)),
        f"{progress.elapsed_s:.1f} s",
    )
    bar = ProgressBar(total=progress.total, completed=progress.committed, width=_BAR_WIDTH)
    waiting = Text("" if progress.received else _summary(progress), style="dim")
    parts = [figures, bar if progress.received else waiting]
    if progress.airlines:
        parts.append(airline_table(progress.airlines, {}))
    return Group(*parts)


def airline_table(airlines: Sequence[Airline], names: dict[str, str]) -> Table:
    """The figures of all airlines, for people."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("airline")
    if names:
        table.add_column("name")
    for column in ("flights", "cancelled", "mean delay", "worst delay"):
        table.add_column(column, justify="right")
    for airline in airlines:
        mean = f"{airline.mean_delay:.2f} min" if airline.mean_delay is not None else "-"
        worst = f"{airline.worst_delay:,} min" if airline.worst_delay is not None else "-"
        name = (names.get(airline.carrier, ""),) if names else ()
        table.add_row(airline.carrier, *name, f"{airline.flights:,}", f"{airline.cancelled:,}", mean, worst)
    return table


def milliseconds(seconds: float | None) -> str:
    """A time for people."""
    return f"{seconds * 1000:,.0f} ms" if seconds is not None else "-"

"""What a run shows while it runs: a screen for people, lines for logs, nothing for programs."""

from typing import Protocol, Self

from rich.console import Console, RenderableType
from rich.live import Live

BAR_WIDTH = 60
_LINE_EVERY_S = 1.0
_DRAW_EVERY_S = 0.1


class Progress(Protocol):
    """A run at one moment."""

    @property
    def elapsed_s(self) -> float:
        """Since it began."""

    def summary(self) -> str:
        """In a line."""

    def screen(self) -> RenderableType:
        """On a terminal."""


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
            self._print(progress, progress.summary())

    def tell(self, progress: Progress, event: str) -> None:
        """Prints a line."""
        self._print(progress, event)

    def _print(self, progress: Progress, text: str) -> None:
        # While nothing moves, as Spark starts, one line is enough.
        if text != self._last:
            self._console.print(f"{progress.elapsed_s:5.1f} s  {text}", soft_wrap=True)
        self._last = text


class ScreenView:
    """The same picture, drawn again in place; events stay above."""

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
            self._live.update(progress.screen(), refresh=True)

    def tell(self, progress: Progress, event: str) -> None:
        """Prints a line above."""
        self._live.console.print(f"{progress.elapsed_s:5.1f} s  {event}")


def choose_view(console: Console, *, silent: bool) -> View:
    """What suits where the output goes."""
    if silent:
        return SilentView()
    return ScreenView(console) if console.is_terminal else LineView(console)


def milliseconds(seconds: float | None) -> str:
    """A time for people."""
    return f"{seconds * 1000:,.0f} ms" if seconds is not None else "-"

"""Views of a running demo: a screen for people, lines for logs, nothing for programs."""

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
        """Seconds since the run began."""

    def summary(self) -> str:
        """Returns the progress in a line."""

    def screen(self) -> RenderableType:
        """Returns the progress for a terminal."""


class View(Protocol):
    """Shows the progress of a run."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def show(self, progress: Progress) -> None:
        """Shows the progress; called about 20 times per second."""

    def tell(self, progress: Progress, event: str) -> None:
        """Reports an event."""


class SilentView:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def show(self, progress: Progress) -> None:
        """Does nothing."""

    def tell(self, progress: Progress, event: str) -> None:
        """Does nothing."""


class LineView:
    """Prints a line per second, and one per event."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = 0.0
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def show(self, progress: Progress) -> None:
        """Prints a line if one is due."""
        if progress.elapsed_s >= self._next_s:
            self._next_s = progress.elapsed_s + _LINE_EVERY_S
            self._print(progress, progress.summary())

    def tell(self, progress: Progress, event: str) -> None:
        """Prints a line."""
        self._print(progress, event)

    def _print(self, progress: Progress, text: str) -> None:
        # While nothing changes, as when Spark starts, one line is enough.
        if text != self._last:
            self._console.print(f"{progress.elapsed_s:5.1f} s  {text}", soft_wrap=True)
        self._last = text


class ScreenView:
    """Redraws a screen in place, with events above it."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._next_s = 0.0

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, progress: Progress) -> None:
        """Redraws the screen if that is due."""
        if progress.elapsed_s >= self._next_s:
            self._next_s = progress.elapsed_s + _DRAW_EVERY_S
            self._live.update(progress.screen(), refresh=True)

    def tell(self, progress: Progress, event: str) -> None:
        """Prints a line above the screen."""
        self._live.console.print(f"{progress.elapsed_s:5.1f} s  {event}")


def choose_view(console: Console, *, silent: bool) -> View:
    """Returns the view that suits the console."""
    if silent:
        return SilentView()
    return ScreenView(console) if console.is_terminal else LineView(console)


def milliseconds(seconds: float | None) -> str:
    """Formats a time in milliseconds."""
    return f"{seconds * 1000:,.0f} ms" if seconds is not None else "-"

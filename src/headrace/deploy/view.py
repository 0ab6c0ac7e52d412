"""Views of a deployment's status, for people and for programs."""

import json
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from headrace.deploy.status import Condition, ProcessStatus, State, Status
from headrace.terminal import counted
from headrace.terminal.tables import plain_table

_FIGURES_EVERY_S = 30.0
_DOCUMENT_EVERY_S = 5.0
_REFRESHES_EVERY_S = 0.25
_COLOURS = {
    State.RUNS: "green",
    State.ENDED: "green",
    State.STARTS: "yellow",
    State.WAITS: "yellow",
    State.STOPS: "yellow",
    State.RECONNECTS: "yellow",
    State.FAILS: "bold red",
    State.KILLED: "bold red",
}

_STATES_WITH_REASON = (State.WAITS, State.FAILS, State.ENDED, State.KILLED)

Said = tuple[object, ...]


class LinesView:
    """Prints a line for each change, and the figures from time to time."""

    def __init__(self, write: Callable[[str], None], *, stamps: bool = True) -> None:
        """Writes lines by `write`; with `stamps`, each begins with the time of day."""
        self._write = write
        self._stamps = stamps
        self._before: dict[str, Said] = {}
        self._figures_at = time.monotonic()

    def __call__(self, status: Status) -> None:
        """Writes what has changed."""
        for process in status.processes:
            if self._is_news(process.name, (process.state, process.restarts, process.reason)):
                self._say(f"{process.name} {describe(process)}")
        if self._is_news("", (status.condition, status.cause)):
            self._say(f"{status.deployment} {status.condition}{f': {status.cause}' if status.cause else ''}")
        if status.condition is Condition.RUNS and time.monotonic() - self._figures_at >= _FIGURES_EVERY_S:
            self._figures_at = time.monotonic()
            if status.acknowledged is not None or self._is_news("figures", ()):
                self._say(figures(status))

    def _is_news(self, about: str, line: Said) -> bool:
        before = self._before.get(about)
        self._before[about] = line
        return before != line

    def _say(self, line: str) -> None:
        self._write(f"{time.strftime('%H:%M:%S')}  {line}" if self._stamps else line)


class JsonView:
    """Prints the status as one JSON document per line, at every change and every few seconds."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """Writes lines by `write`."""
        self._write = write
        self._before: Said = ()
        self._written_at = 0.0

    def __call__(self, status: Status) -> None:
        """Writes the status if it has changed or is due."""
        said = (status.condition, *((process.state, process.restarts, process.reason) for process in status.processes))
        if said != self._before or time.monotonic() - self._written_at >= _DOCUMENT_EVERY_S:
            self._before, self._written_at = said, time.monotonic()
            self._write(json.dumps(status.document()))


class LiveView:
    """A table on a terminal, updated in place."""

    def __init__(self, console: Console) -> None:
        """Takes the console to draw on."""
        self._live = Live(console=console, auto_refresh=False)
        self._shown_at = 0.0

    def __enter__(self) -> Self:
        """Starts drawing."""
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stops drawing; the last status stays on the terminal."""
        self._live.stop()

    def __call__(self, status: Status) -> None:
        """Draws the status, a few times per second at most."""
        if time.monotonic() - self._shown_at >= _REFRESHES_EVERY_S or status.condition is Condition.ENDED:
            self._shown_at = time.monotonic()
            self._live.update(table(status), refresh=True)


def table(status: Status) -> RenderableType:
    """Returns the status as a table."""
    rows = plain_table("process", "what", "state", "#pid", "#restarts", "", prose=True)
    for process in status.processes:
        what = process.what or (status.gateway or "" if process.kind == "gateway" else "")
        state = Text(process.state, style=_COLOURS[process.state])
        rows.add_row(process.name, what, state, str(process.pid or "-"), str(process.restarts), _why(process) or process.detail)
    head = Text(f"{status.deployment} {status.condition}", style="bold")
    if status.cause:
        head.append(f": {status.cause}", style="bold red")
    return Group(head, Text(figures(status), style="dim"), rows)


def figures(status: Status) -> str:
    """Returns the throughput of a deployment, in one line."""
    if status.acknowledged is None:
        return "the gateway does not report figures"
    return f"{counted(status.acknowledged, 'message')} acknowledged, {status.rate:,} a second, lag {status.lag or 0:,}"


def describe(process: ProcessStatus) -> str:
    """Returns the state of a process, in one line."""
    return f"{process.state}: {why}" if (why := _why(process)) else process.state


def _why(process: ProcessStatus) -> str:
    """Returns why a process is not running, and when it will be restarted; empty if nothing is wrong."""
    if process.reason is None or process.state not in _STATES_WITH_REASON:
        return ""
    again = f"; restarts in {process.next_start_s:.1f} s" if process.next_start_s is not None else ""
    log = f" (log: {process.log})" if process.state is State.FAILS else ""
    return f"{process.reason}{again}{log}"

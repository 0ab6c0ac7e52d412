"""The loop of `headrace top`: asks the gateway in a thread, so that keys are answered also while it does not answer."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from headrace.gateway_cli.live.rates import NONE, rates
from headrace.gateway_cli.live.rows import Shown
from headrace.gateway_cli.live.screen import screen
from headrace.gateway_cli.live.state import State
from headrace.gateway_cli.live.terminal import Terminal
from headrace.terminal import Failure, duration_text

Fetch = Callable[[], Mapping[str, Any]]
_KEEPS_RATES_S = 3.0
"""Rates are kept while the gateway answers with the same snapshot: it takes one of many streams at most once a second."""


class _Source:
    """The last answer of the gateway, and whether it still answers."""

    def __init__(self, fetch: Fetch, interval_s: float, changed: Callable[[], None]) -> None:
        self._fetch = fetch
        self._interval_s = interval_s
        self._changed = changed
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._view: Shown | None = None
        self._shown_at = 0.0
        self._failure = ""

    def run(self) -> None:
        """Asks until it is stopped."""
        while not self._stop.is_set():
            try:
                self._take(self._fetch())
            except Exception as error:  # whatever it is, the user sees it, and the next question may be answered
                with self._lock:
                    self._failure = error.message if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
            if self._stop.is_set():
                return
            self._changed()
            self._stop.wait(self._interval_s)

    def stop(self) -> None:
        """Ends `run` before its next question."""
        self._stop.set()

    def read(self) -> tuple[Shown | None, str]:
        """Returns what to show, and why it is stale; empty if it is not."""
        with self._lock:
            if not self._failure or self._view is None:
                return self._view, self._failure
            age = duration_text(int((time.monotonic() - self._shown_at) * 1000))
            return self._view, f"from {age} ago: {self._failure}"

    def _take(self, document: Mapping[str, Any]) -> None:
        with self._lock:
            before, known = self._view, NONE
            if before is not None:
                found = rates(before.document, document)
                known = found or (before.rates if time.monotonic() - self._shown_at < _KEEPS_RATES_S else NONE)
                if found is None and document["gateway"]["uptime_ms"] == before.document["gateway"]["uptime_ms"]:
                    document = before.document
            self._view, self._shown_at, self._failure = Shown(document, known), time.monotonic(), ""


@contextmanager
def _asking(fetch: Fetch, interval_s: float, changed: Callable[[], None], cancel: Callable[[], None]) -> Iterator[_Source]:
    """Asks in a thread. On leaving, cancels what is in progress, and waits for the thread."""
    source = _Source(fetch, interval_s, changed)
    thread = threading.Thread(target=source.run, name="status")
    thread.start()
    try:
        yield source
    finally:
        source.stop()
        cancel()
        thread.join()


def run_top(fetch: Fetch, interval_s: float, cancel: Callable[[], None]) -> None:
    """Shows a gateway until the user leaves.

    Args:
        fetch: Fetches the status document; raises `Failure` if the gateway does not answer.
        interval_s: The time between two questions, in seconds.
        cancel: Ends a question in progress, from another thread; there is none after it.
    """
    terminal, state = Terminal(), State()
    with terminal.open(), _asking(fetch, interval_s, terminal.wake, cancel) as source:
        while not state.ended:
            shown, stale = source.read()
            width, height = terminal.size()
            drawn = screen(shown, state, width, height, stale)
            terminal.draw(drawn.lines)
            try:
                keys = terminal.keys(interval_s)
            except EOFError:
                return
            for key in keys:
                state = state.press(key, drawn.rows, drawn.page)

"""What a connector reports to the gateway of itself: its state, and the errors that it has met."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum
from importlib.metadata import version
from typing import NamedTuple

from headrace.contract import clock
from headrace.contract.limits import MAX_NAME_BYTES
from headrace.machine.resources import lack
from headrace.protocol.v1 import connector_pb2 as pb

SDK = pb.Sdk(name="headrace-python", version=version("headrace-sdk"), language="python")
"""What a Hello says of this library."""
MAX_ERRORS = 100
"""How many errors a Report may have; of more, the last."""
MAX_TEXT_BYTES = 4096
"""The maximum size of a reason, and of an error's message, in bytes."""
INTERVAL_S = 1.0
"""The minimum time between two Reports."""
HEARTBEAT_S = 2.0
"""The time after which a Report is sent although nothing has changed, so that the gateway knows that the connector is there."""

Say = Callable[[pb.Report], Awaitable[None]]
"""Sends a Report, or queues it."""


class ConnectorState(Enum):
    """The activity of a connector, as `headrace status` shows it."""

    CONNECTING = "connecting"
    """It starts: it connects to its system. The SDK reports this by itself."""
    RUNNING = "running"
    """It works. The SDK reports this by itself, once the connector has answered its first call."""
    DEGRADED = "degraded"
    """It works, but not as it should."""
    WAITING = "waiting"
    """It can do nothing until its system is back."""


_STATES = {
    ConnectorState.CONNECTING: pb.CONNECTOR_STATE_CONNECTING,
    ConnectorState.RUNNING: pb.CONNECTOR_STATE_RUNNING,
    ConnectorState.DEGRADED: pb.CONNECTOR_STATE_DEGRADED,
    ConnectorState.WAITING: pb.CONNECTOR_STATE_WAITING,
}


_CREATING = threading.Lock()
"""Guards the creation of a connector's Reports, since subclasses need not call a constructor."""


class _Error(NamedTuple):
    message: str
    stream: str
    occurred_at: float


class Reports:
    """The state and the errors of one connector, over all its sessions. Every method may be called on any thread."""

    def __init__(self) -> None:
        """Begins as connecting, without errors."""
        self._lock = threading.Lock()
        self._state = ConnectorState.CONNECTING
        self._since = clock.monotonic()
        self._reason = ""
        self._errors: deque[_Error] = deque(maxlen=MAX_ERRORS)
        self._changed: Callable[[], None] | None = None

    def set_state(self, state: ConnectorState, reason: str = "") -> None:
        """Sets the state, and why the connector is in it."""
        reason += lack(reason)
        with self._lock:
            if (state, reason) == (self._state, self._reason):
                return
            if state is not self._state:
                self._since = clock.monotonic()
            self._state, self._reason = state, reason
        self._notify()

    def connected(self) -> None:
        """Notes that the connector has answered a call: it runs, unless it has reported something else."""
        if self._state is ConnectorState.CONNECTING:
            self.set_state(ConnectorState.RUNNING)

    def add_error(self, message: str, stream: str = "") -> None:
        """Adds an error, which may concern one stream."""
        message += lack(message)
        with self._lock:
            self._errors.append(_Error(message, stream, clock.monotonic()))
        self._notify()

    async def send(self, say: Say) -> None:
        """Sends a Report at once, and then whenever something has changed, at most once a second. Runs until it is cancelled.

        A Report is sent every two seconds in any case, as a heartbeat.
        """
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            with contextlib.suppress(RuntimeError):  # A thread of the connector may outlive the loop.
                loop.call_soon_threadsafe(changed.set)

        self._changed = notify
        try:
            while True:
                changed.clear()
                await say(self._take())
                await asyncio.sleep(INTERVAL_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_S - INTERVAL_S):
                        await changed.wait()
        finally:
            if self._changed is notify:
                self._changed = None

    def _notify(self) -> None:
        changed = self._changed
        if changed is not None:
            changed()

    def _take(self) -> pb.Report:
        """Returns a Report of the state and of the errors that are not reported yet."""
        with self._lock:
            now = clock.monotonic()
            errors, self._errors = self._errors, deque(maxlen=MAX_ERRORS)
            return pb.Report(
                state=_STATES[self._state],
                state_age_ms=round((now - self._since) * 1000),
                reason=_cut(self._reason, MAX_TEXT_BYTES),
                errors=[
                    pb.ConnectorError(
                        message=_cut(error.message, MAX_TEXT_BYTES),
                        age_ms=round((now - error.occurred_at) * 1000),
                        stream=_cut(error.stream, MAX_NAME_BYTES),
                    )
                    for error in errors
                ],
            )


class Reporting:
    """A connector that can report its state."""

    _headrace_reports: Reports | None = None

    def report_state(self, state: ConnectorState, reason: str = "") -> None:
        """Reports what the connector is doing, for `headrace status`; changes nothing else.

        Call it where the connector knows better than the SDK: when it waits for its system to come back, or works only in
        part, and again with `ConnectorState.RUNNING` when that is over. It may be called on any thread, at any time, as often as
        you like: it never waits, and the SDK sends at most one report a second, the last.

        Args:
            state: Its activity.
            reason: Why, in plain text; at most 4,096 bytes are sent.
        """
        reports_of(self).set_state(state, reason)


def reports_of(connector: Reporting) -> Reports:
    """Returns the state and the errors of a connector; they begin with the first call."""
    with _CREATING:
        if connector._headrace_reports is None:
            connector._headrace_reports = Reports()
        return connector._headrace_reports


def _cut(text: str, size: int) -> str:
    """Returns as much of a text as fits in a size in bytes."""
    return text.encode(errors="backslashreplace")[:size].decode(errors="ignore")

"""A channel that is dialled again while its calls fail."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from headrace.contract import clock

REDIAL_S = 15.0
"""How old a channel must be: a server of names may take a while to answer, and a new channel asks from the beginning."""
_C = TypeVar("_C")


class Redial(Generic[_C]):
    """A channel to one address, for any thread.

    The longer a name cannot be resolved, the more rarely gRPC asks for it, in the end every two minutes, and no option of a
    channel changes that. A new channel asks at once.
    """

    def __init__(self, dial: Callable[[], _C]) -> None:
        """Dials with the first use.

        Args:
            dial: Opens a channel, without waiting for the other side.
        """
        self._dial = dial
        self._lock = threading.Lock()
        self._channel: _C | None = None
        self._dialled_at = 0.0

    def current(self) -> _C:
        """Returns the channel for the next call."""
        with self._lock:
            if self._channel is None:
                self._channel, self._dialled_at = self._dial(), clock.monotonic()
            return self._channel

    def failed(self) -> _C | None:
        """Notes that a call did not reach the other side.

        Returns:
            The channel, if the next call gets another one. Calls in progress still use it; whoever has none may close it.
        """
        with self._lock:
            if self._channel is None or clock.monotonic() - self._dialled_at < REDIAL_S:
                return None
            replaced, self._channel = self._channel, None
            return replaced

    def forget(self) -> _C | None:
        """Returns the channel, if there is one, for its caller to close."""
        with self._lock:
            forgotten, self._channel = self._channel, None
            return forgotten

"""The signals that a deployment takes, noted until it acts on them."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_NOTED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
IsStopped = Callable[[], bool]
"""Returns whether a deployment is to stop. What takes long asks again and again."""


def never() -> bool:
    """Returns False: nothing stops the deployment."""
    return False


class Signals:
    """Notes SIGTERM and SIGINT, which stop a deployment, and SIGHUP, by which it reads its file again."""

    def __init__(self) -> None:
        self.stops: list[int] = []
        """Each SIGTERM and SIGINT, by its number, in order."""
        self._hung_up = False

    def is_stopped(self) -> bool:
        """Returns whether the deployment is to stop."""
        return bool(self.stops)

    def take_hangup(self) -> bool:
        """Returns whether SIGHUP has arrived since the last call."""
        # What arrives from here on is noted again.
        hung_up, self._hung_up = self._hung_up, False
        return hung_up

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Notes signals until the block ends, in place of what they did before. A block may contain another one.

        A program may be started with signals ignored or blocked, and its own processes would be, too. Where SIGCHLD is ignored,
        the system forgets how a process has ended.
        """
        before = {number: signal.signal(number, self._note) for number in _NOTED}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, before)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._hung_up = True
        else:
            self.stops.append(number)

"""SIGHUP, which ends no process of a deployment, not even one that has not yet begun to handle it."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def hangups_held() -> Iterator[None]:
    """Lets programs that this thread starts in the block begin with SIGHUP blocked: it waits for their `ignore_hangups`.

    Nothing else works from the first moment: a program begins without the handlers of its parent, and a parent that ignored the
    signal meanwhile would lose its own.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_hangups() -> None:
    """Ignores SIGHUP, also what has arrived while it was blocked, until this process handles it.

    Programs that this process starts, or is replaced by, begin with SIGHUP ignored: a JVM unblocks it, but leaves it ignored.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

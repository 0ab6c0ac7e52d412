"""Lets a supervisor use a disk that may hang, such as a mount whose server is away."""

import errno
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

from headrace.log_writer import Disk

T = TypeVar("T")
NO_ANSWER = "the disk does not answer"


class PatientDisk:
    """Does what may wait for a disk on a thread of its own, and waits for that for a moment only.

    While something hangs, nothing else is begun, so that nothing piles up. Whatever is asked later may still be done long after
    that: it must not depend on what its caller does meanwhile.
    """

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._disk = Disk()

    def check(self) -> None:
        """Returns if the disk answers.

        Raises:
            OSError: Something that was asked earlier is not done yet.
        """
        if not self._disk.catch_up():
            raise OSError(errno.ETIMEDOUT, NO_ANSWER)

    def ask(self, action: Callable[[], T]) -> T:
        """Returns what an action returns.

        Raises:
            OSError: The disk does not answer.
            Exception: Whatever the action raises.
        """
        self.check()
        answer: Future[T] = Future()
        self._disk.do(partial(_do, action, answer))
        self.check()
        return answer.result()

    def close(self) -> None:
        """Ends the thread. One that hangs is left behind."""
        self._disk.close(0.0 if self._disk.is_late else None)


class LastKnown(Generic[T]):
    """Reads a file, such as a token file; while its disk does not answer, it returns what it has read before."""

    def __init__(self, read: Callable[[], T], disk: PatientDisk) -> None:
        """Takes what reads the file."""
        self._read = read
        self._disk = disk
        self._last_answer: tuple[T] | None = None

    def __call__(self) -> T:
        """Returns it.

        Raises:
            OSError: The disk does not answer, and never did.
            Exception: Whatever reads the file raises.
        """
        try:
            self._last_answer = (self._disk.ask(self._read),)
        except OSError:
            if self._last_answer is None:
                raise
        return self._last_answer[0]


def _do(action: Callable[[], T], answer: "Future[T]") -> None:
    try:
        answer.set_result(action())
    except Exception as error:
        answer.set_exception(error)

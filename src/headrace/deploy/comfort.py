"""Comforts of a deployment, such as logs and figures: it reports an error of one, and continues."""

from collections.abc import Callable
from typing import TypeVar

from headrace.deploy.errors import DeploymentError

T = TypeVar("T")


class Comfort:
    """Does what the processes of a deployment do not depend on. Whatever fails in it, the supervisor runs on."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Creates it.

        Args:
            tell: Called with lines for people.
        """
        self.tell = regardless(tell)
        """Tells a line for people, and never fails."""
        self._failed: dict[str, str] = {}

    def do(self, what: str, action: Callable[[], T], otherwise: T) -> T:
        """Returns what `action` returns, or `otherwise` if it fails. Tells once why, until it has succeeded again.

        Args:
            what: What it does, for people: "rotate logs".
            action: What to do.
            otherwise: What to return if it fails.

        Raises:
            DeploymentError: The deployment itself cannot continue; it reports everything else.
        """
        try:
            done = action()
        except DeploymentError:
            raise
        except Exception as error:
            # Without numbers and paths, which may change from time to time.
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            if self._failed.get(what) != why:
                self.tell(f"cannot {what}: {why}; this is tried again, and the processes run on")
            self._failed[what] = why
            return otherwise
        self._failed.pop(what, None)
        return done


def regardless(tell: Callable[[T], None]) -> Callable[[T], None]:
    """Returns `tell`, without its errors: output that is full, closed, or a pipe that has ended must not end what it tells of."""

    def told(line: T) -> None:
        try:
            tell(line)
        except (OSError, ValueError):
            # ValueError: Python has closed the file. Nobody is left to be told.
            return

    return told

"""Threads of which one runs at a time, until it pauses: so a test decides in which order several drivers make their steps."""

import threading
from collections.abc import Callable
from typing import Any


class Killed(BaseException):
    """The thread ends where it has paused."""


class Stepped:
    """A function that runs in a thread, from one pause to the next.

    Args:
        function: Calls `pause` of what it is given between its steps.
    """

    def __init__(self, function: Callable[["Stepped"], None]) -> None:
        self._function = function
        self._goes, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._is_killed = False
        self.is_over = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Runs it up to its next pause, or its end. Raises what it raises."""
        if not self.is_over:
            self._goes.release()
            assert self._stands.acquire(timeout=60)
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def kill(self) -> None:
        """Ends it where it has paused."""
        self._is_killed = True
        self.step()
        self._thread.join(60)

    def pause(self) -> None:
        """Called in the thread, between two steps."""
        if threading.current_thread() is not self._thread:
            return
        self._stands.release()
        self._goes.acquire()
        if self._is_killed:
            raise Killed

    def _run(self) -> None:
        self._goes.acquire()
        try:
            if not self._is_killed:
                self._function(self)
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.is_over = True
            self._stands.release()


class Pausing:
    """A module whose functions pause before they are called, in threads of `Stepped`.

    Args:
        module: The module.
        names: The functions that pause.
    """

    def __init__(self, module: Any, *names: str) -> None:
        self._module = module
        self._names = names
        self.running: Stepped | None = None

    def pause(self) -> None:
        """The running thread pauses, if there is one."""
        if self.running is not None:
            self.running.pause()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if name not in self._names:
            return found

        def paused(*arguments: Any, **others: Any) -> Any:
            self.pause()
            return found(*arguments, **others)

        return paused

"""Reads the file of a deployment again while the deployment runs."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from headrace.deploy.plan import Plan
from headrace.deploy.signals import IsStopped

Replan = Callable[[IsStopped], Plan]
"""Reads the file of a deployment, and imports its applications, until it is stopped."""

ENDS_WITHIN_S = 20.0
"""How long the end of a reading is waited for. A disk that hangs may keep it longer."""


class Reload:
    """Reads on a thread, so that the supervisor never waits for the imports of applications. The last request wins."""

    def __init__(self, replan: Replan) -> None:
        """Reads nothing yet."""
        self._replan = replan
        self._is_wanted = False
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._reading: Future[Plan] | None = None

    def want(self) -> None:
        """Requests the plan as the file is from now on: what is being read is older, and is stopped."""
        self._is_wanted = True
        self._stopped.set()

    def look(self) -> Future[Plan] | None:
        """Begins what is requested, once no read is in progress.

        Returns:
            A reading that has ended, with its plan or why there is none, once; None until then, and if a later one is requested.
        """
        ended = None
        if self._reading is not None and self._reading.done():
            ended, self._reading = self._reading, None
        if not self._is_wanted:
            return ended
        if self._reading is None:
            self._is_wanted = False
            self._begin()
        return None

    def stop(self) -> bool:
        """Stops what is being read, and drops what is requested. Waits for nothing. Returns whether there was anything."""
        had = self._is_wanted or self._reading is not None
        self._is_wanted = False
        self._stopped.set()
        return had

    def close(self) -> None:
        """Stops what is being read, and waits until it has ended with all processes that it has started."""
        self.stop()
        if self._reading is not None and self._thread is not None:
            self._thread.join(ENDS_WITHIN_S)

    def _begin(self) -> None:
        self._stopped = threading.Event()
        reading: Future[Plan] = Future()
        self._reading = reading
        self._thread = threading.Thread(
            target=self._read, args=(reading, self._stopped.is_set), name="deployment-reload", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:
            # The system has no room for a thread.
            reading.set_exception(error)

    def _read(self, reading: Future[Plan], is_stopped: IsStopped) -> None:
        try:
            reading.set_result(self._replan(is_stopped))
        except BaseException as error:
            # Also SystemExit of a plugin: whoever waits for the plan gets it.
            reading.set_exception(error)

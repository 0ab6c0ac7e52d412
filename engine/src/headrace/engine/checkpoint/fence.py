"""Keeps a run that was replaced from changing the states of a checkpoint.

A driver may be frozen at any moment, for any time, while another one continues its query. So every change of a run asks the run
log right before. What happens in the moment in between does no harm, since a run deletes nothing that a manifest in the folder
names, nor what is written for a micro-batch that is not committed yet: the states of every later run are made of these.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.contract.errors import HeadraceError
from headrace.engine._errors import Replaced
from headrace.engine.checkpoint.manifests import ManifestLog
from headrace.engine.checkpoint.runs import Run, RunLog


class Fence:
    """Admits the changes of one run until another run replaces it.

    Args:
        manifests: The manifests of the checkpoint.
        runs: The runs of the checkpoint; None if they are not recorded, so that only manifests tell of other runs.
    """

    def __init__(self, manifests: ManifestLog, runs: RunLog | None) -> None:
        self._manifests = manifests
        self._runs = runs
        self._run: Run | None = None
        self._number = 0

    @property
    def number(self) -> int:
        """The number of the run."""
        return self._number

    def began(self, run_id: str, number: int) -> None:
        """The run has begun, and has been recorded."""
        self._run, self._number = Run(number, run_id), number

    def set_number(self, number: int | None) -> None:
        """Sets the number of a run that may not be recorded; None for one more than the largest number in any manifest."""
        self._number = self._manifests.newest_run() + 1 if number is None else number

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Checks the run before a block, and again if the block fails, since another run may be the reason.

        Raises:
            Replaced: Another run has replaced it.
        """
        self.check()
        try:
            yield
        except (HeadraceError, OSError):
            self.check()
            raise

    def check(self) -> None:
        """Checks that no other run has replaced this one.

        Raises:
            Replaced: One has.
        """
        if self._runs is not None and self._run is not None:
            self._runs.check(self._run)
            return
        newest = self._manifests.newest_run()
        if newest > self._number:
            raise Replaced(
                f"another driver has continued this query on the same checkpoint, as run {newest}; run {self._number} ends. "
                "A checkpoint serves one query at a time: stop one of the drivers"
            )

"""Deletes the files of states that no micro-batch needs which can still be restored."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from headrace.engine._errors import Replaced
from headrace.engine.checkpoint.fence import Fence
from headrace.engine.checkpoint.folder import Folder
from headrace.engine.checkpoint.manifests import Manifest, ManifestLog, origin_of

_CHECKED_EVERY = 32
"""The number of files that are deleted before the run is checked again."""

log = logging.getLogger("headrace.engine")


class Garbage:
    """Deletes the files of one checkpoint, in a thread of its own, since files may be on other machines.

    Args:
        states: The folder of states.
        manifests: The manifests in it.
        fence: Admits the deletions of the run.
        retained: The number of micro-batches before the last one that can be restored.
    """

    def __init__(self, states: Folder, manifests: ManifestLog, fence: Fence, retained: int) -> None:
        self._states = states
        self._manifests = manifests
        self._fence = fence
        self._retained = retained
        self._thread = ThreadPoolExecutor(1, "headrace-states")
        self._running: Future[None] | None = None
        self._replaced: defaultdict[int, set[str]] = defaultdict(set)
        """Files by the last micro-batch whose manifest names them. Only the thread changes it."""
        self._news: list[tuple[int, frozenset[str]]] = []

    def sweep(self, last: Manifest, batch: int) -> None:
        """Deletes what earlier runs have left behind that no manifest names, and manifests that cannot be restored.

        Args:
            last: The states that the run continues from.
            batch: The first micro-batch of the run.
        """
        self._running = self._thread.submit(self._guarded, lambda: self._sweep(last, batch))

    def collect(self, replaced: frozenset[str], batch: int) -> None:
        """Deletes what cannot be restored once `batch` is committed: now, or with the next one if it is busy.

        Args:
            replaced: The files that the manifest of the micro-batch before names, and the manifest of `batch` does not.
            batch: The micro-batch, whose manifest is written.
        """
        self._news.append((batch - 1, replaced))
        if self._running is None or self._running.done():
            news, self._news = self._news, []
            self._running = self._thread.submit(self._guarded, lambda: self._collect(news, batch))

    def close(self) -> None:
        """Waits until everything that it has begun to delete is deleted."""
        self._thread.shutdown()

    def _sweep(self, last: Manifest, batch: int) -> None:
        # The files first: what a manifest that is written after this names is new, and so it is not among them.
        names, first = self._states.names(), self._first(batch)
        manifests = {at: each for at, each in self._manifests.read_all().items() if at[0] >= first}
        named = {file for manifest in manifests.values() for file in manifest.files}
        self._fence.check()
        self._manifests.delete_before(first)
        self._manifests.delete_incomplete(batch)
        self._delete([name for name in names if name not in named and self._is_left(name, batch)])
        # What this run has written meanwhile is not replaced.
        for file, number in last_named({at: each for at, each in manifests.items() if at[1] < self._fence.number}).items():
            if file not in last.files:
                self._replaced[number].add(file)

    def _is_left(self, file: str, batch: int) -> bool:
        """Whether an attempt of an earlier run has written a file, for a micro-batch that is committed without it.

        A run that was replaced may still commit a micro-batch that it had begun, so what it has written for that one is spared.
        """
        origin = origin_of(file)
        return origin is not None and origin.batch < batch and (origin.run is None or origin.run < self._fence.number)

    def _collect(self, news: Iterable[tuple[int, frozenset[str]]], batch: int) -> None:
        for number, files in news:
            self._replaced[number].update(files)
        first = self._first(batch)
        self._manifests.delete_before(first)
        for number in [number for number in self._replaced if number < first]:
            self._delete(sorted(self._replaced.pop(number)))

    def _first(self, batch: int) -> int:
        """The first micro-batch that Spark's logs have while `batch` runs."""
        return batch - self._retained

    def _delete(self, files: Sequence[str]) -> None:
        for number, name in enumerate(files):
            if number % _CHECKED_EVERY == 0:
                self._fence.check()
            self._states.delete(name)

    def _guarded(self, delete: Callable[[], None]) -> None:
        try:
            with self._fence.guarding():
                delete()
        except Replaced as error:
            log.info("old states are left to the present run: %s", error)
        except Exception:
            log.warning("cannot delete old states of the checkpoint; they take up space until the next start", exc_info=True)


def last_named(manifests: Mapping[tuple[int, int], Manifest]) -> dict[str, int]:
    """The files that manifests name, with the last micro-batch whose manifest names each."""
    return {
        file: batch for (batch, _), manifest in sorted(manifests.items(), key=lambda each: each[0]) for file in manifest.files
    }

"""The runs of a query, as recorded in its checkpoint: which one is current, and which batches each has committed.

Each run creates a file `NUMBER.ID` in `<checkpoint>/headrace/runs` when it starts, and `NUMBER.FIRST_BATCH.ID` once it has
committed a batch itself. Numbers increase by one. If two runs take the same number at the same time, the one with the higher id
wins. Files are never overwritten or renamed, so any file system with consistent listings is sufficient: of two drivers that start
at the same time, at least one sees the file of the other.

Who has committed a batch is decided by its entry in the commit log, which names the run that wrote it. The files keep that for
batches whose entries Spark has removed.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace

from headrace.engine._errors import Replaced
from headrace.engine.checkpoint.folder import Folder

RUNS = "headrace/runs"
MAX_SEGMENTS = 500
"""The number of segments that are kept. For older batches, the run that committed them is unknown."""
MAX_SINKS = 100
"""The number of sinks that are kept, the latest first."""
STARTS_OF_OLD = 1_000
"""How many starts on an old checkpoint have lower numbers than the first one on the checkpoint that continues it."""
Owner = Callable[[int], str | None]
"""Returns the id of the run that wrote the entry of a batch in the commit log; None if the entry is gone or names no run."""
_UNNAMED_ENTRY = re.compile(r"\.[0-9]+\..+\.tmp")
"""What Spark calls an entry that is being written."""
_KEPT = 3
"""The number of runs whose files are kept. The file of the last run contains what is known about earlier ones."""


@dataclass(frozen=True)
class Segment:
    """Consecutive batches that one run committed.

    Attributes:
        run: The run's id; empty if it is unknown.
        first_batch: The first of them.
        last_batch: The last of them.
    """

    run: str
    first_batch: int
    last_batch: int


@dataclass(frozen=True)
class Run:
    """A run of a query, as recorded in its checkpoint.

    Attributes:
        number: One more than the number of the run before it.
        id: Spark's id of the run (`runId`).
        first_batch: The first batch that it has committed itself; None if there is none yet.
        earlier: The runs that committed the batches before that, or the batches before its start.
        sinks: The sinks that this run and earlier ones write to.
    """

    number: int
    id: str
    first_batch: int | None = None
    earlier: tuple[Segment, ...] = ()
    sinks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.number}.{self.id}" if self.first_batch is None else f"{self.number}.{self.first_batch}.{self.id}"

    def segments(self, last_batch: int, owner: Owner) -> tuple[Segment, ...]:
        """The runs that committed the batches up to and including `last_batch`.

        The batches from this run's own first one on are its own, except the last ones, if their entries name a run that started
        later. Who committed batches after its start is unknown if it has committed none itself, and their entries do not tell.
        """
        known = _cut(self.earlier, last_batch)
        first = known[-1].last_batch + 1 if known else 0
        own = "" if self.first_batch is None else self.id
        later, batch = list[tuple[int, str]](), last_batch
        while batch >= first and (found := owner(batch)) is not None and found != own:
            later.append((batch, found))
            batch -= 1
        if batch >= first:
            known = (*known, Segment(own, first, batch))
        for batch, found in reversed(later):
            known = extended(known, batch, found)
        return known


class RunLog:
    """The runs of one checkpoint."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def begin(self, run_id: str, committed: int | None, owner: Owner, sinks: Iterable[str] = ()) -> Run:
        """Starts a run, which becomes the current one.

        Args:
            run_id: Spark's id of the run.
            committed: The last batch in the commit log; None if it is empty.
            owner: Tells who wrote its entries.
            sinks: The sinks that it writes to.

        Raises:
            Replaced: Another run started at the same time, and is the current one.
        """
        number = max((run.number for run in self._runs()), default=0) + 1
        run = Run(number, run_id, sinks=tuple(sinks))
        before = self._before(run)
        earlier = () if committed is None else _segments(before, committed, owner)
        former = before.sinks if before is not None else ()
        run = self._written(replace(run, earlier=earlier, sinks=(*run.sinks, *former)))
        self.check(run)
        for old in self._runs():
            if old.number <= number - _KEPT:
                self._folder.delete(old.name)
        return run

    def confirm(self, run: Run, first_batch: int, earlier: tuple[Segment, ...]) -> Run:
        """Records the first batch that a run has committed itself, and who committed the batches before it."""
        return self._written(replace(run, first_batch=first_batch, earlier=earlier))

    def check(self, run: Run) -> None:
        """Checks that a run is the current one.

        Raises:
            Replaced: Another one is.
        """
        present = max(self._runs(), key=_order, default=run)
        if _order(present) > _order(run):
            raise Replaced(
                f"another driver has started this query on the same checkpoint, as run {present.number} ({present.id}); "
                f"run {run.number} ({run.id}) ends. A checkpoint serves one query at a time: stop one of the drivers"
            )

    def segments(self, last_batch: int, owner: Owner) -> tuple[Segment, ...]:
        """The runs that committed the batches up to and including `last_batch`, by their entries and the last run's file."""
        return _segments(self._before(None), last_batch, owner)

    def sinks(self) -> tuple[str, ...]:
        """The sinks that the last run and earlier ones write to."""
        last = self._before(None)
        return () if last is None else last.sinks

    def number_of(self, run_id: str) -> int | None:
        """The number of a run; None if its file is gone."""
        return next((run.number for run in self._runs() if run.id == run_id), None)

    @property
    def is_empty(self) -> bool:
        """Whether no run has ever started on this checkpoint."""
        return not self._runs()

    @property
    def has_committed(self) -> bool:
        """Whether a run has committed a batch, which is then in the commit log, unless that was lost."""
        return any(run.first_batch is not None for run in self._runs())

    def names(self) -> tuple[str, ...]:
        """What identifies the runs, in order: it changes if another one starts."""
        return tuple(sorted(run.name for run in self._runs()))

    def follow(self, old: "RunLog", run_id: str, committed: int) -> str:
        """Begins the log of a checkpoint that continues another one's, as one more run; returns its id.

        The runs of the new checkpoint then have higher numbers than any that may still start on the old one.

        Args:
            old: The runs of the old checkpoint.
            run_id: An id for the run.
            committed: The last committed micro-batch of the old checkpoint.
        """
        number = max((run.number for run in old._runs()), default=0) + STARTS_OF_OLD
        run = Run(number, run_id, earlier=_unknown(committed), sinks=old.sinks())
        return self._written(run).id

    def _written(self, run: Run) -> Run:
        sinks = tuple(dict.fromkeys(run.sinks))[:MAX_SINKS]
        run = replace(run, earlier=_bounded(run.earlier), sinks=sinks)
        document = {"earlier": [asdict(segment) for segment in run.earlier], "sinks": run.sinks}
        self._folder.write(run.name, json.dumps(document))
        return run

    def _before(self, run: Run | None) -> Run | None:
        """The last run before `run`, with what its file contains; None if there is none."""
        lower = [each for each in self._runs() if run is None or _order(each) < _order(run)]
        for each in sorted(lower, key=lambda each: (*_order(each), _or_none(each.first_batch)), reverse=True):
            try:
                document = json.loads(self._folder.read(each.name))
                earlier = tuple(Segment(**segment) for segment in document["earlier"])
                return replace(each, earlier=earlier, sinks=tuple(document["sinks"]))
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                # The run ended before its file was complete, and so before its first batch.
                continue
        return None

    def _runs(self) -> list[Run]:
        """All runs that have a file, without the content of the files."""
        return [run for name in self._folder.names() if (run := _parsed(name)) is not None]


def _parsed(name: str) -> Run | None:
    number, _, rest = name.partition(".")
    if not number.isdecimal() or not rest:
        return None
    first_batch, _, run_id = rest.partition(".")
    return Run(int(number), run_id, int(first_batch)) if first_batch.isdecimal() and run_id else Run(int(number), rest)


def _or_none(batch: int | None) -> int:
    return -1 if batch is None else batch


def _order(run: Run) -> tuple[int, str]:
    return run.number, run.id


def _unknown(last_batch: int) -> tuple[Segment, ...]:
    """The segments of batches whose runs were not recorded."""
    return (Segment("", 0, last_batch),) if last_batch >= 0 else ()


def drop_unnamed_entries(commits: Folder) -> None:
    """Deletes entries of a commit log that have not got their name yet, so that a run that was replaced cannot finish them.

    Where an entry gets its name by a rename, as on a local disk and on HDFS, this ends what a run that has checked the run log
    before may still do. In an object store, an entry is put under its name at once, and there is nothing to delete.
    """
    for name in commits.names():
        if _UNNAMED_ENTRY.fullmatch(name):
            commits.delete(name)


def _segments(before: Run | None, last_batch: int, owner: Owner) -> tuple[Segment, ...]:
    """The runs that committed the batches up to `last_batch`, by the file of the last run before."""
    return (before or Run(0, "")).segments(last_batch, owner)


def _cut(segments: Iterable[Segment], last_batch: int) -> tuple[Segment, ...]:
    """The segments up to and including `last_batch`."""
    cut = (replace(segment, last_batch=min(segment.last_batch, last_batch)) for segment in segments)
    return tuple(segment for segment in cut if segment.first_batch <= segment.last_batch)


def extended(segments: tuple[Segment, ...], batch: int, run: str) -> tuple[Segment, ...]:
    """The segments with one more batch at their end, committed by a run; its id is empty if it is not known."""
    if segments and segments[-1].run == run and segments[-1].last_batch == batch - 1:
        return (*segments[:-1], replace(segments[-1], last_batch=batch))
    return (*segments, Segment(run, batch, batch))


def _bounded(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    if len(segments) <= MAX_SEGMENTS:
        return segments
    kept = segments[-(MAX_SEGMENTS - 1) :]
    return (*_unknown(kept[0].first_batch - 1), *kept)


def covering(segments: Iterable[Segment], batches: Iterable[int]) -> set[Segment]:
    """The segments that contain any of the batches."""
    wanted = set(batches)
    return {s for s in segments if any(s.first_batch <= batch <= s.last_batch for batch in wanted)}

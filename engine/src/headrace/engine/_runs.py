"""The runs of a query, as its checkpoint knows them: which is the present one, and which committed which batches.

Each run makes a file of its own in `<checkpoint>/headrace/runs`, named `NUMBER.FIRST_BATCH.ID`. Numbers go up by one, and of
two runs that took one number at the same time the one with the higher id counts. Nothing is ever overwritten or renamed, so
that any file system will do that lists what was written: of two drivers that start at the same time, one sees the other's
file.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from headrace.engine._errors import Replaced
from headrace.engine._folder import Folder

RUNS = "headrace/runs"
MOST_SEGMENTS = 500
"""So many stretches of batches are remembered; of older batches nobody knows any more which run committed them."""
MOST_SINKS = 100
"""So many sinks are remembered, the latest first."""
_KEPT = 3
"""So many runs keep their files: the last one has what is known of the others."""


@dataclass(frozen=True)
class Segment:
    """Batches that one run committed, one after the other.

    Attributes:
        run: The run's id; empty where it is not known.
        first_batch: The first of them.
        last_batch: The last of them.
    """

    run: str
    first_batch: int
    last_batch: int


@dataclass(frozen=True)
class Run:
    """A run of a query, as its checkpoint knows it.

    Attributes:
        number: One more than the last one's in the checkpoint.
        id: Spark's own id of it.
        first_batch: The first batch that it executes, as far as it is known.
        earlier: Which runs committed the batches before that.
        sinks: The sinks that it and runs before it write to.
    """

    number: int
    id: str
    first_batch: int
    earlier: tuple[Segment, ...] = ()
    sinks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.number}.{self.first_batch}.{self.id}"

    def segments(self, last_batch: int) -> tuple[Segment, ...]:
        """Which runs committed the batches up to one."""
        segments = (*self.earlier, Segment(self.id, self.first_batch, last_batch))
        cut = [replace(s, last_batch=min(s.last_batch, last_batch)) for s in segments]
        return tuple(s for s in cut if s.first_batch <= s.last_batch)


class RunLog:
    """The runs of one checkpoint."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def begin(self, run_id: str, first_batch: int, sinks: Iterable[str] = ()) -> Run:
        """Begins a run, which writes to these sinks and is the present one from now on.

        Raises:
            Replaced: another run began at the same time, and is the present one.
        """
        number = max((run.number for run in self._runs()), default=0) + 1
        run = self._written(Run(number, run_id, first_batch, sinks=tuple(sinks)))
        self.check(run)
        for old in self._runs():
            if old.number <= number - _KEPT:
                self._folder.delete(old.name)
        return run

    def correct(self, run: Run, first_batch: int) -> Run:
        """Notes that a run executes another first batch than was thought: the one before it had gone on when it began."""
        return self._written(replace(run, first_batch=first_batch))

    def check(self, run: Run) -> None:
        """Checks that a run is the present one.

        Raises:
            Replaced: another one is.
        """
        present = max(self._runs(), key=_order, default=run)
        if _order(present) > _order(run):
            raise Replaced(
                f"another driver has started this query on the same checkpoint, as run {present.number} ({present.id}), so "
                f"that run {run.number} ({run.id}) ends here. One checkpoint serves one query at a time: stop one of the drivers"
            )

    def segments(self, last_batch: int) -> tuple[Segment, ...]:
        """Which runs committed the batches up to one, as the last run knew."""
        last = self._before(None)
        return _unknown(last_batch) if last is None else last.segments(last_batch)

    def _written(self, run: Run) -> Run:
        before = self._before(run)
        earlier = before.segments(run.first_batch - 1) if before is not None else _unknown(run.first_batch - 1)
        former = before.sinks if before is not None else ()
        sinks = tuple(dict.fromkeys((*run.sinks, *former)))[:MOST_SINKS]
        run = replace(run, earlier=_bounded(earlier), sinks=sinks)
        document = {"earlier": [asdict(segment) for segment in run.earlier], "sinks": run.sinks}
        self._folder.write(run.name, json.dumps(document))
        return run

    def _before(self, run: Run | None) -> Run | None:
        """The last run before another one, with all that it knew; None where there is none."""
        lower = [each for each in self._runs() if run is None or _order(each) < _order(run)]
        for each in sorted(lower, key=lambda each: (*_order(each), each.first_batch), reverse=True):
            try:
                document = json.loads(self._folder.read(each.name))
                earlier = tuple(Segment(**segment) for segment in document["earlier"])
                return replace(each, earlier=earlier, sinks=tuple(document.get("sinks", ())))
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                # It ended before it had written its file, and so before its first batch.
                continue
        return None

    def _runs(self) -> list[Run]:
        """Every run that has a file, without what it knew."""
        return [run for name in self._folder.names() if (run := _parsed(name)) is not None]


def _parsed(name: str) -> Run | None:
    number, _, rest = name.partition(".")
    first_batch, _, run_id = rest.partition(".")
    return Run(int(number), run_id, int(first_batch)) if number.isdecimal() and first_batch.isdecimal() and run_id else None


def _order(run: Run) -> tuple[int, str]:
    return run.number, run.id


def _unknown(last_batch: int) -> tuple[Segment, ...]:
    """What is known of a checkpoint from before runs were noted."""
    return (Segment("", 0, last_batch),) if last_batch >= 0 else ()


def _bounded(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    if len(segments) <= MOST_SEGMENTS:
        return segments
    kept = segments[-(MOST_SEGMENTS - 1) :]
    return (*_unknown(kept[0].first_batch - 1), *kept)


def covering(segments: Iterable[Segment], batches: Iterable[int]) -> set[Segment]:
    """Those segments that batches lie in."""
    wanted = set(batches)
    return {s for s in segments if any(s.first_batch <= batch <= s.last_batch for batch in wanted)}

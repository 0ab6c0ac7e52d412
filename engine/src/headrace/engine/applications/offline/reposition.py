"""Moves a stopped query to other positions: a new checkpoint continues there with the states of the old one, or without."""

import json
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from pyspark.sql import SparkSession

from headrace.contract.names import covers
from headrace.engine._errors import CheckpointError, PositionRefused
from headrace.engine.checkpoint.copy import CheckpointCopy
from headrace.engine.checkpoint.folder import HadoopFolder, open_folder, qualified
from headrace.engine.checkpoint.log import HISTORY, CheckpointLog, Predecessor
from headrace.engine.checkpoint.logged_batch import LoggedBatch
from headrace.engine.checkpoint.manifests import BY_COMMAND, MANIFESTS, STATES, Manifest, ManifestLog
from headrace.engine.checkpoint.moves import Change, Direction, Point, Target, kind_of, moved_to
from headrace.engine.checkpoint.position import Offset, Position
from headrace.engine.checkpoint.runs import RUNS, RunLog
from headrace.engine.spark.shared_checkpoint import refuse_local_checkpoint

_OPERATORS = "state"
_AS_THEY_ARE = ("sources", HISTORY, "headrace-dropped-states", "headrace-steps")
_LOCATED = "transformWithState"
"""Spark records the location of the states of these operators."""


class Kept(Enum):
    """Where a checkpoint keeps states."""

    NOWHERE = "none"
    FILES = "application"
    OPERATORS = "operators of Spark"


@dataclass(frozen=True)
class _Seen:
    """What changes in a checkpoint if a driver runs on it."""

    committed: int | None
    planned: int | None
    runs: tuple[str, ...]


class StoredPositions:
    """The positions of a stopped query, application or not, as of its last committed micro-batch.

    Args:
        spark: A session.
        checkpoint: The folder of the checkpoint.

    Raises:
        CheckpointError: There is no committed micro-batch, no stream is read, or the checkpoint is incomplete.
        HeadraceError: The session is a Spark Connect session.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        self.log = CheckpointLog(spark, checkpoint)
        if self.log.is_unfinished():
            raise CheckpointError(_incomplete(checkpoint))
        self._before = self._look()
        committed = self.log.last_committed()
        if committed is None:
            raise CheckpointError(
                f"{checkpoint} has no committed micro-batch, and therefore no positions; is it the right folder?"
            )
        if not committed.offsets:
            raise CheckpointError(f"{checkpoint} is the checkpoint of a query that reads no streams of Headrace")
        self.committed: LoggedBatch = committed

    @cached_property
    def points(self) -> dict[str, list[Point]]:
        """The ends of the committed micro-batches that the offset log still has, by pipeline, the last one last."""
        found: dict[str, list[Point]] = {offset.pipeline: [] for offset in self.committed.offsets}
        for batch in self.log.committed_batches():
            for offset in batch.offsets:
                if offset.pipeline in found:
                    found[offset.pipeline].append(Point(batch.batch, batch.planned_ms, offset.streams))
        return found

    def kind_of(self, pipeline: str, stream: str) -> str:
        """Returns the kind of a stream's source, as far as the checkpoint tells: replayable, redelivering or resumable."""
        return kind_of(stream, self.points[pipeline])

    @property
    def abandoned(self) -> int | None:
        """The micro-batch that was planned and not committed, which a new checkpoint does not repeat; None if there is none."""
        planned = self._before.planned
        return planned if planned is not None and planned > self.committed.batch else None

    @cached_property
    def sinks(self) -> tuple[str, ...]:
        """The sinks of Headrace that the query writes or wrote to; none if it writes elsewhere."""
        return self._runs.sinks()

    @cached_property
    def kept(self) -> Kept:
        """Where the checkpoint keeps states."""
        manifest = self._manifest
        if manifest is not None:
            return Kept.FILES if manifest.entries else Kept.NOWHERE
        return Kept.OPERATORS if self.log.has_spark_states() else Kept.NOWHERE

    def changes(
        self,
        target: Target,
        direction: Direction,
        streams: Collection[str],
        *,
        pipeline: str | None = None,
    ) -> list[Change]:
        """The change that moving streams would make; without streams that are there already.

        Args:
            target: Where to.
            direction: Which moves are accepted.
            streams: Names or patterns of streams.
            pipeline: Only this pipeline, if the query reads the streams more than once; None for all.

        Raises:
            PositionRefused: A stream cannot be moved there, or nothing has such a name.
        """
        found = []
        reads = [offset for offset in self.committed.offsets if pipeline in (None, offset.pipeline)]
        for text in streams:
            if not any(covers(text, name) for offset in reads for name in offset.streams):
                known = ", ".join(sorted({name for offset in reads for name in offset.streams})[:5]) or "none"
                raise PositionRefused(f"the checkpoint has no position in a stream {text}; it has: {known}")
        for offset in reads:
            points = self.points[offset.pipeline]
            for name in sorted(offset.streams):
                if any(covers(text, name) for text in streams):
                    there = moved_to(name, points, target, direction)
                    found.append(Change(offset.pipeline, name, offset.streams[name], there))
        return [change for change in found if change.before != change.after]

    def write(
        self,
        into: str,
        changes: Sequence[Change],
        *,
        drop_states: bool = False,
        shared_checkpoint: bool = False,
        before_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Writes a new checkpoint with these changes. The old one stays unchanged.

        The new checkpoint is a query of its own for sinks: its transactions have other names, so that no sink takes one for a
        repetition. It reports what the old one committed and did not commit. It counts as a run of the old one, so that a
        gateway that knows it rejects a driver that starts on the old one later.

        Args:
            into: The folder of the new checkpoint, which must not exist.
            changes: What to change.
            drop_states: Whether the query begins without states.
            shared_checkpoint: Whether both are on mounts that all machines of a cluster have at the same path.
            before_end: Called before the checkpoint is declared complete; it raises to leave it incomplete.

        Raises:
            CheckpointError: The folder exists, a driver ran on the old checkpoint meanwhile, or states cannot be copied.
        """
        for each in (self._checkpoint, into):
            refuse_local_checkpoint(self._spark, each, shared=shared_checkpoint)
        new = CheckpointLog(self._spark, into)
        if new.is_unfinished():
            raise CheckpointError(_incomplete(into))
        if new.exists():
            raise CheckpointError(f"{into} exists; a new checkpoint needs a new folder")
        copy = CheckpointCopy(self._spark, self._checkpoint, into)
        self._check_states(copy, drop_states)
        new.mark_unfinished()
        self._write_states(copy, into, drop_states)
        batch = self.committed.batch
        run = RunLog(HadoopFolder(self._spark, f"{into}/{RUNS}")).follow(self._runs, uuid.uuid4().hex, batch)
        segments = self._runs.segments(batch, self.log.owner)
        new.note_predecessors([*self.log.predecessors(), Predecessor(self.log.query(), batch, segments)])
        self._write_logs(copy, changes, run, drop_states)
        if self._look() != self._before:
            raise CheckpointError(
                f"a driver has started on {self._checkpoint} meanwhile, so {into} is not complete: stop the query, delete "
                f"{into}, and repeat the command"
            )
        before_end()
        new.mark_finished()

    def _write_logs(self, copy: CheckpointCopy, changes: Sequence[Change], run: str, drop_states: bool) -> None:
        """Writes the last two entries of Spark's logs, which is what it reads at a start: the last one with the new positions."""
        batch = self.committed.batch
        if batch:
            # Spark may have deleted the one before. Then the last one stands in for it: Spark only checks that there is one.
            before = batch - 1 if all(copy.has(f"{log}/{batch - 1}") for log in ("offsets", "commits")) else batch
            copy.write(f"offsets/{batch - 1}", copy.read(f"offsets/{before}"))
            copy.write(f"commits/{batch - 1}", copy.read(f"commits/{before}"))
        copy.write(f"offsets/{batch}", repositioned(copy.read(f"offsets/{batch}"), changes, run, drop_states=drop_states))
        copy.write("metadata", json.dumps({"id": str(uuid.uuid4())}))
        copy.write(f"commits/{batch}", copy.read(f"commits/{batch}"))

    def _check_states(self, copy: CheckpointCopy, drop: bool) -> None:
        """Checks that states can be copied, or dropped.

        Raises:
            CheckpointError: They cannot.
        """
        if self.kept is not Kept.OPERATORS:
            return
        if drop:
            raise CheckpointError(
                "Spark's operators of this query cannot begin without states at a position: keep their states, or start the "
                "query with a new checkpointLocation"
            )
        for operator in copy.names(_OPERATORS):
            metadata = f"{_OPERATORS}/{operator}/_metadata"
            for name in _files(copy, metadata):
                if _LOCATED in copy.read(name):
                    raise CheckpointError(
                        f"the query uses {_LOCATED}, and Spark records the location of its states, so that they cannot be copied"
                    )

    def _write_states(self, copy: CheckpointCopy, into: str, drop: bool) -> None:
        for name in _AS_THEY_ARE[: 2 if drop else None]:
            copy.copy(name)
        if self.kept is Kept.OPERATORS:
            copy.copy(_OPERATORS)
            return
        manifest = self._manifest
        if manifest is None:
            return
        if drop:
            manifest = replace(manifest, entries={})
        for name in sorted(manifest.files):
            copy.copy_states(f"{STATES}/{name}")
        self._manifests(into).write(self.committed.batch, BY_COMMAND, manifest)

    @cached_property
    def _manifest(self) -> Manifest | None:
        """The states after the last committed micro-batch; None if the query is no application."""
        manifests, batch = self._manifests(self._checkpoint), self.committed.batch
        run = self.log.committed_by(batch)
        return manifests.read(batch, run) if self.log.steps() is None else manifests.after(batch, run)

    def _manifests(self, checkpoint: str) -> ManifestLog:
        return ManifestLog(open_folder(self._spark, f"{qualified(self._spark, checkpoint)}/{MANIFESTS}"))

    @property
    def _runs(self) -> RunLog:
        return RunLog(HadoopFolder(self._spark, f"{self._checkpoint}/{RUNS}"))

    def _look(self) -> _Seen:
        return _Seen(self.log.last_committed_batch(), self.log.last_planned_batch(), self._runs.names())


def _incomplete(checkpoint: str) -> str:
    return f"{checkpoint} is incomplete, since its creation did not finish; delete it, and create it again"


def repositioned(entry: str, changes: Sequence[Change], run: str, *, drop_states: bool) -> str:
    """An entry of Spark's offset log with other positions. Every pipeline in it gets the number of one more run."""
    moved: dict[str, dict[str, Position]] = {}
    for change in changes:
        moved.setdefault(change.pipeline, {})[change.stream] = change.after
    version, metadata, *lines = entry.splitlines()
    return "\n".join([version, metadata, *(_line(line, moved, run, drop_states) for line in lines)])


def _line(line: str, moved: Mapping[str, Mapping[str, Position]], run: str, drop_states: bool) -> str:
    offset = Offset.parse(line)
    if offset is None:
        return line
    streams = {**offset.streams, **moved.get(offset.pipeline, {})}
    offset = replace(offset, streams=streams, run_number=(offset.run_number or 0) + 1, run_id=run)
    if drop_states:
        # Without states, tables are empty, and event time knows no stream.
        offset = replace(offset, bootstrapped=frozenset(), awaited=frozenset())
    return json.dumps(offset.to_json(), separators=(",", ":"))


def _files(copy: CheckpointCopy, folder: str) -> list[str]:
    """The files below a folder of the metadata of Spark's states, which has one level of folders at most."""
    found = []
    for name in copy.names(folder):
        inner = copy.names(f"{folder}/{name}")
        found += [f"{folder}/{name}/{each}" for each in inner if each != name] if inner != [name] else [f"{folder}/{name}"]
    return found

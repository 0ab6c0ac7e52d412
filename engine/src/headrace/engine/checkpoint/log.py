"""Reads the checkpoint of a stopped query: Spark's logs, as files, and what Headrace stores beside them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.engine._errors import CheckpointError
from headrace.engine.checkpoint.folder import HadoopFolder
from headrace.engine.checkpoint.logged_batch import LoggedBatch, logged_batch
from headrace.engine.checkpoint.runs import RUNS, RunLog, Segment
from headrace.engine.master import refuse_connect
from headrace.pipelines.runtime import Fingerprint

UNFINISHED = "headrace-unfinished"
DROPPED = "headrace-dropped-states"
PREDECESSORS = "headrace-follows"
STEPS = "headrace-steps"
HISTORY = "headrace-history"
SPARK_STATES = "state"
_OWNER = "headraceRun"


@dataclass(frozen=True)
class Predecessor:
    """A query that another one has replaced, on a checkpoint that was made from its own.

    Attributes:
        query: Its id, which identifies its transactions to sinks.
        committed: Its last micro-batch in the commit log. The other query repeats what came after it.
        segments: The micro-batches that each of its runs committed.
    """

    query: str
    committed: int
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True)
class Dropped:
    """A step whose states were dropped.

    Attributes:
        step: Its name.
        after: The last micro-batch in the commit log before that; -1 if there was none.
        level: The number of shuffles before the step of that name in the pipeline then; None if it had none.
    """

    step: str
    after: int
    level: int | None


class CheckpointLog:
    """The logs of one checkpoint, on any file system that Spark supports.

    Raises:
        HeadraceError: The session is a Spark Connect session.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        refuse_connect(spark)
        self._spark = spark
        self._checkpoint = checkpoint
        jvm: Any = spark._jvm
        self._jvm = jvm
        given = jvm.org.apache.hadoop.fs.Path(checkpoint)
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = given.getFileSystem(configuration)
        # Without the authority of the default file system, as in hdfs:///checkpoints, a file cannot be renamed.
        self._folder = self._files.makeQualified(given)
        manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        self._manager = manager.create(self._folder, configuration)

    def last_planned(self) -> LoggedBatch | None:
        """The last micro-batch that was planned; None if there is none.

        Raises:
            CheckpointError: The log is not in Spark's format.
        """
        return self._logged(self._last("offsets"))

    def last_committed(self) -> LoggedBatch | None:
        """The last micro-batch that was committed; None if there is none.

        Raises:
            CheckpointError: The log is not in Spark's format.
        """
        return self._logged(self._last("commits"))

    def last_committed_batch(self) -> int | None:
        """The number of the last micro-batch that was committed; None if there is none."""
        return self._last("commits")

    def committed_batches(self) -> list[LoggedBatch]:
        """The committed micro-batches that the offset log still has, the last one last. By default, Spark keeps 100.

        Raises:
            CheckpointError: The log is not in Spark's format.
        """
        last = self._last("commits")
        found = [self._logged(number) for number in sorted(self._numbers("offsets")) if last is not None and number <= last]
        return [batch for batch in found if batch is not None]

    def last_planned_batch(self) -> int | None:
        """The number of the last micro-batch that was planned; None if there is none."""
        return self._last("offsets")

    def has_spark_states(self) -> bool:
        """Whether Spark's state store has states in the checkpoint."""
        return bool(self._files.exists(self._path(SPARK_STATES)))

    def query(self) -> str:
        """The id of the query that the checkpoint belongs to.

        Raises:
            CheckpointError: The checkpoint's metadata is not in Spark's format.
        """
        try:
            return str(json.loads(self._text(self._path("metadata")))["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self._checkpoint}/metadata is not in Spark's format ({error})") from None

    def predecessors(self) -> tuple[Predecessor, ...]:
        """The queries that the checkpoint's own query has replaced, the latest last."""
        path = self._path(PREDECESSORS)
        return tuple(_predecessor(each) for each in json.loads(self._text(path))) if self._files.exists(path) else ()

    def note_predecessors(self, queries: Sequence[Predecessor]) -> None:
        """Records the queries that the checkpoint's own query has replaced."""
        self._write(PREDECESSORS, [asdict(query) for query in queries])

    def dropped(self) -> tuple[Dropped, ...]:
        """The steps whose states were dropped before the last committed micro-batch, which makes it final."""
        committed = self._last("commits")
        return tuple(each for each in self._noted_drops() if committed is not None and committed > each.after)

    def note_dropped(self, levels: Mapping[str, int | None]) -> None:
        """Records steps whose states are dropped once a micro-batch is committed, with `Dropped.level`.

        Withdraws the drops of starts that have committed nothing: another version of the application may use these states.
        """
        committed, before = self._last("commits"), self.dropped()
        known = {each.step for each in before}
        now = [Dropped(step, -1 if committed is None else committed, at) for step, at in levels.items() if step not in known]
        noted = (*before, *now)
        if noted != self._noted_drops():
            self._write(DROPPED, [asdict(each) for each in noted])

    def _noted_drops(self) -> tuple[Dropped, ...]:
        """All steps that are recorded, also by starts that have committed nothing."""
        path = self._path(DROPPED)
        return tuple(Dropped(**each) for each in json.loads(self._text(path))) if self._files.exists(path) else ()

    def steps(self) -> dict[str, Fingerprint] | None:
        """The steps with states as of the last committed micro-batch; None if they were not recorded.

        Raises:
            CheckpointError: The record cannot be read.
        """
        last = self._last("commits")
        noted = [] if last is None else [number for number in self._numbers(STEPS) if number <= last]
        if not noted:
            return None
        path = self._path(f"{STEPS}/{max(noted)}")
        try:
            found = json.loads(self._text(path))
            return {name: Fingerprint(**{**step, "sources": tuple(step["sources"])}) for name, step in found.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{path.toString()} is not a record of an application's steps ({error})") from None

    def note_steps(self, steps: Mapping[str, Fingerprint]) -> None:
        """Records the steps that keep states from the next committed micro-batch on."""
        last = self._last("commits")
        name = f"{STEPS}/{0 if last is None else last + 1}"
        self._write(name, {name: asdict(step) for name, step in steps.items()})

    def history(self) -> Any:
        """The document of the history that the application reads first; None if it has none."""
        path = self._path(HISTORY)
        return json.loads(self._text(path)) if self._files.exists(path) else None

    def note_history(self, document: Any) -> Any:
        """Records a history, unless there is one: the first of drivers that start at once decides. Returns what is recorded."""
        if self.history() is None:
            try:
                self._write(HISTORY, document, replaces=False)
            except Py4JJavaError as error:
                if self.history() is None:
                    raise error
        return self.history()

    def owner(self, batch: int) -> str | None:
        """The run that wrote a batch's entry in the commit log; None if the entry is gone or does not name it."""
        path = self._path(f"commits/{batch}")
        return owner_named_in(self._text(path)) if self._files.exists(path) else None

    def committed_by(self, batch: int) -> int | None:
        """The number of the run that wrote a batch's entry in the commit log; None if it is unknown."""
        owner = self.owner(batch)
        runs = RunLog(HadoopFolder(self._spark, f"{self._checkpoint}/{RUNS}"))
        return None if owner is None else runs.number_of(owner)

    def exists(self) -> bool:
        """Whether the checkpoint's folder exists."""
        return bool(self._files.exists(self._folder))

    def mark_unfinished(self) -> None:
        """Creates the folder of a checkpoint, and marks it as incomplete, so that no query starts on it.

        Raises:
            CheckpointError: Another process does so at the same time.
        """
        self._files.mkdirs(self._folder)
        try:
            self._files.create(self._path(UNFINISHED), False).close()
        except Py4JJavaError as error:
            if "AlreadyExists" not in str(error.java_exception.getClass().getSimpleName()):
                raise
            raise CheckpointError(f"{self._checkpoint} is being created by another process") from None

    def mark_finished(self) -> None:
        """Removes the mark of `mark_unfinished`."""
        self._files.delete(self._path(UNFINISHED), False)

    def is_unfinished(self) -> bool:
        """Whether the checkpoint is incomplete: its creation began and did not finish."""
        return bool(self._files.exists(self._path(UNFINISHED)))

    def _write(self, name: str, document: Any, *, replaces: bool = True) -> None:
        """Writes a file atomically, since a driver may be killed at any time."""
        path = self._path(name)
        self._manager.mkdirs(path.getParent())
        file = self._manager.createAtomic(path, replaces)
        try:
            file.write(bytearray(json.dumps(document).encode()))
        except Py4JError:
            file.cancel()
            raise
        file.close()

    def _last(self, log: str) -> int | None:
        return max(self._numbers(log), default=None)

    def _numbers(self, log: str) -> list[int]:
        folder = self._path(log)
        if not self._files.exists(folder):
            return []
        names = [status.getPath().getName() for status in self._files.listStatus(folder)]
        return [int(name) for name in names if name.isdecimal()]

    def _logged(self, batch: int | None) -> LoggedBatch | None:
        if batch is None:
            return None
        return logged_batch(batch, self._text(self._path(f"offsets/{batch}")), self._checkpoint)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, name)

    def _text(self, path: Any) -> str:
        stream = self._files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()


def owner_named_in(entry: str) -> str | None:
    """The run that an entry of a commit log names in its third line, which Spark does not read; None if it names none."""
    lines = entry.splitlines()
    try:
        named = json.loads(lines[2])[_OWNER] if len(lines) > 2 else None
    except (ValueError, KeyError, TypeError):
        return None
    return named if isinstance(named, str) and named else None


def _predecessor(document: dict[str, Any]) -> Predecessor:
    segments = tuple(Segment(**segment) for segment in document["segments"])
    return Predecessor(document["query"], document["committed"], segments)

"""What a checkpoint says while no query runs on it: Spark's logs, read as the files that they are."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.engine._classic import refuse_connect
from headrace.engine._errors import CheckpointError
from headrace.engine._position import Offset
from headrace.engine._runs import Segment
from headrace.pipelines.runtime import Fingerprint

_UNFINISHED = "headrace-unfinished"
_DROPPED = "headrace-dropped-states"
_FOLLOWS = "headrace-follows"
_STEPS = "headrace-steps"
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Logged:
    """A micro-batch of the offset log.

    Attributes:
        batch: Its number.
        partitions: In how many parts the query shuffles; the same for the life of a checkpoint.
        offsets: Where the micro-batch ends in each Headrace source.
    """

    batch: int
    partitions: int
    offsets: tuple[Offset, ...]


@dataclass(frozen=True)
class Followed:
    """A query in whose place another one goes on, with a checkpoint that was made of its own.

    Attributes:
        query: Its id, by which sinks know its transactions.
        committed: Its last micro-batch in the commit log. What it did after that, the other query does again.
        segments: Which of its runs committed which micro-batches.
    """

    query: str
    committed: int
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True)
class Dropped:
    """A step whose states were given up.

    Attributes:
        step: Its name.
        after: The last micro-batch in the commit log before that; -1 where there was none.
        level: Behind how many shuffles the pipeline had a step of that name then; None where it had none.
    """

    step: str
    after: int
    level: int | None


class CheckpointLog:
    """The logs of one checkpoint, on any file system that Spark knows.

    Raises:
        HeadraceError: the session is one of Spark Connect.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        refuse_connect(spark)
        self._checkpoint = checkpoint
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._folder = jvm.org.apache.hadoop.fs.Path(checkpoint)
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = self._folder.getFileSystem(configuration)
        manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        self._manager = manager.create(self._folder, configuration)

    def last_planned(self) -> Logged | None:
        """The last micro-batch that was planned; None where there was none.

        Raises:
            CheckpointError: the log is not in Spark's form.
        """
        return self._logged(self._last("offsets"))

    def last_committed(self) -> Logged | None:
        """The last micro-batch that was committed; None where there was none.

        Raises:
            CheckpointError: the log is not in Spark's form.
        """
        return self._logged(self._last("commits"))

    def state_format(self) -> int | None:
        """The format of Spark's state store that the checkpoint keeps to; None before a micro-batch was committed.

        Raises:
            CheckpointError: the log is not in Spark's form.
        """
        batch = self._last("commits")
        if batch is None:
            return None
        try:
            _, document = self._text(self._path(f"commits/{batch}")).splitlines()
            return 2 if json.loads(document).get("stateUniqueIds") else 1
        except ValueError as error:
            raise CheckpointError(f"{self._checkpoint}/commits/{batch} is no entry of Spark's commit log ({error})") from None

    def query(self) -> str:
        """The id of the query that the checkpoint belongs to.

        Raises:
            CheckpointError: the checkpoint says none.
        """
        try:
            return str(json.loads(self._text(self._path("metadata")))["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self._checkpoint}/metadata is not what Spark writes there ({error})") from None

    def followed(self) -> tuple[Followed, ...]:
        """The queries in whose place the checkpoint's own goes on, the latest last."""
        path = self._path(_FOLLOWS)
        return tuple(_followed(each) for each in json.loads(self._text(path))) if self._files.exists(path) else ()

    def follow(self, queries: Sequence[Followed]) -> None:
        """Notes the queries in whose place the checkpoint's own goes on."""
        self._write(_FOLLOWS, [asdict(query) for query in queries])

    def dropped(self) -> tuple[Dropped, ...]:
        """The steps whose states were given up for good, in that a micro-batch was committed since."""
        path = self._path(_DROPPED)
        if not self._files.exists(path):
            return ()
        committed = self._last("commits")
        noted = (Dropped(**each) for each in json.loads(self._text(path)))
        return tuple(each for each in noted if committed is not None and committed > each.after)

    def drop(self, levels: Mapping[str, int | None]) -> None:
        """Notes steps whose states are given up once a micro-batch is committed, with `Dropped.level`."""
        committed, before = self._last("commits"), self.dropped()
        known = {each.step for each in before}
        now = [Dropped(step, -1 if committed is None else committed, at) for step, at in levels.items() if step not in known]
        self._write(_DROPPED, [asdict(each) for each in (*before, *now)])

    def steps(self) -> dict[str, Fingerprint] | None:
        """The steps whose states the last committed micro-batch left; None where nobody noted them.

        Raises:
            CheckpointError: what was noted cannot be read.
        """
        last = self._last("commits")
        noted = [] if last is None else [number for number in self._numbers(_STEPS) if number <= last]
        if not noted:
            return None
        path = self._path(f"{_STEPS}/{max(noted)}")
        try:
            found = json.loads(self._text(path))
            return {name: Fingerprint(**{**step, "sources": tuple(step["sources"])}) for name, step in found.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{path.toString()} is not what a start of an application notes ({error})") from None

    def note_steps(self, steps: Mapping[str, Fingerprint]) -> None:
        """Notes the steps that keep states from the next micro-batch on that is committed."""
        last = self._last("commits")
        name = f"{_STEPS}/{0 if last is None else last + 1}"
        self._write(name, {name: asdict(step) for name, step in steps.items()})

    def exists(self) -> bool:
        """Whether there is anything where the checkpoint lies."""
        return bool(self._files.exists(self._folder))

    def mark_unfinished(self) -> None:
        """Says that the checkpoint is being made, so that nothing starts on it before it is whole."""
        self._files.mkdirs(self._folder)
        self._files.create(self._path(_UNFINISHED)).close()

    def mark_finished(self) -> None:
        """Says that the checkpoint is whole."""
        self._files.delete(self._path(_UNFINISHED), False)

    def is_unfinished(self) -> bool:
        """Whether somebody began to make the checkpoint and did not come to the end."""
        return bool(self._files.exists(self._path(_UNFINISHED)))

    def _write(self, name: str, document: Any) -> None:
        """Writes a file whole or not at all, since a driver may be killed at any time."""
        path = self._path(name)
        self._manager.mkdirs(path.getParent())
        file = self._manager.createAtomic(path, True)
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

    def _logged(self, batch: int | None) -> Logged | None:
        if batch is None:
            return None
        text = self._text(self._path(f"offsets/{batch}"))
        try:
            _, metadata, *offsets = text.splitlines()
            documents = [json.loads(offset) for offset in offsets if offset != "-"]
            own = tuple(Offset.from_json(d) for d in documents if isinstance(d, dict) and d.keys() >= {"pipeline", "streams"})
            return Logged(batch, int(json.loads(metadata)["conf"][_PARTITIONS]), own)
        except (ValueError, KeyError) as error:
            where = f"{self._checkpoint}/offsets/{batch}"
            raise CheckpointError(f"{where} is no entry of Spark's offset log ({type(error).__name__}: {error})") from None

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._checkpoint}/{name}")

    def _text(self, path: Any) -> str:
        stream = self._files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()


def _followed(document: dict[str, Any]) -> Followed:
    # Checkpoints from before runs were noted do not name them: then nobody knows which run committed a micro-batch.
    unknown = [{"run": "", "first_batch": 0, "last_batch": document["committed"]}]
    segments = tuple(Segment(**segment) for segment in document.get("segments") or unknown)
    return Followed(document["query"], document["committed"], segments)

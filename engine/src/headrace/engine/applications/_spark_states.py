"""States that an earlier version has stored in Spark's state store, and their conversion.

Those versions ran keyed stages as stateful operators of Spark. A query on such a checkpoint starts after its states have been
copied to files: as they are stored, without a look at what is in them.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.engine._errors import CheckpointError
from headrace.engine.applications._bucket_files import BucketFiles
from headrace.engine.applications._durable import load
from headrace.engine.applications._store import Stored, read_head
from headrace.engine.checkpoint._folder import open_folder
from headrace.engine.checkpoint._log import CheckpointLog
from headrace.engine.checkpoint._manifests import CONVERTED, MANIFESTS, STATES, Bucket, Entry, Manifest, ManifestLog
from headrace.engine.checkpoint._state_files import StateFiles
from headrace.engine.spark._served_files import driver_files
from headrace.pipelines.runtime import Graph


class SparkStates:
    """The states of a checkpoint in Spark's state store.

    Args:
        spark: A session.
        checkpoint: The folder of the checkpoint.
        batch: The last committed micro-batch.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, batch: int) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._batch = batch

    def buckets(self, bucket: int | None = None) -> Iterator[Stored]:
        """The content of each bucket, of all operators, or of the bucket with an id."""
        for operator in self._operators:
            for _, stored in self._of_operator(operator, bucket):
                yield stored

    def by_operator(self) -> Iterator[list[tuple[int, "SparkBucket"]]]:
        """The buckets of each operator, with their ids."""
        for operator in self._operators:
            yield list(self._of_operator(operator, None))

    def _of_operator(self, operator: int, bucket: int | None) -> Iterator[tuple[int, "SparkBucket"]]:
        heads = self._variable(operator, "head", bucket).select(F.col("key.bucket"), F.col("value.head")).collect()
        for found, packed in heads:
            changes, snapshot = self._variable(operator, "changes", found), self._variable(operator, "snapshot", found)
            pieces = _SparkPieces(changes, "number", "change"), _SparkPieces(snapshot, "segment", "states")
            yield found, SparkBucket(bytes(packed), *pieces)

    @cached_property
    def _operators(self) -> list[int]:
        metadata = self._spark.read.format("state-metadata").load(self._checkpoint)
        return sorted({int(row.operatorId) for row in metadata.select("operatorId").distinct().collect()})

    def _variable(self, operator: int, name: str, bucket: int | None) -> DataFrame:
        reader = self._spark.read.format("statestore").option("operatorId", operator).option("stateVarName", name)
        if name != "head":
            reader = reader.option("flattenCollectionTypes", True)
        frame = reader.option("batchId", self._batch).load(self._checkpoint)
        return frame if bucket is None else frame.filter(F.col("key.bucket") == bucket)


@dataclass(frozen=True)
class _SparkPieces:
    """One state variable of a bucket."""

    frame: DataFrame
    number: str
    piece: str

    def read(self, number: int) -> bytes:
        return self.all[number]

    @cached_property
    def all(self) -> dict[int, bytes]:
        """The pieces by number."""
        rows = self.frame.select(F.col(f"user_map_key.{self.number}"), F.col(f"user_map_value.{self.piece}"))
        return {int(number): bytes(piece) for number, piece in rows.collect()}


@dataclass(frozen=True)
class SparkBucket:
    """A bucket in Spark's state store."""

    head: bytes
    changes: _SparkPieces
    segments: _SparkPieces

    def read_head(self) -> bytes | None:
        """The head."""
        return self.head


def take_over(
    spark: SparkSession, log: CheckpointLog, url: str, graph: Graph, dropped: Collection[str], *, sync: bool = False
) -> None:
    """Makes sure that a checkpoint has its states in files: copies them if an earlier version has stored them.

    Args:
        spark: The session.
        log: The logs of the checkpoint.
        url: The qualified path of the checkpoint.
        graph: The application's graph.
        dropped: Steps whose states are to be dropped.
        sync: Whether the copies survive a power loss, if they are on a local disk.

    Raises:
        CheckpointError: The checkpoint has no states, although it should have some.
        StateError: Stored states do not match the classes or the steps of the pipeline.
    """
    batch = log.last_committed_batch()
    if batch is None:
        return
    manifests = ManifestLog(open_folder(spark, f"{url}/{MANIFESTS}", sync=sync))
    if stored_in_files(log, manifests, batch) is None:
        if log.has_spark_states():
            manifests.delete(batch, CONVERTED)
            manifest = converted(spark, url, batch, graph, dropped, driver_files(spark, f"{url}/{STATES}", sync=sync))
        elif log.steps():
            raise CheckpointError(
                f"{url} has no manifest of the states after micro-batch {batch}, which is in its commit log: restore "
                f"{MANIFESTS} from the same backup as the rest"
            )
        else:
            manifest = Manifest()
        # Where it exists, another driver that starts now was faster: its copy counts.
        with suppress(FileExistsError):
            manifests.write(batch, CONVERTED, manifest)
    # Spark refuses to start a query without operators for these.
    log.delete_spark_states()


def stored_in_files(log: CheckpointLog, manifests: ManifestLog, batch: int) -> Manifest | None:
    """The manifest of the last committed micro-batch of a checkpoint; None if it has none, or its states are still Spark's.

    Raises:
        CheckpointError: The manifest cannot be read.
    """
    try:
        return manifests.read(batch, log.committed_by(batch))
    except CheckpointError:
        # Earlier versions did not write it at once, and may have died. They then had not deleted Spark's states yet.
        if manifests.last_run(batch) == CONVERTED and log.has_spark_states():
            return None
        raise


def converted(spark: SparkSession, url: str, batch: int, graph: Graph, dropped: Collection[str], files: StateFiles) -> Manifest:
    """Copies the states of a checkpoint from Spark's state store to files; returns the manifest that names them.

    Args:
        spark: The session.
        url: The qualified path of the checkpoint.
        batch: Its last committed micro-batch.
        graph: The application's graph.
        dropped: Steps whose states are dropped.
        files: Where to write.

    Raises:
        StateError: Stored states do not match the classes or the steps of the pipeline.
    """
    operators = list(SparkStates(spark, url, batch).by_operator())
    entries: dict[Bucket, Entry] = {}
    for level, buckets in zip(_levels(operators, graph, dropped), operators, strict=True):
        for bucket, stored in buckets:
            copy = BucketFiles(files, (level, bucket), None)
            for number, piece in stored.changes.all.items():
                copy.changes.write(number, piece)
            for number, piece in stored.segments.all.items():
                copy.segments.write(number, piece)
            copy.write_head(stored.head)
            entries[level, bucket] = copy.finish(batch)
    return Manifest(entries)


def _levels(operators: Sequence[Sequence[tuple[int, SparkBucket]]], graph: Graph, dropped: Collection[str]) -> list[int]:
    """The number of shuffles before each operator: by the steps that it has states of; those without any take what is left."""
    classes = {step.name: step.state_class for step in graph.keyed}
    levels = graph.keyed_levels
    found: list[int | None] = []
    for buckets in operators:
        steps = {
            step for _, stored in buckets for step, kept in load(stored, read_head(stored), classes, dropped).items() if kept
        }
        found.append(next((levels[step] for step in sorted(steps)), None))
    left = [level for level in range(1, len(operators) + 1) if level not in found]
    return [left.pop(0) if level is None else level for level in found]

"""Reads the states of a stopped application from its checkpoint."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from headrace.engine._errors import CheckpointError
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.durable import load
from headrace.engine.applications.states.keys import bucket_ids, buckets_of
from headrace.engine.applications.states.store import Head, Stored, read_head
from headrace.engine.checkpoint.folder import open_folder, qualified
from headrace.engine.checkpoint.log import CheckpointLog
from headrace.engine.checkpoint.manifests import MANIFESTS, STATES, ManifestLog
from headrace.engine.spark.served_files import driver_files
from headrace.pipelines.runtime import Graph, Key, StateClass, States


@dataclass(frozen=True)
class StateSize:
    """The amount of state of a step.

    Attributes:
        step: The name of the step.
        keys: The number of keys that have a state.
    """

    step: str
    keys: int


class StoredStates:
    """The states of a checkpoint as of its last committed micro-batch.

    Its methods raise `StateError` if stored states do not match the classes or the steps of the pipeline.

    Args:
        spark: A session.
        checkpoint: The folder of the checkpoint.
        graph: The application's graph, `Pipeline.graph`.

    Raises:
        CheckpointError: There is no committed micro-batch, or the checkpoint does not have the states after it.
        HeadraceError: The session is a Spark Connect session.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, graph: Graph) -> None:
        self._spark = spark
        self._graph = graph
        self.log = CheckpointLog(spark, checkpoint)
        committed = self.log.last_committed()
        if committed is None:
            raise CheckpointError(f"{checkpoint} has no committed micro-batch, and therefore no states; is it the right folder?")
        self.committed = committed
        self._url = qualified(spark, checkpoint)
        manifests = ManifestLog(open_folder(spark, f"{self._url}/{MANIFESTS}"))
        self._manifest = manifests.after(committed.batch, self.log.committed_by(committed.batch))

    def sizes(self) -> list[StateSize]:
        """The amount of state of each step."""
        keys: dict[str, int] = {step.name: 0 for step in self._graph.keyed}
        for _, kept in self._buckets():
            for step, states in kept.items():
                keys[step] += len(states)
        return [StateSize(step, count) for step, count in keys.items()]

    def find(self, step: str, key: Key) -> Any:
        """The state of a key in a step; None if it has none."""
        ids = bucket_ids(self.committed.partitions)
        bucket = ids[int(buckets_of([key], len(ids))[0])]
        for _, kept in self._buckets(bucket):
            if key in kept.get(step, {}):
                return self._display(step, kept[step][key])
        return None

    def all(self, step: str) -> Iterator[tuple[Key, Any]]:
        """Yields every key of a step with its state."""
        for _, kept in self._buckets():
            for key, state in kept.get(step, States()).items():
                yield key, self._display(step, state)

    def by_level(self) -> Iterator[tuple[int, dict[str, States], dict[str, Any]]]:
        """Yields the states of each bucket: their level, the states by step, and what is stored beside them."""
        levels = {step.name: self._graph.levels[self._graph.steps.index(step)] for step in self._graph.keyed}
        for head, kept in self._buckets():
            of_level: dict[int, dict[str, States]] = {}
            for step, states in kept.items():
                of_level.setdefault(levels[step], {})[step] = states
            for level, states_by_step in of_level.items():
                yield level, states_by_step, dict(head.beside)

    def _display(self, step: str, state: Any) -> Any:
        return next(keyed for keyed in self._graph.keyed if keyed.name == step).display(state)

    @cached_property
    def _classes(self) -> dict[str, StateClass]:
        return {step.name: step.state_class for step in self._graph.keyed}

    @cached_property
    def _dropped(self) -> frozenset[str]:
        return frozenset(each.step for each in self.log.dropped())

    def _buckets(self, bucket: int | None = None) -> Iterator[tuple[Head, dict[str, States]]]:
        for store in self._stored(bucket):
            head = read_head(store)
            yield head, load(store, head, self._classes, self._dropped)

    def _stored(self, bucket: int | None) -> Iterator[Stored]:
        files = driver_files(self._spark, f"{self._url}/{STATES}")
        for at, entry in self._manifest.entries.items():
            if bucket is None or at[1] == bucket:
                yield BucketFiles(files, at, entry)

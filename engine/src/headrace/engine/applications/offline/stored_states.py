"""Reads the states of an application from its checkpoint, whether it runs or not."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from headrace.engine._errors import CheckpointError, OptionError
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.durable import find, load
from headrace.engine.applications.states.keys import bucket_ids, buckets_of
from headrace.engine.applications.states.store import Head, read_head
from headrace.engine.checkpoint.committed import ROUNDS, committed, too_fast
from headrace.engine.checkpoint.manifests import STATES, Bucket
from headrace.engine.checkpoint.state_files import state_files
from headrace.engine.checkpoint.trees import tree_at
from headrace.engine.master import refuse_connect
from headrace.engine.spark.served_files import driver_files
from headrace.pipelines.runtime import Graph, Key, StateClass, States, normal_key

T = TypeVar("T")


@dataclass(frozen=True)
class StateSize:
    """The amount of state of a step.

    Attributes:
        step: The name of the step.
        keys: The number of keys that have a state.
        bound: What bounds its states, in words that begin with "none" if nothing does.
    """

    step: str
    keys: int
    bound: str


class StoredStates:
    """The states of a checkpoint as of its last committed micro-batch.

    Only files are read, so a running application is not disturbed. It deletes old states as it commits further micro-batches. If
    it does so before they are read, they are read as of the micro-batch that is the last one by then: `committed.batch` is the
    one that the last call has read.

    Its methods raise `StateError` if stored states do not match the classes or the steps of the pipeline, and `CheckpointError`
    if a file is missing or damaged, or the application deletes states faster than they are read.

    Args:
        spark: A session; None if the checkpoint is on a disk of this machine.
        checkpoint: The folder of the checkpoint.
        graph: The application's graph, `Pipeline.graph`.

    Raises:
        CheckpointError: There is no committed micro-batch, or the checkpoint does not have the states after it.
        HeadraceError: The session is a Spark Connect session.
    """

    def __init__(self, spark: SparkSession | None, checkpoint: str, graph: Graph) -> None:
        if spark is not None:
            refuse_connect(spark)
        self._graph = graph
        self._tree = tree_at(checkpoint, spark)
        self.committed = committed(self._tree)
        self.url = f"{self._tree.url}/{STATES}"
        """The folder of states."""
        self._files = state_files(self.url) if spark is None else driver_files(spark, self.url)

    def sizes(self) -> list[StateSize]:
        """The amount of state of each step."""
        return self._latest(self._sizes)

    def find(self, step: str, key: Key) -> Any:
        """The state of a key in a step; None if it has none. One segment of one bucket is read, and the changes since.

        Raises:
            OptionError: The pipeline has no such step, or the key is of a type that keys do not have.
        """
        self.check(step)
        try:
            normal = normal_key(key)
        except (TypeError, ValueError) as error:
            raise OptionError(f"step {step}: {error}") from None
        return self._latest(lambda: self._find(step, normal))

    def all(self, step: str) -> Iterator[tuple[Key, Any]]:
        """Yields every key of a step with its state, all as of one micro-batch.

        Raises:
            OptionError: The pipeline has no such step.
        """
        return ((key, state) for _, key, state in self.each([step]))

    def each(self, steps: Sequence[str]) -> Iterator[tuple[str, Key, Any]]:
        """Yields every key of some steps: the step, the key and its state, all as of one micro-batch.

        Raises:
            OptionError: The pipeline has no such step.
        """
        for step in steps:
            self.check(step)
        return self._each(steps)

    def _each(self, steps: Sequence[str]) -> Iterator[tuple[str, Key, Any]]:
        levels = {self._graph.keyed_levels[step] for step in steps}
        has_begun = False
        for _ in range(ROUNDS):
            try:
                copied = set[str]()
                for _, _, kept in self._buckets(levels):
                    for step in (step for step in steps if step in kept and step not in copied):
                        if step in self._graph.in_every_bucket and kept[step]:
                            copied.add(step)
                        for key, state in kept[step].items():
                            has_begun = True
                            yield step, key, self._display(step, state)
                return
            except CheckpointError as error:
                if not self.advance():
                    raise
                if has_begun:
                    raise too_fast(self._tree.url) from error
        raise too_fast(self._tree.url)

    def check(self, step: str) -> None:
        """Checks that the application keeps states in a step.

        Raises:
            OptionError: The pipeline has no such step.
            CheckpointError: The checkpoint does not know it.
        """
        steps = self._graph.keyed_levels
        if step not in steps:
            raise OptionError(f"pipeline {self._graph.name} keeps no states in a step {step}; it does in: {', '.join(steps)}")
        stored = self.committed.steps
        if stored is not None and step not in stored:
            raise CheckpointError(
                f"{self._tree.url} has no states of step {step} after micro-batch {self.committed.batch}: the steps of its "
                f"application are {', '.join(sorted(stored)) or 'without states'}. Is it the checkpoint of another application?"
            )

    def advance(self) -> bool:
        """Continues with the last committed micro-batch; returns whether it is another one."""
        before, self.committed = self.committed, committed(self._tree)
        return self.committed != before

    def by_level(self) -> Iterator[tuple[int, dict[str, States], dict[str, Any]]]:
        """Yields the states of each bucket of a stopped application: their level, the states by step, and what is beside them."""
        for (level, _), head, kept in self._buckets():
            yield level, kept, dict(head.beside)

    def _sizes(self) -> list[StateSize]:
        keys = {step.name: 0 for step in self._graph.keyed}
        for _, _, kept in self._buckets():
            for step, states in kept.items():
                keys[step] = max(keys[step], len(states)) if step in self._graph.in_every_bucket else keys[step] + len(states)
        bounds = self._graph.bounds
        return [StateSize(step, count, bounds[step]) for step, count in keys.items()]

    def _find(self, step: str, key: Key) -> Any:
        ids = bucket_ids(self.committed.partitions)
        at = self._graph.keyed_levels[step], ids[int(buckets_of([key], len(ids))[0])]
        entry = self.committed.manifest.entries.get(at)
        if entry is None:
            return None
        store = BucketFiles(self._files, at, entry)
        state = find(store, read_head(store), step, key, self._classes(at[0])[step])
        return None if state is None else self._display(step, state)

    def _display(self, step: str, state: Any) -> Any:
        return next(keyed for keyed in self._graph.keyed if keyed.name == step).display(state)

    def _classes(self, level: int) -> Mapping[str, StateClass]:
        levels = self._graph.keyed_levels
        return {step.name: step.state_class for step in self._graph.keyed if levels[step.name] == level}

    def _buckets(self, levels: Collection[int] | None = None) -> Iterator[tuple[Bucket, Head, dict[str, States]]]:
        """The states of all buckets, or of the buckets of some levels."""
        now = self.committed
        for at, entry in now.manifest.entries.items():
            if levels is None or at[0] in levels:
                store = BucketFiles(self._files, at, entry)
                head = read_head(store)
                yield at, head, load(store, head, self._classes(at[0]), now.dropped)

    def _latest(self, read: Callable[[], T]) -> T:
        """The result of `read`, which begins again if the application has deleted what was to be read."""
        for _ in range(ROUNDS):
            try:
                return read()
            except CheckpointError:
                if not self.advance():
                    raise
        raise too_fast(self._tree.url)

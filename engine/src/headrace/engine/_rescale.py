"""Divides the states of a stopped application anew: a new checkpoint goes on where the old one ended."""

import json
import pickle
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from headrace.engine._checkpoint_log import CheckpointLog, Followed
from headrace.engine._errors import CheckpointError
from headrace.engine._folder import HadoopFolder
from headrace.engine._query_settings import settings_of_query
from headrace.engine._runs import RUNS, RunLog
from headrace.engine._session import register
from headrace.engine._shared_checkpoint import refuse_local_checkpoint
from headrace.engine._ship import ship
from headrace.engine._source import FORMAT
from headrace.engine._start import keyed_rows
from headrace.engine._states import StoredStates
from headrace.engine.pipelines._keys import bucket_ids, buckets_of
from headrace.engine.pipelines._plan import Plan
from headrace.engine.pipelines._segments import whole
from headrace.pipelines import Pipeline, StateError
from headrace.pipelines.runtime import Graph, Key, States, check_fingerprints, merged, normal_key, not_normal

_INITIAL = StructType(
    [
        StructField("bucket", IntegerType(), False),
        StructField("change", BinaryType(), False),
        StructField("beside", BinaryType(), False),
    ]
)


def rescale(
    pipeline: Pipeline,
    spark: SparkSession,
    checkpoint: str,
    into: str,
    parallelism: int,
    *,
    folder: Path | None = None,
    shared_checkpoint: bool = False,
) -> int:
    """Makes a checkpoint in which keys are divided into so many parts; returns how many states it holds.

    What the last micro-batch of the old checkpoint did that is not committed is done again by the new one. All states go through
    the driver.

    Args:
        pipeline: The application.
        spark: A session that `register` or `build_session` has seen.
        checkpoint: The old checkpoint.
        into: Where the new one is to be.
        parallelism: Into how many parts.
        folder: The folder whose modules and packages the workers need; without it that of the module that made the pipeline.
        shared_checkpoint: Whether both checkpoints are on mounts that all machines of a cluster have at the same path.

    Raises:
        CheckpointError: the old checkpoint holds no committed micro-batch, or there is something where the new one is to be; or
            one of them is on a local disk, and executors run on other machines.
        StateError: stored states do not fit the classes that the pipeline has now, or its keys.
    """
    graph = pipeline.graph
    old = StoredStates(spark, checkpoint, graph)
    for each in (checkpoint, into):
        refuse_local_checkpoint(spark, each, shared=shared_checkpoint)
    if CheckpointLog(spark, into).exists():
        raise CheckpointError(f"{into} exists; a new checkpoint needs a new folder")
    if not old.committed.offsets:
        raise CheckpointError(f"{checkpoint} is not the checkpoint of an application")
    check_fingerprints(old.log.steps() or {}, graph.fingerprints)
    ids = bucket_ids(parallelism)
    initial, keys = _initial(spark, old, graph, ids)
    if folder := folder or pipeline.folder:
        ship(spark, folder)
    plan = Plan(graph, ids, into, uuid.uuid4().hex, 0)
    register(spark, {graph.name: plan})
    resume_at = json.dumps(old.committed.offsets[0].to_json())
    # Nothing is read, from whatever gateway.
    unread = {"loopbackGateway": "true", "sharedCheckpoint": str(shared_checkpoint).lower()}
    reader = spark.readStream.format(FORMAT).options(pipeline=graph.name, application=graph.name, resumeAt=resume_at, **unread)
    rows = keyed_rows(plan, reader.option("stream", ",".join(graph.streams)).load(), initial)
    new = CheckpointLog(spark, into)
    # A checkpoint that is not whole must never be taken for one; and it cannot be moved, since Spark notes where it lies.
    new.mark_unfinished()
    new.note_steps(graph.fingerprints)
    writer = rows.writeStream.format("noop").option("checkpointLocation", into).trigger(availableNow=True)
    with settings_of_query(spark, parallelism):
        query = writer.start()
    query.awaitTermination()
    if new.last_committed() is None:
        raise CheckpointError(f"{into} was not made: Spark ran no micro-batch on it")
    # Sinks may still have transactions of the old query, which only its commit log decides, and nobody reads that any more.
    runs = RunLog(HadoopFolder(spark, f"{checkpoint}/{RUNS}"))
    new.follow([*old.log.followed(), Followed(old.log.query(), old.committed.batch, runs.segments(old.committed.batch))])
    new.mark_finished()
    return keys


def _initial(spark: SparkSession, old: StoredStates, graph: Graph, ids: tuple[int, ...]) -> tuple[dict[int, DataFrame], int]:
    """What each level of the new checkpoint begins with."""
    keys = 0
    changes: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
    beside: dict[int, dict[str, Any]] = {level: {} for level in range(1, graph.shuffles + 1)}
    classes = {step.name: step.state_class for step in graph.keyed}
    there: defaultdict[str, set[Key]] = defaultdict(set)
    for level, kept, found in old.by_level():
        beside[level] = merged(beside[level], found)
        for step, states in kept.items():
            keys += len(states)
            states = _of_normal_keys(step, states, there[step])
            for bucket, some in _divided(states, ids).items():
                changes[level] += [(bucket, change) for change in whole({step: some}, classes)]
    nothing = pickle.dumps({}, 5)
    return {
        level: spark.createDataFrame(
            [
                (bucket, bytearray(change), bytearray(pickle.dumps(beside[level], 5)))
                # Every bucket learns how far event time has come, also one that begins without a state.
                for bucket, change in [*changes[level], *((bucket, nothing) for bucket in ids)]
            ],
            _INITIAL,
        )
        for level in beside
    }, keys


def _of_normal_keys(step: str, states: States, there: set[Key]) -> States:
    """The states of a step in one bucket, by keys as they are written now; those `there` are those of the other buckets.

    Raises:
        StateError: a key is none any more, or two are one now.
    """
    if odd := not_normal(states):
        normal = dict.fromkeys(states)
        for key in odd:
            try:
                normal[key] = normal_key(key)
            except (TypeError, ValueError) as error:
                raise StateError(f"step {step}: the state of key {key!r} cannot be kept: {error}") from None
        found = States()
        found.update({key if normal[key] is None else normal[key]: state for key, state in states.items()})
        states = found
    if twice := there & states.keys():
        raise StateError(f"step {step}: there are two states for key {next(iter(twice))!r}, which were those of two keys before")
    there |= states.keys()
    return states


def _divided(states: States, ids: tuple[int, ...]) -> dict[int, States]:
    """States by the buckets that their keys lie in."""
    if not states:
        return {}
    by_bucket: defaultdict[int, States] = defaultdict(States)
    for (key, state), bucket in zip(states.items(), buckets_of(list(states), len(ids)).tolist(), strict=True):
        by_bucket[ids[bucket]][key] = state
    return dict(by_bucket)

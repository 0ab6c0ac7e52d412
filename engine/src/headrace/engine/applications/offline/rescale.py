"""Repartitions the states of a stopped application: a new checkpoint continues where the old one ended."""

import json
import uuid
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.engine._errors import CheckpointError
from headrace.engine.applications.offline.stored_states import StoredStates
from headrace.engine.applications.shipping.ship import send_program_classes, ship
from headrace.engine.applications.stages.plan import Plan
from headrace.engine.applications.starting.input import Input
from headrace.engine.applications.starting.query_settings import settings_of_query
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.durable import begin
from headrace.engine.applications.states.keys import bucket_ids, buckets_of
from headrace.engine.applications.states.segments import whole
from headrace.engine.checkpoint.folder import HadoopFolder, open_folder, qualified
from headrace.engine.checkpoint.log import CheckpointLog, Predecessor
from headrace.engine.checkpoint.manifests import BY_COMMAND, MANIFESTS, STATES, Bucket, Manifest, ManifestLog
from headrace.engine.checkpoint.runs import RUNS, RunLog
from headrace.engine.checkpoint.state_files import StateFiles
from headrace.engine.spark.format import FORMAT
from headrace.engine.spark.served_files import driver_files
from headrace.engine.spark.session import register
from headrace.engine.spark.shared_checkpoint import refuse_local_checkpoint
from headrace.pipelines import Pipeline
from headrace.pipelines.runtime import Graph, States, check_fingerprints, dumps_plain, merged

FIRST_BATCH = 0
"""The micro-batch that creates the new checkpoint."""


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
    """Creates a new checkpoint with a different number of buckets. Returns the number of states in it.

    The new checkpoint processes again what the old one had not committed. All states pass through the driver.

    Args:
        pipeline: The application.
        spark: A session from `build_session`, or passed to `register`.
        checkpoint: The old checkpoint.
        into: The folder of the new one, which must not exist.
        parallelism: The number of buckets.
        folder: The folder whose modules and packages the workers need; by default, the folder of the pipeline's module.
        shared_checkpoint: Whether both checkpoints are on mounts that all machines of a cluster have at the same path.

    Raises:
        CheckpointError: The old checkpoint has no committed micro-batch or is not an application's, the new folder exists, or
            one of them is on a local disk and executors run on other machines.
        StateError: Stored states do not match the classes or the keys of the pipeline.
    """
    graph = pipeline.graph
    old, log = StoredStates(spark, checkpoint, graph), CheckpointLog(spark, checkpoint)
    for each in (checkpoint, into):
        refuse_local_checkpoint(spark, each, shared=shared_checkpoint)
    if CheckpointLog(spark, into).exists():
        raise CheckpointError(f"{into} exists; a new checkpoint needs a new folder")
    if not old.committed.offsets:
        raise CheckpointError(f"{checkpoint} is not the checkpoint of an application")
    check_fingerprints(log.steps() or {}, graph.fingerprints)
    ids = bucket_ids(parallelism)
    send_program_classes()
    if folder := folder or pipeline.folder:
        ship(spark, folder)
    register(spark, {graph.name: Input(Plan(graph, ids, into, uuid.uuid4().hex, 0))})
    resume_at = json.dumps(old.committed.offsets[0].to_json())
    # The run reads nothing, so the gateway's address does not matter.
    unread = {"loopbackGateway": "true", "sharedCheckpoint": str(shared_checkpoint).lower()}
    reader = spark.readStream.format(FORMAT).options(pipeline=graph.name, application=graph.name, resumeAt=resume_at, **unread)
    rows = reader.option("stream", ",".join(graph.streams)).load()
    new = CheckpointLog(spark, into)
    # The checkpoint cannot be created elsewhere and moved, since Spark stores its path: it is marked until it is complete.
    new.mark_unfinished()
    new.note_steps(graph.fingerprints)
    if (history := log.history()) is not None:
        new.note_history(history)
    url = qualified(spark, into)
    manifest, keys = _divided_states(old, graph, ids, driver_files(spark, f"{url}/{STATES}"))
    ManifestLog(open_folder(spark, f"{url}/{MANIFESTS}")).write(FIRST_BATCH, BY_COMMAND, manifest)
    writer = rows.writeStream.format("noop").option("checkpointLocation", into).trigger(availableNow=True)
    with settings_of_query(spark, parallelism):
        query = writer.start()
    query.awaitTermination()
    if new.last_committed() is None:
        raise CheckpointError(f"{into} was not created: Spark ran no micro-batch on it")
    # Sinks may still have pending transactions of the old query: the new query reports its commit log.
    runs, last = RunLog(HadoopFolder(spark, f"{checkpoint}/{RUNS}")), old.committed.batch
    segments = runs.segments(last, log.owner)
    new.note_predecessors([*log.predecessors(), Predecessor(log.query(), last, segments)])
    new.mark_finished()
    return keys


def _divided_states(old: StoredStates, graph: Graph, ids: tuple[int, ...], files: StateFiles) -> tuple[Manifest, int]:
    """Writes the states of all buckets of the new checkpoint; returns their manifest, and the number of states."""
    keys = 0
    changes: defaultdict[Bucket, list[bytes]] = defaultdict(list)
    beside: dict[int, dict[str, Any]] = {level: {} for level in range(1, graph.shuffles + 1)}
    classes = {step.name: step.state_class for step in graph.keyed}
    copied = set[str]()
    for level, kept, found in old.by_level():
        beside[level] = merged(beside[level], found)
        for step, states in kept.items():
            if step in copied:
                continue
            is_copied = step in graph.in_every_bucket
            if is_copied and states:
                copied.add(step)
            keys += len(states)
            for bucket, some in (dict.fromkeys(ids, states) if is_copied else _divided(states, ids)).items():
                changes[level, bucket] += whole({step: some}, classes)
    entries = {}
    for at in ((level, bucket) for level in beside for bucket in ids):
        # Every bucket needs the event time, even without states.
        store = BucketFiles(files, at, None)
        for change in [*changes.pop(at, []), dumps_plain({})]:
            begin(store, change, beside[at[0]])
        entries[at] = store.finish(FIRST_BATCH)
    return replace(old.committed.manifest, entries=entries), keys


def _divided(states: States, ids: tuple[int, ...]) -> dict[int, States]:
    """The states by the buckets of their keys."""
    if not states:
        return {}
    by_bucket: defaultdict[int, States] = defaultdict(States)
    for (key, state), bucket in zip(states.items(), buckets_of(list(states), len(ids)).tolist(), strict=True):
        by_bucket[ids[bucket]][key] = state
    return dict(by_bucket)

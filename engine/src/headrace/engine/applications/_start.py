"""Starts an application as one query of Spark."""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.contract.units import UnitError, parse_duration, parse_size
from headrace.engine._errors import CheckpointError, OptionError
from headrace.engine.applications._counts import observed
from headrace.engine.applications._keys import bucket_ids
from headrace.engine.applications._plan import ROWS, Plan
from headrace.engine.applications._processor import BucketProcessor
from headrace.engine.applications._query_settings import new_partitions, settings_of_query
from headrace.engine.applications._ship import ship
from headrace.engine.applications._start_retries import start_with_retries
from headrace.engine.checkpoint._log import CheckpointLog
from headrace.engine.checkpoint._state_format import refuse_speculation
from headrace.engine.sink._options import NAMES as SINK_NAMES
from headrace.engine.source._options import NAMES as SOURCE_NAMES
from headrace.engine.source._options import parse
from headrace.engine.spark._format import FORMAT
from headrace.engine.spark._session import defaults_in, register
from headrace.engine.spark._shared_checkpoint import refuse_local_checkpoint
from headrace.pipelines import Pipeline
from headrace.pipelines.runtime import Graph, check_fingerprints

DEFAULT_WORKER_MEMORY = "1gb"


def start(
    pipeline: Pipeline,
    spark: SparkSession,
    checkpoint: str | Path,
    *,
    options: Mapping[str, str] | None = None,
    available_now: bool = False,
    trigger_interval: str | None = None,
    worker_memory: str = DEFAULT_WORKER_MEMORY,
    drop_states: Collection[str] = (),
    migrate_states: Collection[str] = (),
    finish: bool | None = None,
    folder: Path | None = None,
) -> StreamingQuery:
    """Starts an application as a streaming query, which runs until it is stopped.

    This is the query that `headrace run` starts. Unless the session has other settings, it has as many key partitions as the
    session has cores. The application's modules are shipped to every worker. If one of Spark's Python processes does not start in
    time, the query is started again, with at most three attempts.

    Args:
        pipeline: The application.
        spark: A session from `build_session`, or passed to `register`.
        checkpoint: The folder for positions and states. It belongs to this application.
        options: Further options of `format("headrace")`, for the source and the sink: `maxMessagesPerTrigger`, `gateway`, ...
        available_now: Process what exists now, then end.
        trigger_interval: The time between the starts of two micro-batches, such as `500ms` or `5s`; None for no delay. Messages
            and acknowledgements wait for the next micro-batch.
        worker_memory: The approximate memory for states in each Python worker, such as `500mb`.
        drop_states: Steps that the pipeline no longer has, and whose states in the checkpoint are to be dropped. Not needed for
            later starts once a micro-batch is committed.
        migrate_states: Steps that keep their states although their windows, key or sources have changed.
        finish: Whether event time ends once all streams have ended, so that all windows close and all timers fire; None for only
            with `available_now`. A stream ends only if its source ends it, not when it has no more messages for now.
        folder: The folder whose modules and packages the workers need; by default, that of the module that made the pipeline.

    Returns:
        The query. If it has failed while its sources were initialised, its `exception()` has the reason.

    Raises:
        GraphError: The pipeline is invalid.
        OptionError: An option is invalid.
        CheckpointError: The checkpoint is incomplete because its creation by rescaling did not finish; or Spark's speculation is
            on, and the checkpoint is in a format that does not support it; or it is on a local disk, and executors run on other
            machines.
        StateError: The checkpoint has states of a different step with the same name, or a new state cannot be stored.
    """
    graph = pipeline.graph
    trigger = _trigger(available_now, trigger_interval)
    worker_bytes = _worker_bytes(worker_memory)
    log = CheckpointLog(spark, str(checkpoint))
    for_source, for_sink = _divided(options or {})
    # Spark would report the same error later, after something has been written.
    checked = parse({"stream": ",".join(graph.streams), **for_source}, defaults_in(spark))
    refuse_local_checkpoint(spark, str(checkpoint), shared=checked.shared_checkpoint)
    if log.is_unfinished():
        raise CheckpointError(f"{checkpoint} is incomplete, since its creation did not finish; delete it, and rescale again")
    refuse_speculation(spark, log, str(checkpoint))
    for step in graph.keyed:
        # A copy, since what it caches must not be sent to the workers.
        replace(step.state_class).check()
    check_fingerprints(log.steps() or {}, graph.fingerprints, migrate_states)
    dropped = _dropped(log, graph, drop_states)
    log.note_steps(graph.fingerprints)
    planned = log.last_planned()
    # The number is fixed for a checkpoint, regardless of the session's settings.
    partitions = planned.partitions if planned else new_partitions(spark)
    if folder := folder or pipeline.folder:
        ship(spark, folder)
    plan = Plan(graph, bucket_ids(partitions), str(checkpoint), uuid.uuid4().hex, worker_bytes, dropped)
    register(spark, {graph.name: plan})

    def begin() -> StreamingQuery:
        rows = add_keyed_stages(plan, _arriving(spark, graph, for_source, finish))
        writer = observed(graph, rows).writeStream.format(FORMAT).queryName(graph.name).outputMode("append")
        writer = writer.options(
            application=graph.name, sink=",".join(graph.sinks), checkpointLocation=str(checkpoint), **for_sink
        )
        if graph.dead_letters is not None:
            writer = writer.option("failed", graph.dead_letters)
        if trigger:
            writer = writer.trigger(**trigger)
        with settings_of_query(spark, partitions):
            return writer.start()

    return start_with_retries(graph.name, begin)


def _arriving(spark: SparkSession, graph: Graph, options: Mapping[str, str], finish: bool | None) -> DataFrame:
    """The rows of the source stage."""
    own = {"application": graph.name, "stream": ",".join(graph.streams)}
    if finish is not None:
        own["finish"] = str(finish).lower()
    if graph.bounds_skew:
        own["asksForPresent"] = "true"
    return spark.readStream.format(FORMAT).options(**{"pipeline": graph.name, **options}, **own).load()


def _trigger(available_now: bool, interval: str | None) -> dict[str, Any]:
    """Spark's trigger; empty for a micro-batch as soon as the one before is committed and there are messages.

    Raises:
        OptionError: The interval is invalid, or the run is bounded.
    """
    if interval is None:
        return {"availableNow": True} if available_now else {}
    if available_now:
        raise OptionError("available_now and trigger_interval exclude each other: a bounded run starts each micro-batch at once")
    try:
        milliseconds = round(parse_duration(interval) / timedelta(milliseconds=1))
    except UnitError as error:
        raise OptionError(f"trigger_interval: {error}") from None
    return {"processingTime": f"{milliseconds} milliseconds"}


def _worker_bytes(memory: str) -> int:
    """The memory for states in each Python worker, in bytes.

    Raises:
        OptionError: The text is not a size.
    """
    try:
        return parse_size(memory)
    except UnitError as error:
        raise OptionError(f"worker_memory: {error}") from None


def _dropped(log: CheckpointLog, graph: Graph, now: Collection[str]) -> frozenset[str]:
    """The steps whose states are dropped, by this start or an earlier one.

    Raises:
        CheckpointError: The pipeline has a new step with the name of a dropped one, some of whose states still exist.
    """
    before, levels = log.dropped(), graph.keyed_levels
    for each in before:
        if levels.get(each.step) != each.level and each.step in levels:
            raise CheckpointError(
                f"the states of step {each.step} were dropped after micro-batch {each.after}, and the checkpoint still contains "
                "some of them: give the new step of this name another one"
            )
    if now:
        log.note_dropped({step: levels.get(step) for step in now})
    return frozenset(now).union(each.step for each in before)


def add_keyed_stages(plan: Plan, rows: DataFrame, initial: Mapping[int, DataFrame] | None = None) -> DataFrame:
    """Adds the keyed stages of a plan to the rows of the source stage.

    Args:
        plan: The plan.
        rows: The rows of the source stage.
        initial: The initial states of a rescaled checkpoint, by level, with columns `bucket`, `change` and `beside`.
    """
    for level in range(1, plan.graph.shuffles + 1):
        begins = None if initial is None else initial[level].groupBy("bucket")
        processor = BucketProcessor(plan, level)
        rows = rows.groupBy("bucket").transformWithState(processor, ROWS, "append", "none", initialState=begins)
    return rows


def _divided(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of the source, including unknown ones, which it rejects, and the options of the sink."""
    only_sink = {name.lower() for name in SINK_NAMES} - {name.lower() for name in SOURCE_NAMES}
    for_source = {name: value for name, value in options.items() if name.lower() not in only_sink}
    sink = {name.lower() for name in SINK_NAMES}
    return for_source, {name: value for name, value in options.items() if name.lower() in sink}

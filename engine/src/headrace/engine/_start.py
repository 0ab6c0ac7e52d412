"""Starts an application as one query of Spark."""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.engine._attempts import started
from headrace.engine._checkpoint_log import CheckpointLog
from headrace.engine._counts import observed
from headrace.engine._errors import CheckpointError, OptionError
from headrace.engine._options import NAMES as SOURCE_NAMES
from headrace.engine._options import parse
from headrace.engine._query_settings import new_partitions, settings_of_query
from headrace.engine._session import defaults_in, register
from headrace.engine._shared_checkpoint import refuse_local_checkpoint
from headrace.engine._ship import ship
from headrace.engine._sink_options import NAMES as SINK_NAMES
from headrace.engine._source import FORMAT
from headrace.engine._state_format import refuse_speculation
from headrace.engine._units import parse_bytes, parse_duration
from headrace.engine.pipelines._keys import bucket_ids
from headrace.engine.pipelines._plan import ROWS, Plan
from headrace.engine.pipelines._processor import BucketProcessor
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
    """Starts an application; its query goes on until it is stopped.

    It is the query that `headrace run` starts: in a session that says nothing else, with the same settings, with as many parts as
    the session has cores, and with the application's modules at every worker. Where a Python process of Spark is too slow to come
    up, it is started again, three times at most.

    Args:
        pipeline: The application.
        spark: A session that `register` or `build_session` has seen.
        checkpoint: Where Spark keeps positions and states. It belongs to this application.
        options: Further options of `format("headrace")`, of the source and of the sink: `maxMessagesPerTrigger`, `gateway`, ...
        available_now: End once everything is processed that exists now.
        trigger_interval: How much time to leave between the starts of two micro-batches, such as `500ms` or `5s`; None for none.
            What arrives meanwhile waits, and so do acknowledgements.
        worker_memory: About how much memory each Python worker may use to hold states, such as `500mb`.
        drop_states: Steps that the pipeline no longer has, and whose states in the checkpoint are to be dropped. Once a
            micro-batch is committed, further starts need not say so.
        finish: Whether event time comes to its end once all streams have ended, so that every window gives its result and every
            timer rings; None for only with `available_now`. That a source is at its last message is not its end.
        migrate_states: Steps that take their states on as they are though their windows, their key or their sources have changed.
        folder: The folder whose modules and packages the workers need; without it that of the module that made the pipeline.

    Raises:
        GraphError: the pipeline cannot run.
        OptionError: an option is not valid.
        CheckpointError: the checkpoint was to take over from another one, and is not whole; or Spark is to run tasks twice,
            and the checkpoint is of a format that does not tell attempts apart; or it is on a local disk, and executors run on
            other machines.
        StateError: a step is another one than that which the checkpoint has states of, or a state that is new cannot be stored.
    """
    graph = pipeline.graph
    trigger = _trigger(available_now, trigger_interval)
    log = CheckpointLog(spark, str(checkpoint))
    for_source, for_sink = _divided(options or {})
    # Spark says the same later, when something is written already.
    checked = parse({"stream": ",".join(graph.streams), **for_source}, defaults_in(spark))
    refuse_local_checkpoint(spark, str(checkpoint), shared=checked.shared_checkpoint)
    if log.is_unfinished():
        raise CheckpointError(f"{checkpoint} was not made to the end; delete it, and rescale once more")
    refuse_speculation(spark, log, str(checkpoint))
    for step in graph.keyed:
        # A copy, since what it finds out is not to travel to the workers.
        replace(step.state_class).check()
    check_fingerprints(log.steps() or {}, graph.fingerprints, migrate_states)
    dropped = _dropped(log, graph, drop_states)
    log.note_steps(graph.fingerprints)
    planned = log.last_planned()
    # Spark keeps to the number that a checkpoint began with, whatever the session says now.
    partitions = planned.partitions if planned else new_partitions(spark)
    if folder := folder or pipeline.folder:
        ship(spark, folder)
    plan = Plan(graph, bucket_ids(partitions), str(checkpoint), uuid.uuid4().hex, parse_bytes(worker_memory), dropped)
    register(spark, {graph.name: plan})

    def begin() -> StreamingQuery:
        rows = keyed_rows(plan, _arriving(spark, graph, for_source, finish))
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

    return started(graph.name, begin)


def _arriving(spark: SparkSession, graph: Graph, options: Mapping[str, str], finish: bool | None) -> DataFrame:
    """The rows of arriving messages."""
    own = {"application": graph.name, "stream": ",".join(graph.streams)}
    if finish is not None:
        own["finish"] = str(finish).lower()
    if graph.bounds_skew:
        own["asksForPresent"] = "true"
    return spark.readStream.format(FORMAT).options(**{"pipeline": graph.name, **options}, **own).load()


def _trigger(available_now: bool, interval: str | None) -> dict[str, Any]:
    """When Spark begins a micro-batch; empty for as soon as the one before is committed and there is something to read.

    Raises:
        OptionError: the interval is none, or the query is bounded and has no use for it.
    """
    if interval is None:
        return {"availableNow": True} if available_now else {}
    if available_now:
        raise OptionError("available_now and trigger_interval do not go together: a bounded run begins each micro-batch at once")
    try:
        milliseconds = round(parse_duration(interval) * 1000)
    except ValueError as error:
        raise OptionError(f"trigger_interval: {interval!r} is not valid: {error}") from None
    return {"processingTime": f"{milliseconds} milliseconds"}


def _dropped(log: CheckpointLog, graph: Graph, now: Collection[str]) -> frozenset[str]:
    """The steps whose states are given up, now or by an earlier start.

    Raises:
        CheckpointError: the pipeline has a step again whose states were given up, and would find some of them.
    """
    before, levels = log.dropped(), graph.keyed_levels
    for each in before:
        if levels.get(each.step) != each.level and each.step in levels:
            raise CheckpointError(
                f"the states of step {each.step} were dropped after micro-batch {each.after}, and not all of them are gone from "
                "the checkpoint yet: give the step that has its name now another one"
            )
    if now:
        log.drop({step: levels.get(step) for step in now})
    return frozenset(now).union(each.step for each in before)


def keyed_rows(plan: Plan, rows: DataFrame, initial: Mapping[int, DataFrame] | None = None) -> DataFrame:
    """What the rows of arriving messages become behind all shuffles.

    Args:
        plan: The plan.
        rows: The rows.
        initial: What a new checkpoint begins with, by how many shuffles lie before it: `bucket`, `chunk` and `beside`.
    """
    for level in range(1, plan.graph.shuffles + 1):
        begins = None if initial is None else initial[level].groupBy("bucket")
        processor = BucketProcessor(plan, level)
        rows = rows.groupBy("bucket").transformWithState(processor, ROWS, "append", "none", initialState=begins)
    return rows


def _divided(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Options by what they are for: the source, which is to refuse what nobody knows, and the sink."""
    only_sink = {name.lower() for name in SINK_NAMES} - {name.lower() for name in SOURCE_NAMES}
    for_source = {name: value for name, value in options.items() if name.lower() not in only_sink}
    sink = {name.lower() for name in SINK_NAMES}
    return for_source, {name: value for name, value in options.items() if name.lower() in sink}

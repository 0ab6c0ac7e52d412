"""Starts an application as one query of Spark."""

import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.contract.settings import clash
from headrace.engine._errors import CheckpointError, OptionError
from headrace.engine.applications.batches.commits import commits
from headrace.engine.applications.real_time.worker import RealTimeWorker
from headrace.engine.applications.shipping.ship import send_program_classes, ship
from headrace.engine.applications.shipping.ship_programs import ship_programs
from headrace.engine.applications.stages.call_files import CallFiles
from headrace.engine.applications.stages.plan import Plan
from headrace.engine.applications.starting.arguments import check_arguments, divided_options, interval_s_of, worker_bytes_of
from headrace.engine.applications.starting.first_workers import start_workers
from headrace.engine.applications.starting.history_of import history_of
from headrace.engine.applications.starting.input import Input
from headrace.engine.applications.starting.keyed_stages import add_keyed_stages, observed
from headrace.engine.applications.starting.query_settings import new_partitions, settings_of_query
from headrace.engine.applications.starting.start_arguments import (
    check_flags,
    check_history,
    check_step_names,
    check_workers,
)
from headrace.engine.applications.starting.start_retries import start_with_retries
from headrace.engine.applications.states.keys import bucket_ids
from headrace.engine.checkpoint.folder import open_folder, qualified
from headrace.engine.checkpoint.log import CheckpointLog
from headrace.engine.checkpoint.manifests import MANIFESTS, STATES, Manifest, ManifestLog
from headrace.engine.history.request import History
from headrace.engine.sink.options import parse_sink
from headrace.engine.source.options import parse
from headrace.engine.spark.application_sink import FORMAT as APPLICATION_SINK
from headrace.engine.spark.application_sink import add_handler, remove_handler
from headrace.engine.spark.format import FORMAT
from headrace.engine.spark.served_files import driver_files
from headrace.engine.spark.session import defaults_in, register
from headrace.engine.spark.shared_checkpoint import refuse_local_checkpoint, refuse_local_lakes
from headrace.engine.wire.connection import Connection
from headrace.pipelines import Pipeline
from headrace.pipelines.runtime import Graph, check_fingerprints, is_in_store

DEFAULT_WORKER_MEMORY = "1gb"
REAL_TIME_LAKE = (
    "real_time: the pipeline writes to the lake {}, and tables are written by Spark's tasks only: start it without real_time, "
    "or write the table in an application of its own"
)
REAL_TIME_INTERVAL_S = 1.0
"""The time between the starts of two micro-batches in real-time mode, in seconds, unless it is given."""


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
    folder: str | Path | None = None,
    real_time: bool = False,
    real_time_workers: int = 1,
    history: History | None = None,
) -> StreamingQuery:
    """Starts an application as a streaming query, which runs until it is stopped.

    This is the query that `headrace run` starts. Unless the session has other settings, it has as many buckets as the
    session has cores. The application's modules and programs are shipped to every worker. If one of Spark's Python processes
    does not start in time, the query is started again, with at most three attempts.

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
        folder: The folder whose modules, packages and programs the workers need; by default, the folder of the module of the
            pipeline.
        real_time: Process messages as they arrive, in the driver, and deliver results to at-least-once sinks at once.
            Micro-batches then only commit, by default every second.
        real_time_workers: How many processes run the steps behind `key_by` in real-time mode, the driver included; at most as
            many as there are buckets.
        history: Messages of the past, which are read before the streams. A checkpoint that has begun with a history continues it
            without this argument, too.

    Returns:
        The query. If it has failed while its sources were initialised, its `exception()` has the reason.

    Raises:
        GraphError: The pipeline is invalid.
        OptionError: An option or another argument is invalid.
        ProgramError: The file of a program does not exist.
        HistoryError: A file of the history cannot be read, or lacks a field of its messages.
        CheckpointError: The checkpoint is incomplete, because its creation by rescaling did not finish or its states are gone; or
            it is on a local disk, and executors run on other machines.
        StateError: The checkpoint has states of a different step with the same name, or a new state cannot be stored.
    """
    check_arguments(pipeline, checkpoint, options, trigger_interval, worker_memory, folder)
    check_flags(available_now=available_now, real_time=real_time, **({} if finish is None else {"finish": finish}))
    check_workers(real_time_workers)
    if history is not None:
        check_history(history)
    check_step_names(drop_states=drop_states, migrate_states=migrate_states)
    graph = pipeline.graph
    clashes = clash(
        available_now=available_now,
        trigger_interval=trigger_interval,
        real_time=real_time,
        real_time_workers=real_time_workers,
        history=history is not None,
    )
    if clashes is not None:
        raise OptionError(clashes)
    if real_time and graph.lakes:
        raise OptionError(REAL_TIME_LAKE.format(next(iter(graph.lakes))))
    interval_s = interval_s_of(trigger_interval) or (REAL_TIME_INTERVAL_S if real_time else 0.0)
    worker_bytes = worker_bytes_of(worker_memory)
    log, url = CheckpointLog(spark, str(checkpoint)), qualified(spark, str(checkpoint))
    for_source, for_sink = divided_options(options or {})
    # Spark would report the same error later, after something has been written.
    checked = parse({"stream": ",".join(graph.streams), **for_source}, defaults_in(spark))
    refuse_local_checkpoint(spark, str(checkpoint), shared=checked.shared_checkpoint)
    refuse_local_lakes(spark, (lake for lake in graph.lakes if not is_in_store(lake)), shared=checked.shared_checkpoint)
    of_sinks = {"application": graph.name, "sink": ",".join(graph.sinks), **for_sink}
    if graph.dead_letters is not None:
        of_sinks["failed"] = graph.dead_letters
    sink_options = parse_sink(of_sinks, defaults_in(spark))
    if log.is_unfinished():
        raise CheckpointError(f"{checkpoint} is incomplete, since its creation did not finish; delete it, and create it again")
    folder = pipeline.folder if folder is None else Path(folder)
    for program in graph.programs:
        program.check_files(folder)
    check_fingerprints(log.steps() or {}, graph.fingerprints, migrate_states)
    dropped = _dropped(log, graph, drop_states)
    continued = _checked_states(spark, log, url)
    log.note_steps(graph.fingerprints)
    planned = log.last_planned()
    past = history_of(log, history, graph, for_source, is_new=planned is None, real_time=real_time)
    ends_with_history = history is not None and not history.then_live
    available_now = available_now or ends_with_history
    # The number is fixed for a checkpoint, regardless of the session's settings.
    partitions = planned.partitions if planned else new_partitions(spark)
    send_program_classes()
    if folder:
        ship(spark, folder)
    programs = ship_programs(spark, folder, graph)
    start_workers(spark)
    plan = Plan(graph, bucket_ids(partitions), str(checkpoint), uuid.uuid4().hex, worker_bytes, dropped, programs)

    def begin() -> StreamingQuery:
        own = {**of_sinks, "run": uuid.uuid4().hex}
        options = replace(sink_options, run=own["run"])
        handler = commits(spark, url, options, graph.sinks, log.last_committed_batch(), graph.lake_steps, graph.meters)
        handler.resume(continued)
        calls = CallFiles(watches_driver=real_time)
        handler.record(calls)
        recorded = replace(plan, calls=calls.path)
        register(spark, {graph.name: Input(recorded)})
        add_handler(spark, own["run"], handler)
        more = {}
        if real_time:
            files = driver_files(spark, f"{url}/{STATES}", sync=options.sync_to_disk)
            worker = RealTimeWorker(
                recorded,
                files,
                options,
                Connection.of(checked),
                checked.gateway_timeout_s,
                asks_for_present=graph.asks_for_present,
                workers=real_time_workers,
            )
            more["realTime"] = handler.serve(worker)
        if past is not None:
            more |= {"history": past, "historyAlone": str(ends_with_history).lower()}
        arriving = _arriving(spark, graph, {**for_source, **more}, finish, interval_s)
        rows = add_keyed_stages(recorded, arriving, f"{url}/{STATES}", options)
        counted = observed(graph, rows, has_history=past is not None)
        writer = counted.writeStream.format(APPLICATION_SINK).queryName(graph.name).outputMode("append")
        writer = writer.options(checkpointLocation=str(checkpoint), **own)
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif interval_s:
            writer = writer.trigger(processingTime=f"{round(interval_s * 1000)} milliseconds")
        try:
            with settings_of_query(spark, partitions):
                query = writer.start()
                handler.started(query)
                return query
        except BaseException:
            remove_handler(spark, own["run"])
            raise

    return start_with_retries(graph.name, begin)


def _arriving(spark: SparkSession, graph: Graph, options: Mapping[str, str], finish: bool | None, interval_s: float) -> DataFrame:
    """The rows of the source stage."""
    own = {"application": graph.name, "stream": ",".join(graph.streams), "interval": str(interval_s)}
    if finish is not None:
        own["finish"] = str(finish).lower()
    if graph.bootstraps:
        own["bootstraps"] = json.dumps([asdict(table) for table in graph.bootstraps])
    if graph.asks_for_present:
        own["asksForPresent"] = "true"
    if graph.tick is not None:
        own["tick"] = str(graph.tick / 1_000_000)
    return spark.readStream.format(FORMAT).options(**{"pipeline": graph.name, **options}, **own).load()


def _checked_states(spark: SparkSession, log: CheckpointLog, url: str) -> Manifest:
    """The states that the application continues with.

    Raises:
        CheckpointError: The checkpoint lacks them.
    """
    batch = log.last_committed_batch()
    if batch is None:
        return Manifest()
    return ManifestLog(open_folder(spark, f"{url}/{MANIFESTS}")).after(batch, log.committed_by(batch))


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
    log.note_dropped({step: levels.get(step) for step in now})
    return frozenset(now).union(each.step for each in before)

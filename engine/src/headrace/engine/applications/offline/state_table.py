"""All states of a step as a table of Spark, as of one micro-batch of an application that may run."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.engine._errors import CheckpointError
from headrace.engine.applications.offline.state_rows import GONE, KEYS, WRONG, StateRows
from headrace.engine.applications.offline.stored_states import StoredStates
from headrace.engine.applications.shipping.ship import send_program_classes, ship
from headrace.engine.checkpoint.committed import ROUNDS, too_fast
from headrace.engine.spark.served_files import served
from headrace.engine.spark.shared_checkpoint import refuse_local_checkpoint
from headrace.pipelines import Pipeline, StateError


def read_state(
    pipeline: Pipeline,
    spark: SparkSession,
    checkpoint: str,
    step: str,
    *,
    as_json: bool = False,
    folder: Path | None = None,
    shared_checkpoint: bool = False,
) -> DataFrame:
    """Reads all states of a step, as of the last committed micro-batch. The application may run; it is not disturbed.

    The states are read at once, by a task for each bucket, and kept by the session's executors. If the application deletes some
    of them meanwhile, they are read anew.

    The table has the columns `key`, `state` and `batch`, the micro-batch. `key` is of type string, binary, bigint or double if
    all keys are, otherwise a string with JSON. `state` is a struct if the state's class is one with declared fields, such as a
    dataclass, otherwise a string with JSON.

    Args:
        pipeline: The application.
        spark: A session from `build_session`, or passed to `register`.
        checkpoint: The application's checkpoint.
        step: The name of the step.
        as_json: Whether `state` is always JSON.
        folder: The folder whose modules and packages the workers need; by default, the folder of the pipeline's module.
        shared_checkpoint: Whether the checkpoint is on a mount that all machines of a cluster have at the same path.

    Raises:
        CheckpointError: There is no committed micro-batch, a file is missing or damaged, the application deletes states faster
            than they are read, or the checkpoint is on a local disk and executors run on other machines.
        OptionError: The pipeline has no such step.
        StateError: Stored states do not match the classes or the steps of the pipeline, or do not fit the columns.
    """
    graph = pipeline.graph
    stored = StoredStates(spark, checkpoint, graph)
    stored.check(step)
    refuse_local_checkpoint(spark, checkpoint, shared=shared_checkpoint)
    send_program_classes()
    if folder := folder or pipeline.folder:
        ship(spark, folder)
    for _ in range(ROUNDS):
        now = stored.committed
        buckets = [each for each in now.manifest.entries.items() if each[0][0] == graph.keyed_levels[step]]
        if step in graph.in_every_bucket:
            buckets = buckets[:1]
        rows = StateRows(graph, step, buckets, now.dropped, stored.url, now.batch, as_json)
        table = _read(spark, rows)
        columns = [*(kind.__name__ for kind in KEYS), "json"]
        found = table.agg(*(F.count(name).alias(name) for name in columns), F.first(GONE, True), F.first(WRONG, True)).first()
        assert found is not None, "an aggregation without groups has one row"
        *counts, gone, wrong = found
        if wrong is not None:
            raise StateError(wrong)
        if gone is None:
            key = next((name for name, count in zip(columns, counts, strict=True) if 0 < count == counts[-1]), "json")
            return table.select(F.col(key).alias("key"), "state", "batch")
        if not stored.advance():
            raise CheckpointError(gone)
    raise too_fast(stored.url)


def _read(spark: SparkSession, rows: StateRows) -> DataFrame:
    """The rows of all buckets, which are read now."""
    count = len(rows.buckets)
    places = spark.range(0, count, 1, max(1, count)).select(F.col("id").cast("int").alias("bucket"))
    read = served(places, rows.root).mapInArrow(rows.__call__, from_arrow_schema(rows.schema))
    return read.localCheckpoint()

"""The checkpoint format of Spark's state store."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headrace.engine._errors import CheckpointError
from headrace.engine.checkpoint._log import CheckpointLog

SETTING = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_SPECULATION = "spark.speculation"


@contextmanager
def with_state_format_2(spark: SparkSession) -> Iterator[None]:
    """Makes queries that start inside the block use format 2 for new checkpoints, whatever the session's setting is.

    Format 2 has a file for each task attempt, and the commit log names those that count. A checkpoint of format 1 keeps it.
    """
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "2")
    try:
        yield
    finally:
        spark.conf.set(SETTING, str(before))


def refuse_speculation(spark: SparkSession, log: CheckpointLog, checkpoint: str) -> None:
    """Rejects speculative execution on a checkpoint of format 1, in which two attempts of a task write the same files.

    Raises:
        CheckpointError: Speculation is on, and the checkpoint is of format 1.
    """
    speculates = str(spark.sparkContext.getConf().get(_SPECULATION, "false")).lower() == "true"
    if speculates and log.state_format() == 1:
        raise CheckpointError(
            f"{checkpoint} is in format 1 of Spark's state store, in which two attempts of one task overwrite each other, and "
            f"{_SPECULATION} lets Spark run two: switch it off, or make a new checkpoint with headrace state rescale"
        )

"""The format in which Spark's state store keeps the states of an application."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headrace.engine._checkpoint_log import CheckpointLog
from headrace.engine._errors import CheckpointError

SETTING = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_SPECULATION = "spark.speculation"


@contextmanager
def attempts_told_apart(spark: SparkSession) -> Iterator[None]:
    """Has new checkpoints be of format 2, whatever the session says: with a file for each attempt, of which one counts.

    A checkpoint that began with format 1 keeps it.
    """
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "2")
    try:
        yield
    finally:
        spark.conf.set(SETTING, str(before))


def refuse_speculation(spark: SparkSession, log: CheckpointLog, checkpoint: str) -> None:
    """Refuses to have attempts run twice where their files would take each other's place.

    Raises:
        CheckpointError: Spark is to do so, and the checkpoint is of format 1.
    """
    speculates = str(spark.sparkContext.getConf().get(_SPECULATION, "false")).lower() == "true"
    if speculates and log.state_format() == 1:
        raise CheckpointError(
            f"{checkpoint} is of format 1 of Spark's state store, which does not tell apart two attempts at one task, and "
            f"{_SPECULATION} has Spark make two; switch that off, or go on with a new checkpoint: headrace state rescale"
        )

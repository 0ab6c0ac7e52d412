"""Refuses a checkpoint that only some of a cluster's machines have.

Driver and executors write a checkpoint together: positions and commits are the driver's, states the executors'. On a local disk
it would be as many folders as there are machines. That works until one of them is gone, and with it what its messages were
acknowledged for.
"""

from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.engine._errors import CheckpointError
from headrace.engine._master import is_this_machine

_LOCAL_DISK = "file"


def refuse_local_checkpoint(spark: SparkSession, checkpoint: str, *, shared: bool) -> None:
    """Refuses a checkpoint on a local disk where executors are not all on the driver's machine.

    Args:
        spark: The session.
        checkpoint: The checkpoint's folder; one without a scheme is on Spark's default file system.
        shared: Whether the user says that it is on a mount that every machine has at the same path.

    Raises:
        CheckpointError: it is refused; nothing was written.
    """
    master = str(spark.sparkContext.master)
    if shared or is_this_machine(master) or _scheme(spark, checkpoint) != _LOCAL_DISK:
        return
    raise CheckpointError(
        f"the checkpoint {checkpoint} is on a local disk, and each machine of {master} would have a folder of its own: with "
        "a machine, states and commits would be lost whose messages are acknowledged. Give a folder that all of them share, such "
        "as hdfs://... or s3a://...; where this one is on a mount that every machine has at the same path, say so with the "
        "option sharedCheckpoint=true (headrace run --shared-checkpoint). Nothing was processed"
    )


def _scheme(spark: SparkSession, checkpoint: str) -> str | None:
    """The scheme of a folder's file system; None where Spark knows no such file system, which it says itself."""
    jvm: Any = spark._jvm
    try:
        folder = jvm.org.apache.hadoop.fs.Path(checkpoint)
        files = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        return str(files.getUri().getScheme())
    except Py4JJavaError:
        return None

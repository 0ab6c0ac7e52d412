"""Rejects a checkpoint on a local disk of a cluster.

Driver and executors write a checkpoint together: the driver writes positions and commits, the executors write states. On local
disks, each machine would have a separate folder. If a machine is lost, its states and commits are lost too, while their messages
are already acknowledged.
"""

from collections.abc import Iterable
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.engine._errors import CheckpointError, OptionError
from headrace.engine.master import is_this_machine

_LOCAL_DISK = "file"


def refuse_local_checkpoint(spark: SparkSession, checkpoint: str, *, shared: bool) -> None:
    """Rejects a checkpoint on a local disk if executors run on other machines than the driver.

    Args:
        spark: The session.
        checkpoint: The checkpoint's folder; without a scheme, it is on Spark's default file system.
        shared: Whether the user states that it is on a mount that every machine has at the same path.

    Raises:
        CheckpointError: The checkpoint is rejected; nothing was written.
    """
    master = str(spark.sparkContext.master)
    if shared or is_this_machine(master) or _scheme(spark, checkpoint) != _LOCAL_DISK:
        return
    raise CheckpointError(
        f"the checkpoint {checkpoint} is on a local disk, and each machine of {master} would have a folder of its own: if a "
        "machine is lost, states and commits of acknowledged messages are lost. Use a folder that all machines share, such as "
        "hdfs://... or s3a://...; if this one is on a mount that every machine has at the same path, set the option "
        "sharedCheckpoint=true (headrace run --shared-checkpoint). Nothing was processed"
    )


def refuse_local_lakes(spark: SparkSession, lakes: Iterable[str], *, shared: bool) -> None:
    """Rejects tables on a local disk if executors run on other machines than the driver.

    Args:
        spark: The session.
        lakes: The folders of the tables.
        shared: Whether the user states that local paths are on mounts that every machine has at the same path.

    Raises:
        OptionError: A table is rejected; nothing was written.
    """
    master = str(spark.sparkContext.master)
    for lake in () if shared or is_this_machine(master) else lakes:
        raise OptionError(
            f"the lake {lake} is on a local disk, and each machine of {master} would write to a folder of its own. If "
            "it is on a mount that every machine has at the same path, set the option sharedCheckpoint=true (headrace run "
            "--shared-checkpoint), which holds for the checkpoint, too. Nothing was processed"
        )


def _scheme(spark: SparkSession, checkpoint: str) -> str | None:
    """The scheme of a folder's file system; None if Spark does not support it, in which case Spark reports it."""
    jvm: Any = spark._jvm
    try:
        folder = jvm.org.apache.hadoop.fs.Path(checkpoint)
        files = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        return str(files.getUri().getScheme())
    except Py4JJavaError:
        return None

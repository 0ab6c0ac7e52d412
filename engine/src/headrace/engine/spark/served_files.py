"""The files of an application's states, in the driver and in its tasks: through a service in the JVM unless they are local."""

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import _to_java_column

from headrace.engine.checkpoint.state_files import StateFiles, is_local, state_files
from headrace.engine.spark.jvm_classes import install


def driver_files(spark: SparkSession, url: str, *, sync: bool = False) -> StateFiles:
    """The files below a folder, for the driver; with `sync`, files on a local disk survive a power loss once they are written."""
    if is_local(url):
        return state_files(url, sync=sync)
    install(spark)
    jvm: Any = spark._jvm
    return state_files(url, str(jvm.headrace.engine.CheckpointFiles.serve()))


def served(rows: DataFrame, url: str) -> DataFrame:
    """The same rows, whose stage has access to the files below a folder. They have an integer column `bucket`."""
    if is_local(url):
        return rows
    jvm: Any = rows.sparkSession._jvm
    return rows.withColumn("bucket", Column(jvm.headrace.engine.ServingFiles.column(_to_java_column("bucket"))))

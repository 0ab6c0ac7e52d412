"""A checkpoint on Hadoop's default file system: nothing but its configuration names the host."""

import pytest
from pyspark.sql import SparkSession
from scripts.brokers import Hdfs

from headrace.engine.checkpoint.log import CheckpointLog, Predecessor

pytestmark = pytest.mark.timeout(600)


def test_files_are_written_whether_the_url_of_a_checkpoint_has_a_host_or_not(spark: SparkSession, hdfs: Hdfs) -> None:
    known = (Predecessor("before", 3),)
    spark.conf.set("fs.defaultFS", hdfs.url)
    try:
        CheckpointLog(spark, "hdfs:///default/a").note_predecessors(known)
        assert CheckpointLog(spark, f"{hdfs.url}/default/a").predecessors() == known
        CheckpointLog(spark, f"{hdfs.url}/default/b").note_predecessors(known)
        assert CheckpointLog(spark, "/default/b").predecessors() == known
    finally:
        spark.conf.unset("fs.defaultFS")

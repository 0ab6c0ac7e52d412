"""A program: two writers of one file in the checkpoint's folder, with the file manager that `build_session` chooses."""

import json
import sys
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.engine import build_session


def write(spark: SparkSession, folder: str, overwrites: bool) -> dict[str, Any]:
    """What came of two writers that begin before either ends, and of a third one that is cancelled."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder, "entry")
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create(path, configuration)
    manager.mkdirs(path.getParent())
    first, second = manager.createAtomic(path, overwrites), manager.createAtomic(path, overwrites)
    first.write(bytearray(b"first"))
    second.write(bytearray(b"second"))
    before = manager.exists(path)
    first.close()
    refused = None
    try:
        second.close()
    except Py4JJavaError as error:
        refused = error.java_exception.getClass().getSimpleName()
    third = manager.createAtomic(path, True)
    third.write(bytearray(b"third"))
    third.cancel()
    stream = manager.open(path)
    try:
        found = str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()
    return {"before": before, "refused": refused, "found": found}


if __name__ == "__main__":
    session = build_session("two writers", "local[1]", quick_start=True)
    told = [[write(session, f"{root}/{overwrites}", overwrites) for overwrites in (False, True)] for root in sys.argv[1:]]
    session.stop()
    print(json.dumps(told))

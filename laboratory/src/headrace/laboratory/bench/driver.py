"""Spark drivers to be killed.

`python -m headrace.laboratory.bench.driver FOLDER ADDRESS` writes what the connector sends to the sink, with `noop` as a third
argument to none. Without an address, it runs an empty query without Headrace, to measure how long Spark itself takes to resume
after a restart.
"""

import logging
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.queries import headrace, session, sink_query


def main() -> None:
    """Runs until it is killed. A file records when the session was ready, since the JVM's startup is not measured."""
    logging.getLogger("headrace").setLevel(logging.ERROR)
    folder, address = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    spark = session(quick_start=True)
    (folder / "ready").touch()
    if address is None:
        query = empty_query(spark, folder)
    elif sys.argv[3:] == ["noop"]:
        query = without_sink(headrace(spark, address), folder)
    else:
        query = sink_query(headrace(spark, address), address, folder)
    query.awaitTermination()


def empty_query(spark: SparkSession, folder: Path) -> StreamingQuery:
    """Starts a query from Spark's own rate source, one row per second, into its noop sink."""
    return without_sink(spark.readStream.format("rate").load(), folder)


def without_sink(frame: DataFrame, folder: Path) -> StreamingQuery:
    """Starts a query that writes a frame into Spark's noop sink."""
    writer = frame.writeStream.format("noop")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


if __name__ == "__main__":
    main()

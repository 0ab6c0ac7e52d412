"""A Spark driver process: `python -m tests.faults.driver MASTER`. Its standard input says which queries to start and to stop.

On SIGTERM, it stops its queries before it leaves, as a driver should.
"""

import json
import signal
import sys
import threading
import time

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from tests.faults.follow import follow
from tests.faults.processes import write_whole
from tests.faults.queries import Query

from headrace.engine import build_session


def main(master: str) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    spark = build_session("faults", master, {"spark.sql.shuffle.partitions": 2}, quick_start=True)
    running: dict[str, StreamingQuery] = {}
    try:
        for line in sys.stdin:
            command = json.loads(line)
            if "stop" in command:
                threading.Thread(target=running[command["stop"]].stop, daemon=True).start()
            else:
                query = Query(**command)
                running[query.name] = start(spark, query)
                threading.Thread(target=watch, args=(query, running[query.name]), daemon=True).start()
    finally:
        for query_running in running.values():
            query_running.stop()
        spark.stop()


def start(spark: SparkSession, query: Query) -> StreamingQuery:
    options = {"gateway": query.gateway, "stream": query.streams, "pipeline": query.name, **query.options}
    frame = spark.readStream.format("headrace").options(**options).load()
    if query.kind == "copy":
        line = F.concat_ws(":", "stream", "sequence", F.col("value").cast("string"))
        return to_sink(frame.select("key", line.alias("value")), query)
    if query.kind == "follow":
        return to_sink(follow(frame), query)
    writer = (by_key(frame) if query.kind == "state" else frame).writeStream

    def keep(batch: DataFrame, number: int) -> None:
        while query.is_blocked:
            time.sleep(0.02)
        query.write_batch(number, rows_of(query.kind, batch))

    if query.available_now:
        writer = writer.trigger(availableNow=True)
    mode = "update" if query.kind == "state" else "append"
    return writer.outputMode(mode).option("checkpointLocation", str(query.checkpoint)).foreachBatch(keep).start()


def to_sink(rows: DataFrame, query: Query) -> StreamingQuery:
    """Writes to the sink that has the query's name."""
    writer = rows.writeStream.format("headrace")
    sink = {"gateway": query.gateway, "sink": query.name, "checkpointLocation": str(query.checkpoint)}
    return writer.queryName(query.name).options(**sink).start()


def by_key(frame: DataFrame) -> DataFrame:
    value, key = F.col("value").cast("string").cast("long"), F.col("key").cast("string")
    rows = frame.select("stream", key.alias("key"), value.alias("value"), "sequence")
    last = F.max_by("value", "sequence")
    return rows.groupBy("stream", "key").agg(F.count("*").alias("count"), F.sum("value").alias("sum"), last.alias("last"))


def rows_of(kind: str, batch: DataFrame) -> list[list[object]]:
    if kind == "record":
        batch = batch.select("stream", "sequence", F.col("value").cast("string"))
    elif kind == "count":
        batch = batch.select(F.length("value").alias("size")).agg(F.count("*"), F.coalesce(F.sum("size"), F.lit(0)))
    rows = [list(row) for row in batch.collect()]
    return sorted(rows) if kind == "state" else rows


def watch(query: Query, running: StreamingQuery) -> None:
    """Says how a query ended."""
    try:
        running.awaitTermination()
        outcome = {"state": "stopped"}
    except StreamingQueryException as error:
        outcome = {"state": "failed", "error": str(error)}
    write_whole(query.outcome_file, json.dumps(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])

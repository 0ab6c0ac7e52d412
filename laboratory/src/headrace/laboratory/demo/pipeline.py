"""The Spark driver of the demo, a separate process: `python -m headrace.laboratory.demo.pipeline`.

It keeps each airline's figures as Spark state and writes all of them with every micro-batch.
"""

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headrace.engine import build_session
from headrace.laboratory.demo.airlines import Airline, Table, write_table
from headrace.laboratory.demo.flights import COLUMNS, MISSING
from headrace.machine.traces import first_cause

PIPELINE = "airlines"
# The state store that is fastest for small state.
_SETTINGS: dict[str, str | int | bool] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    "spark.sql.adaptive.enabled": False,
    "spark.log.level": "ERROR",
}
_GATEWAY_LISTENS_WITHIN_S = 60.0
_LOOKS_EVERY_S = 0.2


def _figures(lines: DataFrame) -> DataFrame:
    """Returns each airline's figures, from the lines of the file."""
    columns = ", ".join(f"{column} STRING" for column in COLUMNS)
    text = F.col("value").cast("string")
    flights = (
        lines.where(text != ",".join(COLUMNS))
        .select(F.from_csv(text, columns, {"nullValue": MISSING}).alias("flight"))
        .select("flight.carrier", "flight.dep_time", F.col("flight.dep_delay").cast("int").alias("delay"))
    )
    return flights.groupBy("carrier").agg(
        F.count("*").alias("flights"),
        F.count_if(F.col("dep_time").isNull()).alias("cancelled"),
        F.count("delay").alias("delays"),
        F.sum("delay").alias("delay_minutes"),
        F.max("delay").alias("worst_delay"),
    )


def _start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    def write(figures: DataFrame, batch_id: int) -> None:
        airlines = sorted((Airline(**row.asDict()) for row in figures.collect()), key=lambda airline: airline.carrier)
        write_table(options.table, Table(batch_id, tuple(airlines)))

    reader = (
        spark.readStream.format("headrace")
        .option("gateway", _address(options.gateway_file))
        .option("stream", options.stream)
        .option("pipeline", PIPELINE)
        .option("maxMessagesPerTrigger", options.max_messages)
        # With any master, the entire demo is on this machine.
        .option("sharedCheckpoint", "true")
        .option("loopbackGateway", "true")
    )
    if options.parallelism is not None:
        reader = reader.option("readTasks", options.parallelism)
    return (
        _figures(reader.load())
        .writeStream.queryName(PIPELINE)
        .outputMode("complete")
        .foreachBatch(write)
        .option("checkpointLocation", str(options.checkpoint))
        .start()
    )


def _address(file: Path) -> str:
    """Waits for the gateway's address. Both start at the same time, and Spark takes longer."""
    deadline = time.monotonic() + _GATEWAY_LISTENS_WITHIN_S
    while not file.exists():
        if time.monotonic() > deadline:
            raise SystemExit(f"the gateway did not listen within {_GATEWAY_LISTENS_WITHIN_S:.0f} s")
        time.sleep(0.02)
    return file.read_text().strip()


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gateway-file", type=Path, required=True)
    parser.add_argument("--stream", required=True)
    parser.add_argument("--max-messages", type=int, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--parallelism", type=int, help="default: one read task per core, and one bucket")
    options = parser.parse_args()
    stop = threading.Event()
    # No exception from the handler: it would cut a call to the JVM in two, and stopping needs that connection.
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    parent = os.getppid()
    settings = _SETTINGS | {"spark.sql.shuffle.partitions": options.parallelism or 1}
    spark = build_session("headrace demo", options.master, settings, quick_start=True)
    try:
        query = _start(spark, options)
        # A killed demo does not stop its driver, which must not stay forever.
        while query.isActive and not stop.wait(_LOOKS_EVERY_S) and os.getppid() == parent:
            pass
        query.stop()
        if failure := query.exception():
            raise failure
    finally:
        spark.stop()


if __name__ == "__main__":
    try:
        _main()
    except PySparkException as error:
        # Spark's own trace is above; the last line has the cause.
        sys.exit(first_cause(str(error)))

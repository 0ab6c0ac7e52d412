"""The Spark driver, a separate process: `python -m headrace.laboratory.chaos.query FOLDER --gateway ADDRESS --master MASTER`.

Or, by spark-submit, which has the master: `spark-submit --master MASTER .../query.py FOLDER --gateway ADDRESS`.

It runs one query per sink over all streams, and restarts a query that fails. The two queries keep their states differently.
"""

import argparse
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from headrace.engine import build_session
from headrace.engine import start as start_pipeline
from headrace.laboratory.chaos.application import application
from headrace.laboratory.chaos.evidence import IDEMPOTENT, SINKS, TWO_PHASE, Journal, Layout
from headrace.laboratory.chaos.workload import REDELIVERING, REPLAYABLE, Row, State

MAX_MESSAGES = 400
"""The maximum in a micro-batch: small, so that there are many micro-batches for kills to hit."""
_INLINE_BYTES = {TWO_PHASE: "0", IDEMPOTENT: "256kb"}
"""For one query, executors read the batches; for the other one, Spark's planner does."""
_SETTINGS: dict[str, str | int | bool] = {
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.adaptive.enabled": False,
    "spark.sql.execution.pythonUDF.arrow.enabled": True,
    "spark.log.level": "ERROR",
}
_LOOKS_EVERY_S = 0.1


def follow(key: tuple[bytes], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Counts the messages of a key and updates the checksum, drops redeliveries, and yields a row for each other message."""
    count, checksum, seen = state.get if state.exists else (0, 0, "")
    now, known = State(count, checksum), set(seen.split())
    messages = pd.concat(list(frames)).sort_values(["stream", "sequence"])
    batch, rows = _batch(), []
    columns = (messages[name] for name in ("stream", "sequence", "message_id", "value"))
    for stream, sequence, id_, value in zip(*columns, strict=True):
        if id_ is not None:
            if id_ in known:
                continue
            known.add(id_)
        now = now.after(value)
        rows.append(Row(stream, id_ or str(sequence), bytes(key[0]), batch, now, bytes(value)).encode())
    state.update((now.count, now.checksum, " ".join(known)))
    if rows:
        yield pd.DataFrame({"key": [bytes(key[0])] * len(rows), "value": rows})


_ON_THIS_MACHINE = {"sharedCheckpoint": "true", "loopbackGateway": "true"}
"""The entire run is on this machine, with any master: the folder, the gateway and the executors."""


def start(spark: SparkSession, layout: Layout, sink: str, gateway: str) -> StreamingQuery:
    """Starts the query that writes to a sink: one is a pipeline, the other one is plain Spark."""
    options = {
        **_ON_THIS_MACHINE,
        "gateway": gateway,
        "pipeline": sink,
        "maxMessagesPerTrigger": str(MAX_MESSAGES),
        "inlineBytes": _INLINE_BYTES[sink],
    }
    if sink == TWO_PHASE:
        # That folder has no modules: executors of a cluster receive the modules of this package from spark-submit.
        return start_pipeline(application(sink, _batch), spark, layout.checkpoint(sink), options=options, folder=layout.folder)
    options["stream"] = f"{REPLAYABLE}/*,{REDELIVERING}/*"
    messages: DataFrame = spark.readStream.format("headrace").options(**options).load()
    rows = (
        messages.select("stream", "sequence", "key", "value", "message_id")
        .groupBy("key")
        .applyInPandasWithState(
            follow,
            "key binary, value binary",
            "count long, checksum long, seen string",
            "append",
            GroupStateTimeout.NoTimeout,
        )
    )
    writer = rows.writeStream.format("headrace").queryName(sink).outputMode("append")
    writer = writer.options(**_ON_THIS_MACHINE)
    return writer.options(gateway=gateway, sink=sink, checkpointLocation=str(layout.checkpoint(sink))).start()


def _batch() -> int:
    """Returns the micro-batch that this task belongs to."""
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    return int(context.getLocalProperty("streaming.sql.batchId") or -1)


def _run(spark: SparkSession, layout: Layout, gateway: str, is_over: Callable[[], bool]) -> None:
    """Runs the queries until `is_over` is true, or a query has failed and another driver was started in the meantime."""
    failures = Journal(layout.failures)
    queries = {sink: start(spark, layout, sink, gateway) for sink in SINKS}
    while not is_over():
        for sink, query in queries.items():
            if not query.isActive:
                failures.note(query=sink, error=str(query.exception()))
                with suppress(StreamingQueryException):
                    query.awaitTermination()  # Until then, Spark has not given back its name.
                if not _is_present(layout):
                    return
                queries[sink] = start(spark, layout, sink, gateway)
    for query in queries.values():
        query.stop()


def _is_present(layout: Layout) -> bool:
    """Whether this is the latest driver: two drivers that both restarted queries would alternate forever."""
    # Under spark-submit, the process that was started is the JVM.
    return layout.driver.read_text() == str(os.getsid(0))


def main() -> None:
    """Runs the queries until SIGTERM, or until the parent process has ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gateway", required=True)
    parser.add_argument("--master", help="default: spark-submit's")
    arguments = parser.parse_args()
    layout = Layout(arguments.folder)
    stop = threading.Event()
    # No exception from the handler: it would cut a call to the JVM in two, and stopping needs that connection.
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    parent = os.getppid()
    spark = build_session("headrace chaos", arguments.master, _SETTINGS, quick_start=True)
    try:
        _run(spark, layout, arguments.gateway, lambda: stop.wait(_LOOKS_EVERY_S) or os.getppid() != parent)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

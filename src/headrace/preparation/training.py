"""A short job whose JVM archives its classes: `python -m headrace.preparation.training ADDRESS FOLDER MESSAGES ARCHIVE`."""

import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.engine import build_session, start
from headrace.engine.spark.class_archive import write_at_exit
from headrace.pipelines import Pipeline
from headrace.processes import end_with_supervisor

_LOOKS_EVERY_S = 1


class Tally:
    """The state of a word: how often it was seen."""

    seen = 0


def count(word: str, tally: Tally) -> str:
    """Counts a word, and returns it with its count."""
    tally.seen += 1
    return f"{word} {tally.seen}"


def application() -> Pipeline:
    """Builds a typical application: a source, a key, a state and a sink."""
    app = Pipeline("preparation")
    app.source("lines/*", decode=bytes.decode).key_by(lambda word: word).stateful(count, Tally, name="tallies").sink("counts")
    return app


def main() -> None:
    """Runs the application until every message has its result, then a plain query over all messages."""
    end_with_supervisor()
    address, folder, messages, archive = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    conf: dict[str, str | int | bool] = {"spark.log.level": "ERROR", "spark.sql.shuffle.partitions": 2, **write_at_exit(archive)}
    spark = build_session("headrace prepare", "local[*]", conf)
    options = {"gateway": address, "maxMessagesPerTrigger": str(messages // 5)}
    _run(start(application(), spark, folder / "pipeline", options=options), lambda _: _lines(folder / "out") == messages)
    lines = spark.readStream.format("headrace").options(**options, stream="lines/*", pipeline="plain").load()
    counts = lines.groupBy("value").count().writeStream.format("noop").outputMode("update")
    _run(counts.option("checkpointLocation", str(folder / "plain")).start(), lambda query: _message_count(query) == messages)
    _end_jvm(spark)


def _run(query: StreamingQuery, is_done: Callable[[StreamingQuery], bool]) -> None:
    """Stops a query once `is_done` is true."""
    while not is_done(query):
        if query.awaitTermination(_LOOKS_EVERY_S):
            raise RuntimeError("a query ended before it was done")
    query.stop()


def _lines(folder: Path) -> int:
    """The number of lines that the sink has made visible."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.lines"))


def _message_count(query: StreamingQuery) -> int:
    """The number of messages in completed micro-batches."""
    return sum(batch["numInputRows"] for batch in query.recentProgress)


def _end_jvm(spark: SparkSession) -> None:
    """Shuts the JVM down, and waits until it has written its archive."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()

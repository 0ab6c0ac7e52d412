"""The sink inside Spark, against a scripted gateway."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.engine.frames import Message
from tests.fake_gateway.engine_sinks import FakeSinkGateway

from headrace.engine import start
from headrace.engine.wire.retry import Retry
from headrace.pipelines import Pipeline
from headrace.protocol.v1 import sink_pb2

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
TOKEN = "t0p-s3cret"
DEADLINE_S = 300.0


class Rig:
    """Queries from a stream to a sink of one gateway."""

    def __init__(self, spark: SparkSession, gateway: FakeSinkGateway, checkpoint: Path) -> None:
        self.spark = spark
        self.gateway = gateway
        self.checkpoint = checkpoint
        self.queries: list[StreamingQuery] = []

    def load(self, **options: str) -> DataFrame:
        given = {"gateway": self.gateway.address, "stream": "orders/*", "token": TOKEN, **options}
        return self.spark.readStream.format("headrace").options(**given).load()

    def start(self, frame: DataFrame | None = None, trigger: dict[str, Any] | None = None, **options: str) -> StreamingQuery:
        given = {"gateway": self.gateway.address, "sink": "alerts", "token": TOKEN, "gatewayTimeout": "30s", **options}
        writer = (self.load() if frame is None else frame).writeStream.format("headrace").options(**given)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        query = (writer.trigger(**trigger) if trigger else writer).start()
        self.queries.append(query)
        return query

    def run(self, frame: DataFrame | None = None, **options: str) -> None:
        """Writes everything that there is."""
        assert self.start(frame, {"availableNow": True}, **options).awaitTermination(60)

    def failure(self, frame: DataFrame | None = None, **options: str) -> str:
        """Why writing everything that there is fails."""
        with pytest.raises(StreamingQueryException) as caught:
            self.start(frame, {"availableNow": True}, **options).awaitTermination(60)
        return str(caught.value)

    @property
    def runs(self) -> list[str]:
        """The files of the checkpoint's runs."""
        return [path.name for path in (self.checkpoint / "headrace" / "runs").glob("[0-9]*")]

    def wait_until(self, condition: Any, what: str) -> None:
        def checked() -> bool:
            failed = [q.exception() for q in self.queries if q.exception()]
            assert not failed, failed
            return bool(condition())

        self.gateway.wait_until(checked, what)


@pytest.fixture
def rig(spark: SparkSession, tmp_path: Path) -> Iterator[Rig]:
    gateway = FakeSinkGateway().start()
    rig = Rig(spark, gateway, tmp_path / "checkpoint")
    yield rig
    for query in rig.queries:
        query.stop()
    gateway.stop()


def messages(first: int, last: int, size: int = 0) -> list[Message]:
    return [Message(i, b"value-%d" % i + bytes(size)) for i in range(first, last + 1)]


FULL = Message(7, b"v", b"k", 1_700_000_000_123_456, "id-7", (("a", b"1"), ("b", None)))


def test_rows_of_the_source_arrive_as_they_are(rig: Rig) -> None:
    rig.gateway.append("orders/0", [FULL, Message(9, None)])
    rig.run()
    ((rows,),) = [list(rig.gateway.batch(number).values()) for number in {v.transaction.batch for v in rig.gateway.votes}]
    told = [(row["key"], row["value"], row["event_time"], row["message_id"], row["headers"]) for row in rows]
    headers = [{"name": "a", "value": b"1"}, {"name": "b", "value": None}]
    assert told == [(b"k", b"v", 1_700_000_000_123_456, "id-7", headers), (None, None, None, None, [])]
    assert all(metadata["authorization"] == f"Bearer {TOKEN}" for metadata in rig.gateway.metadata)


def test_complete_mode_sends_the_whole_result_again_and_update_mode_is_refused(rig: Rig) -> None:
    rig.gateway.append("orders/0", [Message(1, b"a"), Message(2, b"b"), Message(3, b"a")])
    counts = rig.load(maxMessagesPerTrigger="2").groupBy("value").count()
    rows = counts.selectExpr("value AS key", "CAST(count AS STRING) AS value")
    given = {"gateway": rig.gateway.address, "sink": "alerts", "token": TOKEN, "gatewayTimeout": "30s"}
    writer = rows.writeStream.format("headrace").options(**given).trigger(availableNow=True)
    update = writer.outputMode("update").option("checkpointLocation", f"{rig.checkpoint}-update").start()
    rig.queries.append(update)
    with pytest.raises(StreamingQueryException, match="headrace does not support Update mode"):
        update.awaitTermination(60)
    assert not rig.gateway.delivered
    complete = writer.outputMode("complete").option("checkpointLocation", str(rig.checkpoint)).start()
    rig.queries.append(complete)
    assert complete.awaitTermination(60)
    told = [
        sorted((row["key"], row["value"]) for rows in rig.gateway.batch(number).values() for row in rows)
        for number in sorted({vote.transaction.batch for vote in rig.gateway.votes})
    ]
    assert told == [[(b"a", b"1"), (b"b", b"1")], [(b"a", b"2"), (b"b", b"1")]]


def test_several_tasks_and_batches_keep_their_order(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 60, 100_000))
    rig.gateway.append("orders/1", messages(1, 60, 100_000))
    frame = rig.load(readTasks="3", maxMessagesPerTrigger="80").selectExpr("concat(stream, ' ', sequence) AS key", "value")
    rig.run(frame)
    numbers = sorted(v.transaction.batch for v in rig.gateway.votes)
    batches = [rig.gateway.batch(number) for number in numbers]
    assert [sum(len(rows) for rows in batch.values()) for batch in batches] == [80, 40]
    assert len(batches[0]) == 3
    keys = [row["key"].decode() for batch in batches for _, rows in sorted(batch.items()) for row in rows]  # type: ignore[attr-defined]
    for stream in ("orders/0", "orders/1"):
        assert [key for key in keys if key.startswith(stream)] == [f"{stream} {n}" for n in range(1, 61)]
    for delivered in rig.gateway.delivered:
        assert [row["sequence"] for row in delivered.rows] == list(range(delivered.messages or 0))
        assert all(part.transaction == delivered.start.part.transaction for part in [delivered.start.part])


def test_tasks_and_batches_without_rows_are_not_told_of(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 6, 400_000))
    rig.run(rig.load(readTasks="3").where("sequence = 1"))
    rig.gateway.append("orders/0", messages(7, 8))
    rig.run(rig.load().where("sequence = 1"))
    assert len(list((rig.checkpoint / "commits").glob("[0-9]*"))) == 2
    assert [d.messages for d in rig.gateway.delivered] == [1]
    (vote,) = rig.gateway.votes
    assert list(vote.parts) == [rig.gateway.delivered[0].start.part]


def test_a_part_that_is_lost_on_its_way_does_not_count(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 40, 100_000))
    rig.gateway.deliver_failures = [(2, UNAVAILABLE, "the sink's session was lost")]
    rig.gateway.vote_failures = [(UNAVAILABLE, "restarting")]
    rig.run(rig.load(readTasks="1"))
    lost, staged = rig.gateway.delivered
    assert (lost.messages, staged.messages) == (None, 40)
    (vote,) = rig.gateway.votes
    assert list(vote.parts) == [staged.start.part]
    assert lost.attempt != staged.attempt
    assert rig.gateway.values == [m.value for m in messages(1, 40, 100_000)]


def test_a_vote_against_a_batch_fails_the_query_and_the_batch_runs_again(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    rig.gateway.vote_failures = [(grpc.StatusCode.ABORTED, "the disk is full")]
    failure = rig.failure(rig.load(readTasks="1"))
    assert "SinkFailed: sink alerts cannot write batch 0: the disk is full" in failure
    assert "restart the query" in failure
    rig.run(rig.load(readTasks="1"))
    first, again = rig.gateway.delivered
    assert first.rows == again.rows
    assert first.start.part.transaction == again.start.part.transaction
    assert first.attempt != again.attempt
    runs = {report.run: report.first_batch for report in rig.gateway.commit_reports}
    assert list(runs.values()) == [0, 0]


def test_an_older_checkpoint_is_an_error_unless_it_is_accepted(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    rig.gateway.reason = "older-checkpoint"
    rig.gateway.deliver_failures = [(1, grpc.StatusCode.FAILED_PRECONDITION, "batch 4 is its last")]
    failure = rig.failure(rig.load(readTasks="1"))
    assert "OlderCheckpoint: sink alerts has already committed batch 0" in failure
    assert "batch 4 is its last" in failure
    rig.run(rig.load(readTasks="1"), onOlderCheckpoint="accept")
    assert [d.start.accept_older for d in rig.gateway.delivered] == [False, True]


def test_refused_messages_fail_the_query_or_are_skipped(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    rig.gateway.refused = [sink_pb2.Staged.Refused(sequence=n, reason=f"no number {n}") for n in (2, 4)]
    failure = rig.failure(rig.load(readTasks="1"))
    assert "SinkRefused: sink alerts rejected 2 messages of batch 0" in failure
    assert "row 2 of partition 0: no number 2" in failure
    assert rig.gateway.votes == []
    rig.run(rig.load(readTasks="1"), onRefused="skip")
    assert len(rig.gateway.votes) == 1


def test_refused_messages_go_to_the_dead_letter_sink_in_the_same_transaction(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    rig.gateway.refused = [sink_pb2.Staged.Refused(sequence=n, reason=f"no number {n}") for n in (2, 4)]
    rig.run(rig.load(readTasks="1"), deadLetters="errors")
    alerts, errors = rig.gateway.delivered
    assert (alerts.start.sink, errors.start.sink) == ("alerts", "errors")
    assert (alerts.start.dead_letters, errors.start.dead_letters) == (False, True)
    assert alerts.start.part.transaction == errors.start.part.transaction
    assert [row["value"] for row in errors.rows] == [alerts.rows[n]["value"] for n in (2, 4)]
    assert [{h["name"]: h["value"] for h in row["headers"]} for row in errors.rows] == [
        {
            "headrace-sink": b"alerts",
            "headrace-reason": b"no number %d" % place,
            "headrace-batch": b"0",
            "headrace-stream": b"orders/0",
            "headrace-sequence": b"%d" % sequence,
        }
        for place, sequence in ((2, 3), (4, 5))
    ]
    voted = {vote.sink: [part.attempt for part in vote.parts] for vote in rig.gateway.votes}
    assert voted == {"errors": [errors.attempt], "alerts": [alerts.attempt]}
    assert {vote.sink: list(vote.instances) for vote in rig.gateway.votes} == {"errors": ["errors-1"], "alerts": ["alerts-1"]}
    assert {tuple(report.sinks) for report in rig.gateway.commit_reports} == {("alerts", "errors")}
    assert {tuple(report.awaited) for report in rig.gateway.commit_reports} == {("alerts",)}


@pytest.mark.parametrize(
    ("options", "columns", "names"),
    [
        ({"onRefuse": "skip"}, ["value"], ["unknown option 'onRefuse'", "did you mean onRefused?"]),
        ({"sink": "a b"}, ["value"], ["option sink: 'a b' is not valid"]),
        ({}, ["value", "1 AS colour"], ["SchemaError: column colour is not one that sinks accept"]),
        ({}, ["key"], ["SchemaError: a sink needs a column value"]),
    ],
)
def test_wrong_options_and_columns_fail_before_anything_is_written(
    rig: Rig, options: dict[str, str], columns: list[str], names: list[str]
) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    failure = rig.failure(rig.load().selectExpr(*columns), **options)
    assert all(name in failure for name in names)
    assert TOKEN not in failure
    assert rig.gateway.delivered == []


def test_what_the_commit_log_holds_is_reported_from_start_to_end(rig: Rig) -> None:
    gateway = rig.gateway
    gateway.append("orders/0", messages(1, 5))
    query = rig.start()
    pipeline = str(query.id)
    rig.wait_until(lambda: 0 in gateway.committed_batches()[pipeline], "batch 0 is reported")
    gateway.append("orders/0", messages(6, 9))
    rig.wait_until(lambda: 1 in gateway.committed_batches()[pipeline], "batch 1 is reported")
    told = len(gateway.commit_reports)
    rig.wait_until(lambda: len(gateway.commit_reports) > told, "it is reported again and again")
    assert gateway.committed_batches()[pipeline][0] is None, "before the first batch"
    assert {(report.run, report.first_batch) for report in gateway.commit_reports} == {(str(query.runId), 0)}
    assert {delivered.attempt.partition("/")[0] for delivered in gateway.delivered} == {str(query.runId)}
    (source,) = {attached.pipeline.name for attached in gateway.attached}
    assert list(gateway.commit_reports[-1].readers) == [source]
    assert {tuple(report.sinks) for report in gateway.commit_reports} == {("alerts",)}
    query.stop()

    gateway.append("orders/0", messages(10, 11))
    query = rig.start()
    rig.wait_until(lambda: 2 in gateway.committed_batches()[pipeline], "batch 2 is reported")
    restarted = next(report for report in gateway.commit_reports if report.run == str(query.runId))
    assert (restarted.committed, restarted.first_batch) == (1, 2), "before its first batch"
    assert list(restarted.readers) == [source]


def test_an_idle_query_reports_nothing_but_its_commit_log(rig: Rig) -> None:
    """Spark keeps progress of idle triggers too, with the batch that would be next."""
    interval = "spark.sql.streaming.noDataProgressEventInterval"
    rig.spark.conf.set(interval, "10ms")
    try:
        rig.gateway.append("orders/0", messages(1, 5))
        query = rig.start()
        rig.wait_until(lambda: [p for p in query.recentProgress if p["batchId"] == 1], "an idle trigger is reported")
        told = len(rig.gateway.commit_reports)
        rig.wait_until(lambda: len(rig.gateway.commit_reports) > told + 1, "the query is reported again")
    finally:
        rig.spark.conf.unset(interval)
    assert rig.gateway.committed_batches()[str(query.id)][-1] == 0


def test_a_query_that_ends_is_reported_until_nothing_is_pending(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    query = rig.start()
    rig.wait_until(lambda: 0 in rig.gateway.committed_batches()[str(query.id)], "batch 0 is reported")
    rig.gateway.pending = [1] * 5
    query.stop()
    rig.wait_until(lambda: not rig.gateway.pending, "it is asked until nothing is pending")


@pytest.mark.parametrize("what", ["application", "query"])
def test_what_waits_for_a_vote_can_be_stopped(rig: Rig, what: str) -> None:
    gateway = rig.gateway
    gateway.append("orders/0", messages(1, 5))
    gateway.vote_answers.clear()
    given = {"gateway": gateway.address, "token": TOKEN, "gatewayTimeout": "1h"}
    if what == "query":
        query = rig.start(gatewayTimeout="1h")
    else:
        query = start(passing_on(), rig.spark, rig.checkpoint, options=given)
        rig.queries.append(query)
    rig.wait_until(lambda: gateway.votes_asked, "the sink is asked for its vote")
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    try:
        stopping.join(60)
        assert not stopping.is_alive()
        if what == "application":
            assert query.exception() is None
        else:
            # Spark cannot interrupt the process of a plain query's writer, which must raise.
            cause = query._jsq.exception().get().getCause().getCause()
            said = "the query was stopped before sink alerts had voted for batch 0; its next start runs the batch again"
            assert said in cause.getMessage()
        assert not (rig.checkpoint / "commits" / "0").exists()
    finally:
        gateway.vote_answers.set()
        stopping.join(60)


def passing_on() -> Pipeline:
    app = Pipeline("passing-on")
    app.source("orders/*").sink("alerts")
    return app


def test_a_query_is_stopped_while_it_starts_and_the_gateway_is_away(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its start waits for the gateway; the stop waits for its thread, and so for the start."""
    rig.gateway.stop()
    waits, pause = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        waits.set()
        pause.wait(0.05)

    monkeypatch.setattr(Retry, "wait", wait)

    def stop() -> None:
        assert waits.wait(DEADLINE_S)
        for active in rig.spark.streams.active:
            active.stop()

    with ThreadPoolExecutor() as threads:
        stopping = threads.submit(stop)
        query = rig.start(gatewayTimeout="1h")
        stopping.result(DEADLINE_S)
    assert not query.isActive
    assert query.exception() is None
    # Spark removes a listener that is interrupted, and no later query of the session would be monitored.
    monkeypatch.undo()
    rig.gateway.start()
    rig.gateway.append("orders/0", messages(1, 5))
    query = rig.start()
    rig.wait_until(lambda: 0 in rig.gateway.committed_batches()[str(query.id)], "batch 0 is reported")


def test_a_gateway_that_is_away_at_the_start_is_waited_for_before_the_first_batch(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    frame = rig.load()
    rig.gateway.stop()

    def come_back() -> None:
        rig.gateway.wait_until(lambda: rig.runs, "the run is noted in the checkpoint")
        rig.gateway.start()

    with ThreadPoolExecutor(1) as pool:
        coming_back = pool.submit(come_back)
        query = rig.start(frame)
        coming_back.result()
    assert rig.gateway.commit_reports, "before the query runs"
    rig.wait_until(lambda: 0 in rig.gateway.committed_batches()[str(query.id)], "batch 0 is reported")
    assert {(report.run, report.run_number, report.first_batch) for report in rig.gateway.commit_reports} == {
        (str(query.runId), 1, 0)
    }


def test_a_gateway_that_does_not_hear_of_the_run_fails_the_query_before_its_first_batch(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    frame = rig.load()
    rig.gateway.stop()
    failure = rig.failure(frame, gatewayTimeout="300ms")
    assert "is unavailable" in failure
    assert "the option gatewayTimeout sets how long to wait" in failure
    assert not list(rig.checkpoint.glob("offsets/[0-9]*"))
    rig.gateway.start()
    rig.gateway.commit_report_failures = [(grpc.StatusCode.ABORTED, "run 9 has taken over")]
    assert "run 9 has taken over" in rig.failure(frame)
    assert rig.gateway.delivered == []


def test_a_query_whose_run_is_replaced_at_the_gateway_ends_with_an_error(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    query = rig.start()
    rig.wait_until(lambda: 0 in rig.gateway.committed_batches()[str(query.id)], "batch 0 is reported")
    rig.gateway.commit_report_failures = [(grpc.StatusCode.ABORTED, "run 9 has taken over")]
    with pytest.raises(StreamingQueryException, match="run 9 has taken over"):
        query.awaitTermination(60)
    assert rig.gateway.commit_report_failures == []


def test_each_run_has_the_next_number_and_names_those_before_it(rig: Rig) -> None:
    runs = []
    for batch in (0, 1, None, 2):
        if batch is not None:
            rig.gateway.append("orders/0", messages(10 * batch + 1, 10 * batch + 5))
        query = rig.start(rig.load(pipeline="p"))
        run = str(query.runId)
        if batch is None:
            rig.wait_until(lambda: len(rig.gateway.attached) == 3, "it plans")
        else:
            pipeline, expected = str(query.id), batch
            rig.wait_until(lambda p=pipeline, b=expected: b in rig.gateway.committed_batches()[p], "it is reported")
        query.stop()
        runs.append(run)
    told = {report.run: report for report in rig.gateway.commit_reports}
    assert [told[run].run_number for run in runs] == [1, 2, 3, 4]
    assert [told[run].first_batch for run in runs] == [0, 1, 2, 2]
    segments = [(s.run, s.first_batch, s.last_batch) for s in told[runs[3]].segments]
    assert segments == [(runs[0], 0, 0), (runs[1], 1, 1), (runs[3], 2, 2)]
    delivered = [(d.attempt.partition("/")[0], d.start.run_number) for d in rig.gateway.delivered]
    assert list(dict.fromkeys(delivered)) == [(runs[n], n + 1) for n in (0, 1, 3)]
    assert [vote.run_number for vote in rig.gateway.votes] == [1, 2, 4]
    planned = [(a.pipeline.run, a.pipeline.checkpoint) for a in rig.gateway.attached]
    assert [run for run, _ in planned] == [1, 2, 3, 3], "a run that planned nothing leaves its number to the next"
    assert len({checkpoint for _, checkpoint in planned}) == 1
    assert len({a.pipeline.run_id for a in rig.gateway.attached}) == 4
    assert {name.partition(".")[0] for name in rig.runs} == {"2", "3", "4"}, "the last has what is known of those before it"
    entries = [(rig.checkpoint / "commits" / str(batch)).read_text().splitlines() for batch in range(3)]
    assert [json.loads(entry[2])["headraceRun"] for entry in entries] == [runs[0], runs[1], runs[3]]


JOB = """
import sys
from headrace.engine import build_session

gateway, checkpoint = sys.argv[1:]
spark = build_session("job", "local[1]")
orders = spark.readStream.format("headrace").option("gateway", gateway).option("stream", "orders/*").load()
writer = orders.writeStream.format("headrace").option("gateway", gateway).option("sink", "alerts")
writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
"""


def test_a_job_that_ends_with_its_query_reports_its_last_batch(tmp_path: Path) -> None:
    gateway = FakeSinkGateway().start()
    try:
        gateway.append("orders/0", messages(1, 5))
        command = [sys.executable, "-c", JOB, gateway.address, str(tmp_path / "checkpoint")]
        job = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert job.returncode == 0, job.stderr
        assert [row["value"] for row in gateway.delivered[-1].rows] == [m.value for m in messages(1, 5)]
        assert gateway.commit_reports[-1].committed == 0
        assert gateway.commit_reports[-1].HasField("committed")
    finally:
        gateway.stop()


@pytest.mark.parametrize("only_faulty", [False, True])
def test_values_that_cannot_be_decoded_are_dead_letters_in_the_same_transaction(rig: Rig, only_faulty: bool) -> None:
    sound = [] if only_faulty else [Message(1, b'{"id": 7}'), Message(4, None)]
    faulty = Message(2, b'{"id": "x"}', b"k", 1_700_000_000_123_456, "id-2", (("a", b"1"),))
    rig.gateway.append("orders/0", sorted([*sound, faulty, Message(3, b"[]")], key=lambda message: message.sequence))
    frame = rig.load(decode="json", schema="id BIGINT", onError="null", readTasks="1")
    columns = ["to_json(value) AS value", "key", "event_time", "message_id", "headers", "stream", "sequence"]
    rig.run(frame.selectExpr(*columns, "error", "error_value"), deadLetters="errors")
    by_sink = {delivered.start.sink: delivered for delivered in rig.gateway.delivered}
    values = {sink: [row["value"] for row in delivered.rows] for sink, delivered in by_sink.items()}
    assert values == {**({} if only_faulty else {"alerts": [b'{"id":7}', None]}), "errors": [b'{"id": "x"}', b"[]"]}
    first, second = by_sink["errors"].rows
    told = {header["name"]: header["value"] for header in first["headers"]}
    assert (first["key"], first["event_time"], first["message_id"]) == (b"k", 1_700_000_000_123_456, "id-2")
    assert told["headrace-reason"] == b"json: Expected `int | null`, got `str` - at `$.id`"
    assert (told["a"], told["headrace-sink"], told["headrace-stream"], told["headrace-sequence"]) == (
        b"1",
        b"alerts",
        b"orders/0",
        b"2",
    )
    assert {header["name"] for header in second["headers"]} == set(told) - {"a"}
    voted = {vote.sink: [part.attempt for part in vote.parts] for vote in rig.gateway.votes}
    assert voted == {sink: [delivered.attempt] for sink, delivered in by_sink.items()}


def test_values_that_cannot_be_decoded_are_skipped_if_refused_messages_are(rig: Rig) -> None:
    rig.gateway.append("orders/0", [Message(1, b'{"id": 7}'), Message(2, b"[]")])
    frame = rig.load(decode="json", schema="id BIGINT", onError="null", readTasks="1")
    rows = frame.selectExpr("to_json(value) AS value", "error", "error_value")
    assert "SchemaError: column error is not one that sinks accept" in rig.failure(rows)
    assert "SchemaError: column error_value is missing" in rig.failure(rows.drop("error_value"), onRefused="skip")
    rig.run(rows, onRefused="skip")
    assert [row["value"] for delivered in rig.gateway.delivered for row in delivered.rows] == [b'{"id":7}']

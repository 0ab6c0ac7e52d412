"""The source inside Spark, against a scripted gateway."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType
from tests.engine.frames import Message
from tests.fake_gateway.engine import DEADLINE_S, FakeGateway

from headrace.contract.names import CONTINUES
from headrace.engine.source.reader import StreamReader
from headrace.engine.spark.format import HeadraceSource

TOKEN = "t0p-s3cret"


class Rig:
    """Queries over one gateway, whose batches are kept in memory."""

    def __init__(self, spark: SparkSession, gateway: FakeGateway, checkpoint: Path) -> None:
        self.spark = spark
        self.gateway = gateway
        self.checkpoint = checkpoint
        self.batches: dict[int, list[Row]] = {}
        self.before_commit: Callable[[int], None] = lambda number: None
        self.queries: list[StreamingQuery] = []

    def load(self, format: str = "headrace", **options: str) -> DataFrame:
        given = {"gateway": self.gateway.address, "stream": "orders/*", "token": TOKEN, "gatewayTimeout": "30s", **options}
        return self.spark.readStream.format(format).options(**given).load()

    def start(self, trigger: dict[str, Any] | None = None, **options: str) -> StreamingQuery:
        writer = self.load(**options).writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self.checkpoint))
        query = (writer.trigger(**trigger) if trigger else writer).start()
        self.queries.append(query)
        return query

    def _keep(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = batch.collect()
        self.before_commit(number)

    @property
    def rows(self) -> list[Row]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    def sequences(self, stream: str) -> list[int]:
        return [row.sequence for row in self.rows if row.stream == stream]

    def last_offset(self) -> Any:
        """The source's positions in the checkpoint's newest batch."""
        newest = max((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        return json.loads(newest.read_text().splitlines()[-1])

    def wait_until_committed(self, stream: str, sequence: int) -> None:
        def condition() -> bool:
            failed = [q.exception() for q in self.queries if q.exception()]
            assert not failed, failed
            return self.gateway.committed(stream) == sequence

        self.gateway.wait_until(condition, f"{stream} is acknowledged up to {sequence}")


@contextmanager
def new_rig(spark: SparkSession, folder: Path) -> Iterator[Rig]:
    gateway = FakeGateway().start()
    rig = Rig(spark, gateway, folder / "checkpoint")
    yield rig
    for query in rig.queries:
        query.stop()
    gateway.stop()


@pytest.fixture
def rig(spark: SparkSession, tmp_path: Path) -> Iterator[Rig]:
    with new_rig(spark, tmp_path) as rig:
        yield rig


@pytest.fixture
def plain_source(spark: SparkSession) -> str:
    """The source as it is where pyspark lacks the class by which its planner knows prefetching readers."""

    class PlainSource(HeadraceSource):
        @classmethod
        def name(cls) -> str:
            return "headrace-plain"

        def streamReader(self, schema: StructType) -> StreamReader:
            return StreamReader(self._options)

    spark.dataSource.register(PlainSource)
    return PlainSource.name()


def messages(first: int, last: int) -> list[Message]:
    return [Message(i, b"value-%d" % i) for i in range(first, last + 1)]


FULL = Message(7, b"v", b"k", 1_700_000_000_123_456, "id-7", (("a", b"1"), ("b", None)))
BARE = Message(9, None)


@pytest.mark.parametrize("inline_bytes", ["256kb", "0"])
def test_every_column_arrives(rig: Rig, inline_bytes: str) -> None:
    rig.gateway.append("orders/0", [FULL, BARE])
    rig.start(inlineBytes=inline_bytes)
    rig.wait_until_committed("orders/0", 9)
    offset = rig.last_offset()
    assert offset["pipeline"] == rig.gateway.attached[0].pipeline.name
    assert offset["streams"] == {"orders/0": {"epoch": 0, "sequence": 9, "cursor": "OQ=="}}
    full, bare = rig.rows
    assert (full.key, full.value, full.stream, full.sequence, full.message_id) == (b"k", b"v", "orders/0", 7, "id-7")
    assert full.event_time.timestamp() == 1_700_000_000.123456
    assert [tuple(h) for h in full.headers] == [("a", b"1"), ("b", None)]
    assert (bare.key, bare.value, bare.event_time, bare.message_id, bare.headers) == (None, None, None, None, [])


def test_acknowledged_after_the_commit_and_then_at_once(rig: Rig) -> None:
    seen = []
    rig.before_commit = lambda number: seen.append(rig.gateway.committed("orders/0"))
    rig.gateway.append("orders/0", messages(1, 5))
    rig.start()
    rig.wait_until_committed("orders/0", 5)
    rig.gateway.append("orders/0", messages(6, 6))
    rig.wait_until_committed("orders/0", 6)
    assert seen in ([-1, 5], [-1, -1, 5])
    assert rig.sequences("orders/0") == list(range(1, 7))


def test_streams_that_appear_are_read_without_the_private_class_of_spark(rig: Rig, plain_source: str) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    rig.start(format=plain_source)
    rig.wait_until_committed("orders/0", 5)
    rig.gateway.append("orders/1", messages(1, 3))
    rig.gateway.append("payments/0", messages(1, 3))
    rig.wait_until_committed("orders/1", 3)
    assert {row.stream for row in rig.rows} == {"orders/0", "orders/1"}


def test_a_batch_that_was_not_committed_is_read_again_exactly(rig: Rig) -> None:
    def fail(number: int) -> None:
        if rig.batches[number] and number > 0:
            raise RuntimeError("the sink fails")

    rig.gateway.append("orders/0", messages(1, 10))
    rig.start(maxMessagesPerTrigger="10")
    rig.wait_until_committed("orders/0", 10)
    rig.before_commit = fail
    rig.gateway.append("orders/0", messages(11, 35))
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        rig.queries.pop().awaitTermination(60)
    number = max(rig.batches)
    failed = rig.batches.pop(number)
    assert [row.sequence for row in failed] == list(range(11, 21))
    assert rig.gateway.committed("orders/0") == 10

    rig.before_commit = lambda number: None
    rig.gateway.forget()
    rig.start(maxMessagesPerTrigger="25")
    rig.wait_until_committed("orders/0", 35)
    assert rig.batches[number] == failed
    assert rig.sequences("orders/0") == list(range(1, 36))
    replayed = rig.gateway.attached[-1]
    assert [p.position.sequence for p in replayed.committed] == [10]
    assert [p.position.sequence for p in replayed.planned] == [20]


def test_a_query_begins_where_it_is_told_and_keeps_that(rig: Rig) -> None:
    def fail(number: int) -> None:
        raise RuntimeError("the sink fails")

    rig.gateway.starts = {"orders/0": 5}
    rig.gateway.append("orders/0", messages(1, 5))
    rig.before_commit = fail
    rig.start()
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        rig.queries.pop().awaitTermination(60)
    assert rig.batches == {0: []}
    # It is in the offset log, so that it stays though nothing was committed and the source would now begin elsewhere.
    rig.gateway.append("orders/0", messages(6, 8))
    rig.gateway.forget()
    rig.gateway.starts = {"orders/0": 8}
    rig.before_commit = lambda number: None
    rig.start()
    rig.wait_until_committed("orders/0", 8)
    assert rig.sequences("orders/0") == [6, 7, 8]


def test_a_batch_that_only_forgets_a_stream_that_is_gone(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    rig.gateway.append("orders/1", messages(1, 3))
    rig.start()
    rig.wait_until_committed("orders/0", 5)
    rig.wait_until_committed("orders/1", 3)
    rig.gateway.ended = rig.gateway.gone = {"orders/0"}
    rig.gateway.forgets_alone = True
    rig.gateway.wait_until(lambda: "orders/0" not in rig.gateway.streams, "the checkpoint leaves it out")
    rig.gateway.gone = set()
    # A new stream of the name begins with its first message.
    rig.gateway.append("orders/0", messages(1, 2))
    rig.gateway.append("orders/1", messages(4, 6))
    rig.wait_until_committed("orders/0", 2)
    rig.wait_until_committed("orders/1", 6)
    assert rig.sequences("orders/0") == [1, 2, 3, 4, 5, 1, 2]
    assert rig.sequences("orders/1") == list(range(1, 7))


def test_a_gateway_that_goes_away_and_comes_back(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    query = rig.start()
    rig.wait_until_committed("orders/0", 5)
    rig.gateway.stop()
    rig.gateway.forget()
    rig.gateway.append("orders/0", messages(6, 9))
    rig.gateway.start()
    rig.wait_until_committed("orders/0", 9)
    assert rig.sequences("orders/0") == list(range(1, 10))
    assert query.isActive


def test_a_gateway_that_is_away_while_a_batch_is_read(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 100))
    rig.gateway.fetch_failures = [(2, grpc.StatusCode.UNAVAILABLE, "broken"), (3, grpc.StatusCode.UNAVAILABLE, "broken")]
    rig.start(inlineBytes="0")
    rig.wait_until_committed("orders/0", 100)
    assert rig.sequences("orders/0") == list(range(1, 101))


def test_a_gateway_that_stays_away_fails_the_query(rig: Rig) -> None:
    rig.gateway.stop()
    query = rig.start(gatewayTimeout="500ms")
    rig.queries.remove(query)
    with pytest.raises(StreamingQueryException, match="gatewayTimeout") as caught:
        query.awaitTermination(60)
    assert TOKEN not in str(caught.value)


def test_available_now_reads_what_there_is_and_ends(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 25))
    query = rig.start({"availableNow": True}, maxMessagesPerTrigger="10")
    assert query.awaitTermination(60)
    assert [len(batch) for batch in rig.batches.values() if batch] == [10, 10, 5]
    assert rig.gateway.attached[0].available_now
    rig.wait_until_committed("orders/0", 25)
    again = rig.start({"availableNow": True})
    assert again.awaitTermination(60)
    assert rig.sequences("orders/0") == list(range(1, 26))


def test_large_batches_are_read_by_several_tasks(rig: Rig) -> None:
    rig.gateway.append("orders/0", [Message(i, bytes(40_000)) for i in range(1, 101)])
    rig.gateway.append("orders/1", [Message(i, bytes(100)) for i in range(1, 101)])
    rig.start(readTasks="3")
    rig.wait_until_committed("orders/0", 100)
    rig.wait_until_committed("orders/1", 100)
    assert sorted(rig.sequences("orders/0")) == sorted(rig.sequences("orders/1")) == list(range(1, 101))
    assert len(rig.gateway.fetches) == 3


def test_asynchronous_progress_tracking_is_refused(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    writer = rig.load().writeStream.format("noop").option("checkpointLocation", str(rig.checkpoint))
    query = writer.option("asyncProgressTrackingEnabled", "true").start()
    with pytest.raises(StreamingQueryException, match="does not support asyncProgressTrackingEnabled"):
        query.awaitTermination(60)
    assert "Remove the option" in str(query.exception())
    said = [record for record in caplog.records if "asyncProgressTrackingEnabled" in record.getMessage()]
    assert [vars(record)["query"] for record in said] == [query.id]
    assert rig.gateway.attached == rig.gateway.plans == rig.gateway.fetches == []
    # The session still watches its queries.
    rig.start()
    rig.wait_until_committed("orders/0", 5)


def test_stopping_takes_leave_with_what_the_commit_log_proves(rig: Rig) -> None:
    """The query is stopped inside its batch's last step, so that no later poll can prove the commit."""
    rig.gateway.append("orders/0", messages(1, 5))
    query = rig.start({"processingTime": "1 hour"})
    rig.gateway.wait_until(lambda: (rig.checkpoint / "commits" / "0").exists(), "batch 0 is committed")
    assert rig.gateway.committed("orders/0") == -1
    query.stop()
    rig.wait_until_committed("orders/0", 5)
    # The planner's leave-taking proves nothing, and Spark may end its process before it has come to it.
    assert {d.pipeline.run for d in rig.gateway.detached} == {rig.gateway.attached[0].pipeline.run}
    assert [len(d.committed) for d in rig.gateway.detached if d.committed] == [1]


def test_a_query_is_stopped_while_the_gateway_is_away(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    query = rig.start()
    rig.wait_until_committed("orders/0", 5)
    rig.gateway.stop()
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    stopping.join(120)
    assert not stopping.is_alive()


def test_the_token_is_not_shown(rig: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    query = rig.start()
    rig.wait_until_committed("orders/0", 5)
    query.explain(True)
    rig.load().explain(True)
    progress = query.lastProgress
    assert progress is not None
    offsets = "".join(path.read_text() for path in (rig.checkpoint / "offsets").iterdir() if not path.name.startswith("."))
    shown = "".join(capfd.readouterr()) + str(progress) + offsets + rig.load()._jdf.queryExecution().toString()
    assert "headrace" in shown
    assert TOKEN not in shown


@pytest.mark.parametrize("how", ["removed", "emptied", "begun again by its last run"])
def test_a_query_that_a_supervisor_starts_again_does_not_begin_anew_in_place_of_a_checkpoint_that_is_gone(
    rig: Rig, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    rig.start(pipeline="prices")
    rig.wait_until_committed("orders/0", 5)
    rig.queries[-1].stop()
    monkeypatch.setenv(CONTINUES, "totals,prices")
    moved = rig.checkpoint.rename(rig.checkpoint.with_name("moved"))
    if how == "emptied":
        rig.checkpoint.mkdir()
    if how == "begun again by its last run":
        shutil.copytree(moved / "headrace" / "runs", rig.checkpoint / "headrace" / "runs")
    rig.batches.clear()
    query = rig.start(pipeline="prices")
    with pytest.raises(StreamingQueryException, match="is empty, although prices has used it since its deployment was started"):
        query.awaitTermination(DEADLINE_S)
    assert rig.batches == {}
    rig.queries.clear()
    shutil.rmtree(rig.checkpoint)
    moved.rename(rig.checkpoint)
    rig.gateway.append("orders/0", messages(6, 7))
    rig.start(pipeline="prices")
    rig.wait_until_committed("orders/0", 7)
    assert rig.sequences("orders/0") == [6, 7]

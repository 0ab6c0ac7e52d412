"""What a driver tells the gateway of its micro-batches: their numbers, and to a new gateway what the checkpoint has of others."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from pyspark.sql import SparkSession
from tests.engine.frames import Message
from tests.engine.real_sinks import RealSinks
from tests.engine.test_queries import Rig, new_rig

from headrace.engine.source.options import Options
from headrace.engine.spark.batches import REFUSED_FOR_S, BatchedRun
from headrace.gateway_status import TimelineDocument, timeline_document
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc


@pytest.fixture
def rig(spark: SparkSession, tmp_path: Path) -> Iterator[Rig]:
    with new_rig(spark, tmp_path) as rig:
        yield rig


def messages(first: int, last: int) -> list[Message]:
    return [Message(i, b"value-%d" % i) for i in range(first, last + 1)]


def test_a_query_without_a_headrace_sink_tells_the_numbers_of_its_micro_batches(rig: Rig) -> None:
    rig.gateway.append("orders/0", messages(1, 5))
    rig.start()
    rig.wait_until_committed("orders/0", 5)
    rig.gateway.append("orders/1", messages(1, 3))
    rig.wait_until_committed("orders/1", 3)
    rig.gateway.wait_until(lambda: len(rig.gateway.reported) == 2, "both micro-batches are reported")
    run = rig.gateway.attached[-1].pipeline
    first, second = rig.gateway.reported
    for report in (first, second):
        assert (report.pipeline, report.checkpoint) == (run.name, run.checkpoint)
        assert report.run_number == 1
        assert report.run
        assert not report.history
    (batch,) = first.batches
    assert (batch.batch, batch.streams, [(r.stream, r.HasField("after"), r.end.sequence) for r in batch.ranges]) == (
        0,
        1,
        [("orders/0", False, 5)],
    )
    assert batch.committed_ms
    (batch,) = second.batches
    assert (batch.batch, [(r.stream, r.end.sequence) for r in batch.ranges]) == (1, [("orders/1", 3)])


def test_a_driver_sends_the_heartbeats_that_its_query_names_before_its_first_micro_batch(rig: Rig) -> None:
    query = rig.start()
    rig.gateway.wait_until(lambda: len(rig.gateway.attached) == 1 and len(rig.gateway.heartbeats) >= 2, "heartbeats")
    driver = rig.gateway.attached[-1].pipeline.driver
    assert driver
    assert {beat.driver for beat in rig.gateway.heartbeats} == {driver}
    query.stop()
    rig.gateway.append("orders/0", messages(1, 5))
    rig.start()
    rig.wait_until_committed("orders/0", 5)
    assert {call.pipeline.driver for call in (*rig.gateway.attached, *rig.gateway.plans, *rig.gateway.fetches)} == {driver}


def test_a_gateway_that_asks_gets_what_the_checkpoint_has(rig: Rig) -> None:
    for first, last in ((1, 5), (6, 9)):
        rig.gateway.append("orders/0", messages(first, last))
        query = rig.start()
        rig.wait_until_committed("orders/0", last)
        query.stop()
    rig.gateway.wait_until(lambda: len(rig.gateway.reported) == 2, "both micro-batches are reported")
    rig.gateway.wants_history = True
    rig.gateway.append("orders/0", messages(10, 12))
    rig.start()
    rig.gateway.wait_until(lambda: rig.gateway.reported[-1].history, "the history is reported")
    batches = rig.gateway.reported[-1].batches
    assert [(b.batch, [(r.after.sequence, r.end.sequence) for r in b.ranges]) for b in batches] == [
        (0, [(0, 5)]),
        (1, [(5, 9)]),
        (2, [(9, 12)]),
    ]
    for batch in batches:
        for log, told in (("offsets", batch.planned_ms), ("commits", batch.committed_ms)):
            written = (rig.checkpoint / log / str(batch.batch)).stat().st_mtime
            assert abs(told / 1000 - written) < 1


@pytest.mark.parametrize("code", [grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE])
def test_a_gateway_that_does_not_note_them_changes_nothing(code: grpc.StatusCode, rig: Rig) -> None:
    rig.gateway.refuses_batches = code
    rig.gateway.append("orders/0", messages(1, 5))
    query = rig.start()
    rig.gateway.wait_until(lambda: len(rig.gateway.reported) == 1, "the micro-batch is reported")
    rig.gateway.append("orders/0", messages(6, 7))
    rig.wait_until_committed("orders/0", 7)
    # A gateway that is upgraded or restarted may note the next one; only another run takes over for ever.
    is_asked_again = code is not grpc.StatusCode.ABORTED
    if is_asked_again:
        rig.gateway.wait_until(lambda: len(rig.gateway.reported) == 2, "the next one is reported")
    query.stop()
    assert rig.sequences("orders/0") == [1, 2, 3, 4, 5, 6, 7]
    assert len(rig.gateway.reported) == (2 if is_asked_again else 1)


def test_a_run_that_may_not_report_asks_again_after_a_minute_and_one_that_was_replaced_never() -> None:
    now = 0.0
    run = BatchedRun(Options.__new__(Options), lambda pipeline, most: [], lambda: now)
    for code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAUTHENTICATED):
        run.note_refusal(code)
        assert not run.is_refused
    run.note_refusal(grpc.StatusCode.PERMISSION_DENIED)
    assert run.is_refused
    now = REFUSED_FOR_S
    assert not run.is_refused
    run.note_refusal(grpc.StatusCode.ABORTED)
    now = 1e12
    assert run.is_refused


def test_the_timeline_has_the_numbers_of_the_checkpoint_also_after_the_gateway_was_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    rig = RealSinks(spark, tmp_path)
    try:
        rig.sink("out").start()
        rig.append("a", "b")
        query = rig.start("out")
        pipeline: list[str] = []

        def batches() -> TimelineDocument:
            pipeline[:] = [p.pipeline for p in rig.status().pipelines] or pipeline
            stub = admin_pb2_grpc.AdminServiceStub(rig._channel)
            request = admin_pb2.ListBatchesRequest(pipeline=pipeline[0])
            return timeline_document(stub.ListBatches(request, timeout=300, wait_for_ready=True))

        def numbers() -> list[int | None]:
            return [batch["batch"] for batch in batches()["batches"]]

        rig.wait_until("the first lines are visible", lambda: rig.visible("out") == ["a", "b"])
        rig.append("c")
        rig.wait_until("the next line is visible", lambda: rig.visible("out") == ["a", "b", "c"])
        rig.wait_until("both have numbers", lambda: [n for n in numbers() if n is not None][:1] >= [1])
        known = numbers()
        rig.gateway.kill()
        rig.gateway.start()
        rig.append("d")
        rig.wait_until("another line is visible", lambda: rig.visible("out") == ["a", "b", "c", "d"])
        folder = tmp_path / "out-query" / "commits"

        def committed() -> list[int]:
            return sorted((int(path.name) for path in folder.glob("[0-9]*")), reverse=True)

        rig.wait_until("what the checkpoint has is listed", lambda: set(known) - {None} <= set(numbers()))
        found = batches()["batches"]
        query.stop()
        assert [batch["batch"] for batch in found] == sorted((b["batch"] for b in found if b["batch"] is not None), reverse=True)
        assert {batch["batch"] for batch in found} <= set(committed())
        rebuilt = [batch for batch in found if batch["rebuilt"]]
        assert rebuilt
        assert all({"planned", "committed"} <= batch["stages"].keys() for batch in rebuilt[1:])
    finally:
        rig.close()

"""A driver that is frozen while its sink votes, and wakes after another one has continued its query; real drivers of Spark."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from pyspark.sql import SparkSession
from tests.engine.frames import Message
from tests.fake_gateway.engine_sinks import FakeSinkGateway

from headrace.protocol.v1 import engine_pb2 as pb

DEADLINE_S = 300.0
JOB = """
import sys
from headrace.engine import build_session

gateway, checkpoint = sys.argv[1:]
spark = build_session("job", "local[1]")
orders = spark.readStream.format("headrace").option("gateway", gateway).option("stream", "orders/*").load()
writer = orders.writeStream.format("headrace").option("gateway", gateway).option("sink", "alerts")
writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
"""

pytestmark = pytest.mark.timeout(900)


class HeldVote(FakeSinkGateway):
    """A gateway that keeps the answer to the vote of run 1."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def Vote(self, request: pb.VoteRequest, context: grpc.ServicerContext) -> pb.VoteResponse:
        response = super().Vote(request, context)
        if request.run_number == 1:
            self.is_asked.set()
            assert self.may_answer.wait(DEADLINE_S)
        return response


@pytest.fixture
def gateway() -> Iterator[HeldVote]:
    gateway = HeldVote()
    gateway.start()
    yield gateway
    gateway.may_answer.set()
    gateway.stop()


def test_a_driver_that_was_frozen_at_its_vote_writes_no_entry_once_another_has_started(
    spark: SparkSession, gateway: HeldVote, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    gateway.append("orders/0", [Message(i, b"%d" % i) for i in range(1, 6)])
    command = [sys.executable, "-c", JOB, gateway.address, str(checkpoint)]
    frozen = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert gateway.is_asked.wait(DEADLINE_S)
        os.killpg(frozen.pid, signal.SIGSTOP)
        source = {"gateway": gateway.address, "stream": "orders/*"}
        orders = spark.readStream.format("headrace").options(**source).load()
        writer = orders.writeStream.format("headrace").options(gateway=gateway.address, sink="alerts")
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(DEADLINE_S)
        entry = (checkpoint / "commits" / "0").read_text()
        assert json.loads(entry.splitlines()[2])["headraceRun"] == str(query.runId)
        gateway.append("orders/0", [Message(i, b"%d" % i) for i in range(6, 9)])
        gateway.may_answer.set()
        os.killpg(frozen.pid, signal.SIGCONT)
        _, said = frozen.communicate(timeout=DEADLINE_S)
        assert frozen.returncode != 0
        assert "another driver has started this query on the same checkpoint, as run 2" in said
    finally:
        if frozen.poll() is None:
            os.killpg(frozen.pid, signal.SIGKILL)
            frozen.communicate()
    names = sorted(path.name for path in (checkpoint / "commits").iterdir() if not path.name.startswith("."))
    assert (names, (checkpoint / "commits" / "0").read_text()) == (["0"], entry)
    assert not (checkpoint / "offsets" / "1").exists()
    # The replaced run reports, too, that another one has started.
    told = [report for report in gateway.commit_reports if report.run == str(query.runId)][-1]
    assert [(s.run, s.first_batch, s.last_batch) for s in told.segments] == [(str(query.runId), 0, 0)]

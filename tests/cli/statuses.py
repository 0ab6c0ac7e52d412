"""A gateway that answers what a test tells it to."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceServicer, add_AdminServiceServicer_to_server
from headrace.protocol.v1.connector_pb2 import CONNECTOR_STATE_DEGRADED, CONNECTOR_STATE_RUNNING, ConnectorError, Sdk
from headrace.protocol.v1.frame_pb2 import Position, StreamPosition
from headrace.protocol.v1.metrics_pb2 import MetricSeries, RunMetrics, StepMetrics
from headrace.protocol.v1.sink_pb2 import SINK_MODE_TWO_PHASE, Transaction

BUSY = pb.GetStatusResponse(
    problems=[
        pb.Problem(
            part="sink alerts",
            kind="sink-lost",
            cause="instance alerts-a voted for batch 7 of pipeline 77aa, and has come back without it",
            root="sink alerts",
            age_ms=185_000,
            remedy="restore its storage and restart the connector, or restart the query with onSinkLoss=accept",
        ),
        pb.Problem(
            part="pipeline 77aa",
            kind="sink-lost",
            cause="instance alerts-a voted for batch 7 of pipeline 77aa, and has come back without it",
            root="sink alerts",
            age_ms=185_000,
            remedy="restore its storage and restart the connector, or restart the query with onSinkLoss=accept",
        ),
        pb.Problem(
            part="pipeline billing", kind="pipeline-away", cause="it\x1b[2J has\nended", root="pipeline billing", age_ms=65_000
        ),
    ],
    problems_in_all=3,
    gateway=pb.GatewayStatus(
        version="0.1.0",
        uptime_ms=4_205_000,
        buffered_bytes=3_670_016,
        buffer_limit_bytes=134_217_728,
        draining=True,
        rejected_sessions={"RESOURCE_EXHAUSTED": 2, "INVALID_ARGUMENT": 1},
    ),
    streams=[
        pb.StreamStatus(
            state_age_ms=61_000,
            readers=2,
            last_instance="file-1",
            stream="orders/0",
            condition=pb.CONDITION_FLOWS,
            state=pb.STREAM_STATE_LIVE,
            instance="file-1",
            replayable=True,
            received=Position(epoch=0, sequence=9_007_199_254_740_993, cursor=b"120"),
            acknowledged=Position(epoch=0, sequence=100),
            received_messages=1_234_567,
            acknowledged_messages=1_200_000,
            duplicate_messages=12,
            losses=1,
            lag_messages=34_567,
            lag_bytes=2_108_587,
            oldest_unacknowledged_ms=140,
            error=pb.PartError(message="read of segment 4 failed", age_ms=2_000, at_ms=1_795_000_000_000),
            holders=[
                pb.AcknowledgementHolder(
                    pipeline="market",
                    state=pb.PIPELINE_STATE_ATTACHED,
                    committed=Position(epoch=0, sequence=100),
                    held_ms=140,
                ),
                pb.AcknowledgementHolder(pipeline="billing", state=pb.PIPELINE_STATE_AWAY, held_ms=125_000),
            ],
        ),
        pb.StreamStatus(
            stream="trades/eu",
            condition=pb.CONDITION_TROUBLE,
            state=pb.STREAM_STATE_PARKED,
            detail="waits for a pipeline that reads it",
        ),
    ],
    sessions=[
        pb.SessionStatus(
            session="s-1",
            condition=pb.CONDITION_TROUBLE,
            connector="file",
            connector_version="0.1.0",
            instance="file-1",
            peer="127.0.0.1:40000",
            age_ms=65_000,
            streams=1,
            credit_bytes=8_388_608,
            credit_messages=3_965_433,
            outstanding_bytes=2_108_587,
            outstanding_messages=34_567,
            linger_ms=5,
            reported=pb.ReportedStatus(
                sdk=Sdk(name="headrace-python", version="0.1.0", language="python"),
                state=CONNECTOR_STATE_DEGRADED,
                state_age_ms=12_000,
                reason="the broker refuses half of the reads",
                errors=[
                    ConnectorError(message="timed out", age_ms=30_000),
                    ConnectorError(message="read of segment 4 failed", age_ms=2_000, stream="orders/0"),
                ],
            ),
        ),
        pb.SessionStatus(
            session="s-2",
            connector="older",
            instance="older-1",
            peer="127.0.0.1:40001",
            age_ms=1_000,
            condition=pb.CONDITION_IDLE,
        ),
    ],
    pipelines=[
        pb.PipelineStatus(
            batch_ms=1_500,
            pipeline="market",
            condition=pb.CONDITION_FLOWS,
            run=1_795_000_000_000_000_123,
            attached=True,
            state=pb.PIPELINE_STATE_ATTACHED,
            patterns=["orders/*"],
            committed=[
                StreamPosition(stream="orders/0", position=Position(epoch=0, sequence=100, cursor=b"\x00\xff")),
                StreamPosition(stream="orders/1"),
            ],
            idle_ms=9,
            lag_messages=34_567,
            lag_bytes=2_108_587,
            metrics=RunMetrics(
                steps=[StepMetrics(step="price", received=900, sent=890, failed=10, late=3, keys=350, time_us=61_500)],
                series=[
                    MetricSeries(metric="rejected", value="stock", count=3),
                    MetricSeries(metric="amounts", count=4, sum=10.5, bounds=[1, 5], buckets=[1, 3]),
                ],
            ),
        ),
        pb.PipelineStatus(
            pipeline="archive", patterns=["orders/*"], condition=pb.CONDITION_DETACHED, state=pb.PIPELINE_STATE_AWAITED
        ),
        pb.PipelineStatus(
            pipeline="billing",
            patterns=["orders/*"],
            condition=pb.CONDITION_TROUBLE,
            run=7,
            state=pb.PIPELINE_STATE_AWAY,
            away_ms=65_000,
        ),
    ],
    sinks=[
        pb.SinkStatus(
            writers=["totals"],
            failure="instance out-1: disk full",
            failure_age_ms=2_000,
            error=pb.PartError(message="instance out-1: disk full", age_ms=2_000, at_ms=1_795_000_000_000),
            sink="alerts",
            condition=pb.CONDITION_TROUBLE,
            mode=SINK_MODE_TWO_PHASE,
            instances=["alerts-a"],
            away=["alerts-b"],
            open_parts=1,
            pending_transactions=2,
            staged_messages=1_234_567,
            refused_messages=3,
            dead_letters=2,
            committed=[Transaction(pipeline="f3b5", batch=41)],
            lost=[pb.LostVote(instance="alerts-a", transaction=Transaction(pipeline="77aa", batch=7))],
            losses=2,
            outstanding="instance alerts-a has not staged a part of batch 42",
            outstanding_ms=700,
        ),
        pb.SinkStatus(sink="errors", absent_ms=4_000, condition=pb.CONDITION_TROUBLE),
    ],
    sink_sessions=[
        pb.SinkSessionStatus(
            session="k-1",
            condition=pb.CONDITION_WAITS,
            sink="alerts",
            connector="alerts",
            connector_version="2",
            instance="alerts-a",
            peer="127.0.0.1:40002",
            age_ms=65_000,
            reported=pb.ReportedStatus(
                sdk=Sdk(name="headrace-go", version="0.2.0", language="go"),
                state=CONNECTOR_STATE_RUNNING,
                state_age_ms=64_000,
            ),
        )
    ],
)


class _Canned(AdminServiceServicer):
    """Answers with one status, and knows one pipeline."""

    def __init__(self, status: pb.GetStatusResponse) -> None:
        self._status = status

    def GetStatus(self, request: pb.GetStatusRequest, context: grpc.ServicerContext) -> pb.GetStatusResponse:
        return self._status

    def ForgetPipeline(self, request: pb.ForgetPipelineRequest, context: grpc.ServicerContext) -> pb.ForgetPipelineResponse:
        if request.pipeline == "market" and not request.force:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "pipeline 'market' is attached; stop its query first")
        return pb.ForgetPipelineResponse()


@contextmanager
def gateway_that_says(status: pb.GetStatusResponse) -> Iterator[str]:
    """The address of a gateway with this status."""
    options: list[tuple[str, Any]] = [("grpc.so_reuseport", 0)]
    server = grpc.server(ThreadPoolExecutor(max_workers=2), options=options)
    add_AdminServiceServicer_to_server(_Canned(status), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()

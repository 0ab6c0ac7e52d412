"""Who may not read the status learns no names, and nobody speaks for another's instance."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.gateway.http_server import post, serve_http
from tests.gateway.sink_wire import IDEMPOTENT
from tests.gateway.test_rights import bearer, token
from tests.gateway.wire import DEADLINE_S, REPLAYABLE, positions, serve

from headrace.gateway.config import StreamRule
from headrace.gateway.core import Gateway
from headrace.gateway.rules import CHANGES
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import (
    admin_pb2_grpc,
    connector_pb2,
    engine_pb2,
    engine_pb2_grpc,
    sink_pb2,
    sink_pb2_grpc,
    source_pb2,
    source_pb2_grpc,
)

FOREIGN = (
    "secret-stream",
    "secret-instance",
    "secret-pipeline",
    "secret-sink",
    "secret-deploy",
    "secret-connector",
    "secret-dead",
)
TOKENS = [
    token("owner", sources=["*/*"], sinks=["*"], pipelines=["*"], reads=["*/*"], writes=["*"], supervise=True),
    token("hand", control=True),
    token("operator", control=True, admin=True),
    token("other", sources=["other/*"]),
]
RULES = [StreamRule(pattern="secret-stream/*", pipelines=("secret-pipeline",))]


@pytest.fixture
async def parts() -> AsyncIterator[tuple[Gateway, str]]:
    """A gateway with one part of each kind, none of which may be named to a token that has only the right control."""
    async with serve(rules=RULES, tokens=TOKENS) as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        owner = bearer("owner")
        source = source_pb2_grpc.SourceServiceStub(channel).Ingest(metadata=owner)
        hello = source_pb2.Hello(protocol_version=1, connector="test", instance="secret-instance")
        await source.write(source_pb2.IngestRequest(hello=hello))
        await source.read()
        opened = source_pb2.OpenStream(stream_id=1, stream="secret-stream/0", kind=REPLAYABLE)
        await source.write(source_pb2.IngestRequest(open_stream=opened))
        sink = sink_pb2_grpc.SinkServiceStub(channel).Attach(metadata=owner)
        serving = sink_pb2.SinkHello(
            protocol_version=1, connector="test", sink="secret-sink", instance="secret-of-sink", mode=IDEMPOTENT
        )
        await sink.write(sink_pb2.SinkServiceAttachRequest(hello=serving))
        await sink.read()
        engine = engine_pb2_grpc.EngineServiceStub(channel)
        pipeline = engine_pb2.Pipeline(name="secret-pipeline", run=1, streams=["secret-stream/*"])
        await engine.Attach(engine_pb2.AttachRequest(pipeline=pipeline), metadata=owner, timeout=DEADLINE_S)
        calls = []
        for deployment in ("secret-deploy-1", "secret-deploy-2"):
            supervisor = admin_pb2_grpc.AdminServiceStub(channel).Supervise(metadata=owner)
            connectors = [
                pb.SupervisedConnector(name="secret-connector", instance="secret-instance", replays="secret-dead"),
                pb.SupervisedConnector(name="twice", instance="twice", replays="dead"),
                pb.SupervisedConnector(name=f"once-{deployment}", instance="once", replays=f"once-{deployment}"),
                pb.SupervisedConnector(name=f"both-{deployment}", instance="both", replays=f"once-{deployment}"),
            ]
            listed = pb.SupervisedConnectors(connectors=connectors)
            await supervisor.write(
                pb.SuperviseRequest(hello=pb.SuperviseHello(deployment=deployment, run="r", connectors=listed))
            )
            await supervisor.read()
            calls.append(supervisor)
        yield gateway, address
        for call in (*calls, source, sink):
            call.cancel()


REQUESTS: list[tuple[str, Any]] = [
    *(("Pause", pb.PauseRequest(kind=kind, name="none")) for kind in pb.PartKind.values()),
    *(("Resume", pb.ResumeRequest(kind=kind, name="none")) for kind in pb.PartKind.values()),
    ("Pause", pb.PauseRequest(kind=pb.PART_KIND_CONNECTOR, name="secret-of-sink")),
    ("ForgetStream", pb.ForgetStreamRequest(stream="none/0")),
    ("ForgetStream", pb.ForgetStreamRequest(stream="secret-stream/0")),
    ("ForgetPipeline", pb.ForgetPipelineRequest(pipeline="none")),
    ("ForgetPipeline", pb.ForgetPipelineRequest(pipeline="secret-pipeline")),
    ("ForgetPipeline", pb.ForgetPipelineRequest(pipeline="secret-pipeline", force=True)),
    ("RestartConnector", pb.RestartConnectorRequest(connector="none")),
    ("RestartConnector", pb.RestartConnectorRequest(connector="twice")),
    ("RestartConnector", pb.RestartConnectorRequest(connector="twice", deployment="none")),
    ("RestartConnector", pb.RestartConnectorRequest(connector="none", deployment="secret-deploy-1")),
    ("ReplayDeadLetters", pb.ReplayDeadLettersRequest(sink="none", source="again")),
    ("ReplayDeadLetters", pb.ReplayDeadLettersRequest(sink="dead", source="again")),
    ("ReplayDeadLetters", pb.ReplayDeadLettersRequest(sink="dead", source="again", deployment="secret-deploy-1")),
    ("ReplayDeadLetters", pb.ReplayDeadLettersRequest(sink="once-secret-deploy-1", source="again")),
    ("Reload", pb.ReloadRequest()),
]


async def said(address: str, method: str, request: Any, caller: str) -> str:
    async with grpc.aio.insecure_channel(address) as channel:
        call = getattr(admin_pb2_grpc.AdminServiceStub(channel), method)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await call(request, metadata=bearer(caller), timeout=DEADLINE_S)
        return failed.value.details() or ""


@pytest.mark.parametrize(("method", "request_"), REQUESTS, ids=lambda value: str(value).replace("\n", " "))
async def test_who_may_only_control_learns_no_name(parts: tuple[Gateway, str], method: str, request_: Any) -> None:
    _, address = parts
    text = await said(address, method, request_, "hand")
    asked = str(request_)
    learned = [name for name in FOREIGN if name in text and name not in asked]
    assert not learned, text


async def test_who_may_also_read_the_status_is_told_what_there_is(parts: tuple[Gateway, str]) -> None:
    _, address = parts
    text = await said(address, "ForgetPipeline", pb.ForgetPipelineRequest(pipeline="none"), "operator")
    assert text == "no pipeline 'none'; known: secret-pipeline"
    text = await said(address, "ForgetPipeline", pb.ForgetPipelineRequest(pipeline="none"), "hand")
    assert text == "no pipeline 'none'; known: 1 that only the right admin shows"


async def test_nor_by_http(parts: tuple[Gateway, str]) -> None:
    gateway, _ = parts
    bodies = ({"name": "none"}, {"name": "none/0"}, {"sink": "none", "source": "again"}, {"sink": "dead", "source": "again"})
    async with serve_http(gateway, TOKENS) as http:
        for path, body in itertools.product(CHANGES, bodies):
            if path.endswith("/drain"):
                continue
            _, document = await post(http, path, body, "hand")
            assert not any(name in str(document) for name in FOREIGN), (path, document)


async def test_what_a_connector_says_is_no_cause_of_anothers_problem(parts: tuple[Gateway, str]) -> None:
    _, address = parts
    async with grpc.aio.insecure_channel(address) as channel:
        other = source_pb2_grpc.SourceServiceStub(channel).Ingest(metadata=bearer("other"))
        hello = source_pb2.Hello(protocol_version=1, connector="test", instance="secret-instance")
        await other.write(source_pb2.IngestRequest(hello=hello))
        await other.read()
        error = connector_pb2.ConnectorError(message="forged", stream="secret-stream/0")
        report = connector_pb2.Report(state=connector_pb2.CONNECTOR_STATE_DEGRADED, reason="forged", errors=[error])
        await other.write(source_pb2.IngestRequest(report=report))
        admin = admin_pb2_grpc.AdminServiceStub(channel)
        async with asyncio.timeout(DEADLINE_S):
            while True:
                status = await admin.GetStatus(pb.GetStatusRequest(), metadata=bearer("operator"))
                if any("forged" in problem.cause for problem in status.problems):
                    break
        of_stream = [problem for problem in status.problems if problem.part == "stream secret-stream/0"]
        assert not any("forged" in problem.cause for problem in of_stream)
        other.cancel()


async def test_the_last_words_of_a_connector_are_kept_for_its_own_streams_only() -> None:
    async with serve(tokens=TOKENS) as (gateway, address), grpc.aio.insecure_channel(address) as channel:

        async def session(caller: str) -> Any:
            call = source_pb2_grpc.SourceServiceStub(channel).Ingest(metadata=bearer(caller))
            await call.write(
                source_pb2.IngestRequest(hello=source_pb2.Hello(protocol_version=1, connector="test", instance="orders-0"))
            )
            await call.read()
            return call

        engine = engine_pb2_grpc.EngineServiceStub(channel)
        pipeline = engine_pb2.Pipeline(name="p", run=1, streams=["orders/*"])
        await engine.Attach(
            engine_pb2.AttachRequest(pipeline=pipeline, committed=positions({"orders/0": 5})), metadata=bearer("owner")
        )
        own = await session("owner")
        opened = source_pb2.OpenStream(stream_id=1, stream="orders/0", kind=REPLAYABLE)
        await own.write(source_pb2.IngestRequest(open_stream=opened))
        assert (await own.read()).WhichOneof("message") is not None
        own.cancel()
        while gateway.sessions:
            await gateway.sessions_changed.wait(DEADLINE_S)
        forged = await session("other")
        await forged.write(source_pb2.IngestRequest(goodbye=source_pb2.Goodbye(reason="forged")))
        await forged.done_writing()
        while gateway.sessions:
            await gateway.sessions_changed.wait(DEADLINE_S)
        assert gateway.streams["orders/0"].last_instance == "orders-0"
        assert gateway.streams["orders/0"].last_error == ""

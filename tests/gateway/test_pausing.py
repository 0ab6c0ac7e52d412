"""Pauses of streams, connectors, pipelines and sinks: what stops, what still ends, and what is true afterwards."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from tests.captured_logs import capture_logs
from tests.gateway.http_server import get, post, serve_http
from tests.gateway.sink_wire import sink_and_source
from tests.gateway.test_rights import bearer, token
from tests.gateway.wire import DEADLINE_S, REDELIVERING, Connector, Engine, numbered, serve, values_of

from headrace.gateway import Limits, Paused
from headrace.gateway.core import Gateway
from headrace.gateway.core.control.control import Caller, pause, resume
from headrace.gateway.core.pipelines.pipeline import Pipeline
from headrace.gateway.core.streams.pauses import PartKind
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import source_pb2

OPERATOR = Caller("operator", "here", sees_names=True)
STREAM, CONNECTOR, PIPELINE, SINK = pb.PART_KIND_STREAM, pb.PART_KIND_CONNECTOR, pb.PART_KIND_PIPELINE, pb.PART_KIND_SINK


class Rig:
    """A gateway, a connector with stream orders/0, and a pipeline that reads it."""

    def __init__(self, gateway: Gateway, address: str) -> None:
        self.gateway, self.address = gateway, address
        self.source, self.engine = Connector(address), Engine(address)

    async def begin(self, kind: source_pb2.SourceKind.ValueType | None = None) -> None:
        await self.source.hello()
        await self.engine.attach()
        await self.source.open(**({} if kind is None else {"kind": kind}))
        await self.source.expect("stream_opened")

    async def pause(self, kind: pb.PartKind.ValueType, name: str) -> pb.PauseResponse:
        return await self.engine.admin.Pause(pb.PauseRequest(kind=kind, name=name), timeout=DEADLINE_S)

    async def resume(self, kind: pb.PartKind.ValueType, name: str) -> pb.ResumeResponse:
        return await self.engine.admin.Resume(pb.ResumeRequest(kind=kind, name=name), timeout=DEADLINE_S)

    async def closed(self, stream_id: int = 1) -> None:
        """Waits until the gateway closes the stream, and opens it again."""
        rejected = await self.source.expect("reject")
        assert (rejected.stream_id, rejected.reason) == (stream_id, source_pb2.REJECT_REASON_REOPEN)
        await self.source.open(stream_id=stream_id + 1)

    async def close(self) -> None:
        await self.source.close()
        await self.engine.close()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with serve() as (gateway, address):
        rig = Rig(gateway, address)
        yield rig
        await rig.close()


async def test_a_paused_pipeline_plans_nothing_and_goes_on_where_it_was(rig: Rig) -> None:
    await rig.begin()
    assert (await rig.pause(PIPELINE, "p")).changed
    await rig.source.send(frame=numbered(1, 1, 3))
    await rig.engine.status_once(lambda status: status.gateway.received_messages == 3)
    assert not (await rig.engine.plan(wait_ms=50)).ranges
    assert (await rig.resume(PIPELINE, "p")).changed
    planned = await rig.engine.plan_until("orders/0", 3)
    assert values_of(await rig.engine.fetch("orders/0", None, planned.end)) == [b"1", b"2", b"3"]


async def test_a_plan_that_waits_goes_on_as_soon_as_the_pipeline_is_resumed(rig: Rig) -> None:
    await rig.begin()
    await rig.pause(PIPELINE, "p")
    await rig.source.send(frame=numbered(1, 1, 3))
    waiting = asyncio.create_task(rig.engine.plan(wait_ms=60_000))
    await rig.engine.status_once(lambda status: status.gateway.received_messages == 3)
    await rig.resume(PIPELINE, "p")
    async with asyncio.timeout(DEADLINE_S):
        assert [planned.messages for planned in (await waiting).ranges] == [3]


@pytest.mark.parametrize(("kind", "name"), [(PIPELINE, "p"), (STREAM, "orders/0"), (CONNECTOR, "test-0")])
async def test_a_batch_in_flight_ends_and_is_acknowledged(rig: Rig, kind: pb.PartKind.ValueType, name: str) -> None:
    await rig.begin()
    await rig.source.send(frame=numbered(1, 1, 3))
    planned = await rig.engine.plan_until("orders/0", 3)
    await rig.pause(kind, name)
    assert values_of(await rig.engine.fetch("orders/0", None, planned.end)) == [b"1", b"2", b"3"]
    assert not (await rig.engine.plan({"orders/0": planned.end}, wait_ms=50)).ranges
    acknowledged = await rig.source.expect("ack")
    assert acknowledged.streams[0].position.sequence == 3


@pytest.mark.parametrize("name", ["orders/0", "test-0"])
async def test_a_paused_stream_waits_at_its_source_and_is_resumed_where_it_was(rig: Rig, name: str) -> None:
    kind = STREAM if "/" in name else CONNECTOR
    await rig.begin()
    await rig.source.send(frame=numbered(1, 1, 3))
    await rig.engine.status_once(lambda status: status.gateway.received_messages == 3)
    await rig.pause(kind, name)
    await rig.closed()
    parked = await rig.engine.status_once(lambda status: status.streams[0].state == pb.STREAM_STATE_PARKED)
    assert parked.streams[0].paused.part == f"{'stream' if kind == STREAM else 'connector'} {name}"
    assert not (await rig.engine.plan(wait_ms=50)).ranges
    await rig.resume(kind, name)
    opened = await rig.source.expect("stream_opened")
    assert (opened.stream_id, opened.resume.sequence) == (2, 3)
    await rig.source.send(frame=numbered(2, 4, 2))
    planned = await rig.engine.plan_until("orders/0", 5)
    assert values_of(await rig.engine.fetch("orders/0", None, planned.end)) == [b"%d" % n for n in range(1, 6)]


async def test_frames_in_transit_to_a_paused_stream_are_dropped_and_sent_again(rig: Rig) -> None:
    await rig.begin()
    await rig.pause(STREAM, "orders/0")
    await rig.source.send(frame=numbered(1, 1, 3))
    await rig.closed()
    await rig.resume(STREAM, "orders/0")
    assert not (await rig.source.expect("stream_opened")).HasField("resume")
    await rig.source.send(frame=numbered(2, 1, 3))
    planned = await rig.engine.plan_until("orders/0", 3)
    assert planned.messages == 3


async def test_what_is_held_of_a_paused_stream_does_not_take_the_credit_of_others(rig: Rig) -> None:
    await rig.begin()
    await rig.source.send(frame=numbered(1, 1, 100))
    await rig.engine.status_once(lambda status: status.sessions[0].outstanding_messages == 100)
    await rig.pause(STREAM, "orders/0")
    await rig.closed()
    status = await rig.engine.status_once(lambda status: status.sessions[0].outstanding_messages == 0)
    assert status.gateway.buffered_messages == 100
    await rig.resume(STREAM, "orders/0")
    await rig.source.expect("stream_opened")
    planned = await rig.engine.plan_until("orders/0", 100)
    await rig.engine.plan({"orders/0": planned.end}, wait_ms=50)
    assert (await rig.engine.status()).gateway.buffered_messages == 0
    assert rig.gateway.credit.held_back.bytes_held == 0


async def test_other_streams_of_a_connector_are_read_while_one_is_paused(rig: Rig) -> None:
    await rig.begin()
    await rig.source.open("orders/1", 7)
    await rig.source.expect("stream_opened")
    await rig.pause(STREAM, "orders/0")
    await rig.closed()
    await rig.source.send(frame=numbered(7, 1, 3))
    await rig.engine.plan_until("orders/1", 3)


async def test_a_connector_stays_paused_when_it_connects_again(rig: Rig) -> None:
    await rig.begin()
    await rig.pause(CONNECTOR, "test-0")
    again = Connector(rig.address)
    await again.hello()
    await again.open("orders/5", 1)
    status = await rig.engine.status_once(lambda status: any(s.stream == "orders/5" for s in status.streams))
    (stream,) = [s for s in status.streams if s.stream == "orders/5"]
    assert (stream.state, stream.paused.part) == (pb.STREAM_STATE_PARKED, "connector test-0")
    await again.close()


async def test_a_paused_stream_is_opened_for_a_batch_in_flight_that_needs_it(rig: Rig) -> None:
    """The query is run again after the gateway has lost what it held."""
    await rig.source.hello()
    rig.gateway.pauses.begin(PartKind.STREAM, "orders/0", "operator")
    await rig.engine.attach(planned={"orders/0": 3})
    await rig.source.open()
    await rig.source.expect("stream_opened")
    await rig.source.send(frame=numbered(1, 1, 5))
    assert values_of(await rig.engine.fetch("orders/0", None, 3))[:3] == [b"1", b"2", b"3"]
    assert not (await rig.engine.plan({"orders/0": 3}, wait_ms=50)).ranges
    assert (await rig.source.expect("ack")).streams[0].position.sequence == 3
    await rig.closed()


async def test_a_redelivering_stream_stays_open_and_is_not_read(rig: Rig) -> None:
    await rig.begin(REDELIVERING)
    await rig.pause(STREAM, "orders/0")
    await rig.source.send(frame=numbered(1, 1, 3))
    await rig.engine.status_once(lambda status: status.gateway.received_messages == 3)
    assert not (await rig.engine.plan(wait_ms=50)).ranges
    await rig.resume(STREAM, "orders/0")
    assert (await rig.engine.plan()).ranges[0].messages == 3


async def test_a_run_that_reads_what_there_is_does_not_end_while_it_is_paused(rig: Rig) -> None:
    await rig.begin()
    await rig.source.send(backlog=source_pb2.Backlog(stream_id=1, latest_sequence=3))
    await rig.source.send(frame=numbered(1, 1, 3))
    await rig.engine.status_once(lambda status: status.gateway.received_messages == 3)
    await rig.engine.attach(available_now=True)
    for kind, name in ((PIPELINE, "p"), (STREAM, "orders/0")):
        await rig.pause(kind, name)
        response = await rig.engine.plan(wait_ms=50)
        assert (list(response.ranges), response.exhausted) == ([], False)
        await rig.resume(kind, name)


async def test_a_paused_sink_keeps_its_writers_from_planning_and_lets_the_batch_in_flight_end() -> None:
    async with serve() as (_, address), sink_and_source(address) as (sink, writer, source, reader):
        await source.send(frame=numbered(1, 1, 3))
        planned = await reader.plan_until("orders/0", 3)
        await reader.admin.Pause(pb.PauseRequest(kind=SINK, name="out"), timeout=DEADLINE_S)
        delivery = writer.deliver(0)
        await sink.take_part()
        await delivery
        vote = writer.vote(0)
        await sink.vote()
        await vote
        await writer.report_commits(0)
        await sink.commit()
        await source.send(frame=numbered(1, 4, 3))
        await reader.status_once(lambda status: status.gateway.received_messages == 6)
        response = await reader.plan({"orders/0": planned.end}, wait_ms=50)
        assert (list(response.ranges), list(response.sinks_away)) == ([], [])
        await reader.admin.Resume(pb.ResumeRequest(kind=SINK, name="out"), timeout=DEADLINE_S)
        await reader.plan_until("orders/0", 6)


async def test_a_second_pause_and_a_second_resume_change_nothing(rig: Rig) -> None:
    await rig.begin()
    first = await rig.pause(PIPELINE, "p")
    second = await rig.pause(PIPELINE, "p")
    assert (first.changed, second.changed) == (True, False)
    assert (second.pause.part, second.pause.by) == ("pipeline p", "anybody")
    assert (await rig.resume(PIPELINE, "p")).changed
    assert not (await rig.resume(PIPELINE, "p")).changed


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (PIPELINE, "other", grpc.StatusCode.NOT_FOUND),
        (STREAM, "orders/9", grpc.StatusCode.NOT_FOUND),
        (CONNECTOR, "other", grpc.StatusCode.NOT_FOUND),
        (SINK, "other", grpc.StatusCode.NOT_FOUND),
        (pb.PART_KIND_UNSPECIFIED, "p", grpc.StatusCode.INVALID_ARGUMENT),
        (99, "p", grpc.StatusCode.INVALID_ARGUMENT),
        (PIPELINE, "", grpc.StatusCode.INVALID_ARGUMENT),
        (PIPELINE, "x" * 100_000, grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_what_the_gateway_does_not_know_is_neither_paused_nor_resumed(
    rig: Rig, kind: Any, name: str, code: grpc.StatusCode
) -> None:
    await rig.begin()
    for call in (rig.pause, rig.resume):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(kind, name)
        assert refused.value.code() is code


async def test_who_may_not_change_anything_pauses_nothing() -> None:
    async with serve(tokens=(token("reader", admin=True),)) as (_, address):
        engine = Engine(address)
        request = pb.PauseRequest(kind=PIPELINE, name="p")
        for caller, code in (("reader", grpc.StatusCode.PERMISSION_DENIED), ("late", grpc.StatusCode.UNAUTHENTICATED)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await engine.admin.Pause(request, metadata=bearer(caller), timeout=DEADLINE_S)
            assert refused.value.code() is code
        await engine.close()


async def test_what_the_configuration_pauses_is_paused_from_the_beginning_and_not_resumed_by_a_command() -> None:
    gateway = Gateway(Limits(), paused=Paused(streams=("orders/*",), pipelines=("p",)))
    gateway.pipelines["p"] = Pipeline("p")
    stream = gateway.stream("orders/0")
    assert stream.pause is not None
    assert stream.pause.by == "the configuration"
    assert gateway.stream("returns/0").pause is None
    for kind, name in ((PartKind.STREAM, "orders/0"), (PartKind.PIPELINE, "p")):
        assert not pause(gateway, OPERATOR, kind, name)[1]
        with pytest.raises(Exception, match="paused by the configuration"):
            resume(gateway, OPERATOR, kind, name)


async def test_a_stream_is_not_resumed_while_its_connector_is_paused(rig: Rig) -> None:
    await rig.begin()
    await rig.pause(CONNECTOR, "test-0")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await rig.resume(STREAM, "orders/0")
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "connector test-0" in (refused.value.details() or "")


def test_each_change_is_logged_with_who_requested_it() -> None:
    gateway = Gateway(Limits())
    gateway.stream("orders/0")
    with capture_logs() as logs:
        pause(gateway, OPERATOR, PartKind.STREAM, "orders/0")
        resume(gateway, OPERATOR, PartKind.STREAM, "orders/0")
        with pytest.raises(Exception, match="no stream 'orders/1'"):
            pause(gateway, OPERATOR, PartKind.STREAM, "orders/1")
    told = [(entry["event"], entry["action"], entry["part"], entry["by"], entry["peer"]) for entry in logs]
    assert told == [
        ("change made", "pause", "stream orders/0", "operator", "here"),
        ("change made", "resume", "stream orders/0", "operator", "here"),
        ("change refused", "pause", "stream orders/1", "operator", "here"),
    ]


async def test_health_names_a_pause_and_is_ready(rig: Rig) -> None:
    await rig.begin()
    async with serve_http(rig.gateway) as http:
        assert (await post(http, "/api/v1/pipelines/pause", {"name": "p"}))[1]["changed"]
        _, pipeline = await get(http, "/api/v1/pipelines/p")
        assert (pipeline["paused"]["part"], pipeline["paused"]["by"]) == ("pipeline p", "anybody")
        code, ready = await get(http, "/readyz")
        assert (code, ready["status"]) == (200, "ready")
        (problem,) = ready["problems"]
        assert (problem["part"], problem["kind"], problem["cause"]) == ("pipeline p", "paused", "paused by anybody")
        assert problem["remedy"] == "run: headrace resume pipeline p"
        assert (await post(http, "/api/v1/pipelines/resume", {"name": "p"}))[1] == {"changed": True}
        assert (await post(http, "/api/v1/connectors/pause", {"name": "test-0"}))[0] == 200


async def test_a_stream_whose_source_is_gone_for_good_is_forgotten(rig: Rig) -> None:
    await rig.begin()

    async def forget() -> bool:
        request = pb.ForgetStreamRequest(stream="orders/0")
        return (await rig.engine.admin.ForgetStream(request, timeout=DEADLINE_S)).forgotten

    await rig.source.send(frame=numbered(1, 1, 3))
    planned = await rig.engine.plan_until("orders/0", 3)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await forget()
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    await rig.source.close()
    await rig.engine.status_once(lambda status: not status.sessions)
    assert not await forget()
    assert not await forget()
    response = await rig.engine.plan({"orders/0": planned.end}, wait_ms=50)
    assert not response.ranges
    with_another = Connector(rig.address)
    await with_another.hello("test-1")
    await with_another.open("orders/1")
    await with_another.expect("stream_opened")
    await with_another.send(frame=numbered(1, 1, 1))
    response = await rig.engine.plan({"orders/0": planned.end})
    assert list(response.forgotten) == ["orders/0"]
    await with_another.close()

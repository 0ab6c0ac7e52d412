"""Who may call what: every method with every right, and every name in every call."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor import MethodDescriptor
from tests.gateway.sink_wire import IDEMPOTENT, SinkClient, part, transaction
from tests.gateway.wire import DEADLINE_S, REPLAYABLE, Connector, Engine, frame, numbered, positions, serve, values_of

from headrace.gateway import Http, Token
from headrace.gateway.rules import RULES, Right
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc, engine_pb2, engine_pb2_grpc, sink_pb2, source_pb2

SERVICES = [
    module.DESCRIPTOR.services_by_name[name]
    for module, name in (
        (source_pb2, "SourceService"),
        (sink_pb2, "SinkService"),
        (engine_pb2, "EngineService"),
        (admin_pb2, "AdminService"),
    )
]
METHODS = {f"/{service.full_name}/{method.name}": method for service in SERVICES for method in service.methods}
ALL_NAMES: dict[str, Any] = {
    "sources": ("*/*",),
    "sinks": ("*",),
    "pipelines": ("*",),
    "reads": ("*/*",),
    "writes": ("*",),
    "admin": True,
    "control": True,
    "peek": ("*/*", "*"),
    "supervise": True,
}
NEEDED = {
    "SourceService/Ingest": {"sources"},
    "SinkService/Attach": {"sinks"},
    "EngineService/Attach": {"pipelines", "reads"},
    "EngineService/Renew": {"pipelines", "reads"},
    "EngineService/Plan": {"pipelines", "reads"},
    "EngineService/AwaitSinks": {"pipelines", "reads"},
    "EngineService/Fetch": {"pipelines", "reads"},
    "EngineService/Follow": {"pipelines", "reads"},
    "EngineService/ReportBatches": {"pipelines", "reads"},
    "EngineService/Heartbeat": {"pipelines", "reads"},
    "EngineService/Detach": {"pipelines", "reads"},
    "EngineService/Deliver": {"pipelines", "writes"},
    "EngineService/DeliverAtOnce": {"pipelines", "writes"},
    "EngineService/Vote": {"pipelines", "writes"},
    "EngineService/ReportCommits": {"pipelines", "writes"},
    "AdminService/GetStatus": {"admin"},
    "AdminService/ListBatches": {"admin"},
    "AdminService/ListEvents": {"admin"},
    "AdminService/LocateMessage": {"admin"},
    "AdminService/ForgetPipeline": {"control"},
    "AdminService/ForgetStream": {"control"},
    "AdminService/Pause": {"control"},
    "AdminService/Drain": {"control"},
    "AdminService/Reload": {"control"},
    "AdminService/Resume": {"control"},
    "AdminService/RestartConnector": {"control"},
    "AdminService/ReplayDeadLetters": {"control"},
    "AdminService/ReadLog": {"control"},
    "AdminService/Supervise": {"supervise"},
    "AdminService/Peek": {"peek"},
    "AdminService/ListDeadLetters": {"peek"},
}
"""Which rights each method needs."""


def test_the_page_of_the_gateway_explains_each_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "run" / "gateway.md").read_text()
    items = page.split("### `[[tokens]]`\n")[1].split("\n#")[0]
    assert {right for right in ALL_NAMES if f"\n- `{right}`" not in items} == set()
    assert set().union(*NEEDED.values()) <= set(ALL_NAMES)


def token(name: str, **rights: Any) -> Token:
    return Token(name=name, sha256=(hashlib.sha256(name.encode()).hexdigest(),), **rights)


def bearer(name: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {name}"),)


@asynccontextmanager
async def calling(*tokens: Token) -> AsyncIterator[grpc.aio.Channel]:
    async with serve(tokens=tokens) as (_, address), grpc.aio.insecure_channel(address) as channel:
        yield channel


async def outcome(channel: grpc.aio.Channel, path: str, method: MethodDescriptor, caller: str) -> grpc.StatusCode:
    """How a method answers an empty request: whoever may call it gets an error about the request, not about rights."""
    kind = ("stream" if method.client_streaming else "unary") + "_" + ("stream" if method.server_streaming else "unary")
    call = getattr(channel, kind)(path, request_serializer=bytes, response_deserializer=bytes)
    request = iter([b""]) if method.client_streaming else b""
    made = call(request, metadata=bearer(caller), timeout=DEADLINE_S)
    if method.server_streaming:
        # gRPC knows the status only once the responses are read.
        with suppress(grpc.aio.AioRpcError):
            async for _ in made:
                pass
    code = await made.code()
    if code is grpc.StatusCode.INTERNAL and method.client_streaming:
        # The call was refused before its first request went out, and gRPC reports that in place of the status.
        return await outcome(channel, path, method, caller)
    return code


def test_every_method_has_a_rule_and_every_rule_a_method() -> None:
    assert {path for path in RULES if path.startswith("/headrace.")} == set(METHODS)
    assert {path.removeprefix("/headrace.protocol.v1.") for path in METHODS} == set(NEEDED)


@pytest.mark.parametrize("path", METHODS)
async def test_a_method_needs_its_rights_and_no_others(path: str) -> None:
    needed = NEEDED[path.removeprefix("/headrace.protocol.v1.")]
    without = {f"without-{right.value}": {k: v for k, v in ALL_NAMES.items() if k != right.value} for right in Right}
    only = {f"only-{right.value}": {right.value: ALL_NAMES[right.value]} for right in Right}
    sets = {**without, **only, "nothing": {}, "just-right": {name: ALL_NAMES[name] for name in needed}}
    async with calling(*(token(name, **rights) for name, rights in sets.items())) as channel:
        for caller, rights in sets.items():
            code = await outcome(channel, path, METHODS[path], caller)
            assert (code is grpc.StatusCode.PERMISSION_DENIED) == (not needed <= rights.keys()), (caller, code)


async def test_a_call_that_no_guard_has_seen_may_do_nothing() -> None:
    from headrace.gateway import Limits
    from headrace.gateway.core import Gateway
    from headrace.gateway.observer import Observer
    from headrace.gateway.services import AdminService

    server = grpc.aio.server()
    gateway = Gateway(Limits())
    admin_pb2_grpc.add_AdminServiceServicer_to_server(AdminService(gateway, Observer(gateway, Http())), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = admin_pb2_grpc.AdminServiceStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=DEADLINE_S)
            assert await call.code() is grpc.StatusCode.PERMISSION_DENIED
    finally:
        await server.stop(None)


# Names


PAYROLL = token("payroll", sources=("payroll/*",))
ORDERS = token("orders", pipelines=("orders-*",), reads=("orders/*",))
OPERATOR = token("operator", **ALL_NAMES)


class Caller:
    """Raw engine calls with a token."""

    def __init__(self, channel: grpc.aio.Channel, name: str) -> None:
        self.stub = engine_pb2_grpc.EngineServiceStub(channel)
        self.metadata = bearer(name)

    async def code(self, method: str, request: Any) -> tuple[grpc.StatusCode, str]:
        """How a call ends. Requests of a stream are a list."""
        if isinstance(request, list):
            call = getattr(self.stub, method)(metadata=self.metadata, timeout=DEADLINE_S)
            # Without the rest: gRPC reports what it could no longer send in place of the status. Where even the first request
            # came too late for that, the call is made again.
            try:
                await call.write(request[0])
            except grpc.aio.AioRpcError:
                return await self.code(method, request)
        else:
            call = getattr(self.stub, method)(request, metadata=self.metadata, timeout=DEADLINE_S)
        if method == "Fetch":
            with suppress(grpc.aio.AioRpcError):
                async for _ in call:
                    pass
        return await call.code(), await call.details()


def who(name: str = "orders-1", streams: str = "orders/*") -> engine_pb2.Pipeline:
    return engine_pb2.Pipeline(name=name, run=1, streams=[streams])


def requests_naming(stream: str) -> dict[str, Any]:
    at = positions({stream: 5})
    some_range = engine_pb2.Range(stream=stream, end=at[0].position)
    return {
        "Attach": engine_pb2.AttachRequest(pipeline=who(), committed=at),
        "Plan": engine_pb2.PlanRequest(pipeline=who(), committed=at),
        "Fetch": engine_pb2.FetchRequest(pipeline=who(), ranges=[some_range]),
        "Detach": engine_pb2.DetachRequest(pipeline=who(), committed=at),
    }


async def test_no_call_names_a_stream_that_its_pipeline_does_not_read() -> None:
    async with calling(ORDERS) as channel:
        caller = Caller(channel, "orders")
        assert (await caller.code("Attach", engine_pb2.AttachRequest(pipeline=who())))[0] is grpc.StatusCode.OK
        requests = requests_naming("payroll/0")
        requests["Attach (planned)"] = engine_pb2.AttachRequest(pipeline=who(), planned=positions({"payroll/0": 5}))
        for label, request in requests.items():
            code, details = await caller.code(label.split()[0], request)
            assert code is grpc.StatusCode.PERMISSION_DENIED, label
            assert "payroll/0" in details
            assert "orders/*" in details


async def test_a_pipeline_does_not_read_more_than_its_token() -> None:
    async with calling(ORDERS) as channel:
        caller = Caller(channel, "orders")
        for pipeline in (who(streams="payroll/*"), who(streams="*/*"), who(name="payroll-1")):
            code, _ = await caller.code("Attach", engine_pb2.AttachRequest(pipeline=pipeline))
            assert code is grpc.StatusCode.PERMISSION_DENIED


async def test_positions_in_others_streams_drop_none_of_their_messages() -> None:
    """A pipeline that reads `elsewhere/*` claims a position in `orders/0`."""
    async with serve() as (_, address):
        liar, engine, connector = Engine(address, "liar", streams="elsewhere/*"), Engine(address), Connector(address)
        try:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await liar.attach({"orders/0": 10**9})
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            await connector.hello()
            await engine.attach()
            await connector.send(open_stream=source_pb2.OpenStream(stream_id=1, stream="orders/0", kind=REPLAYABLE))
            opened = await connector.expect("stream_opened")
            assert not opened.HasField("resume")
            await connector.send(frame=numbered(1, 1, 3))
            planned = await engine.plan_until("orders/0", 3)
            assert values_of(await engine.fetch("orders/0", None, planned.end)) == [b"1", b"2", b"3"]
        finally:
            for each in (liar, engine, connector):
                await each.close()


async def test_rows_of_streams_that_a_token_may_not_read_are_not_fetched() -> None:
    payroll_query = token("payroll-query", pipelines=("payroll",), reads=("payroll/*",))
    async with calling(PAYROLL, ORDERS, payroll_query) as channel:
        source = channel.stream_stream(
            "/headrace.protocol.v1.SourceService/Ingest",
            request_serializer=source_pb2.IngestRequest.SerializeToString,
            response_deserializer=source_pb2.IngestResponse.FromString,
        )(metadata=bearer("payroll"))
        hello = source_pb2.Hello(protocol_version=1, connector="test", instance="i")
        await source.write(source_pb2.IngestRequest(hello=hello))
        await source.read()
        wanted = source_pb2.OpenStream(stream_id=1, stream="payroll/0", kind=REPLAYABLE)
        await source.write(source_pb2.IngestRequest(open_stream=wanted))
        permitted = Caller(channel, "payroll-query")
        mine = who("payroll", "payroll/*")
        assert (await permitted.code("Attach", engine_pb2.AttachRequest(pipeline=mine)))[0] is grpc.StatusCode.OK
        opened = await source.read()
        assert opened.WhichOneof("message") == "stream_opened"
        await source.write(source_pb2.IngestRequest(frame=frame(1, 1, [b"salary"])))
        wanted_range = engine_pb2.Range(stream="payroll/0", end=positions({"x": 1})[0].position)
        forged = engine_pb2.FetchRequest(pipeline=who(), ranges=[wanted_range])
        assert (await Caller(channel, "orders").code("Fetch", forged))[0] is grpc.StatusCode.PERMISSION_DENIED
        wider = engine_pb2.FetchRequest(pipeline=who(streams="payroll/*"), ranges=[wanted_range])
        assert (await Caller(channel, "orders").code("Fetch", wider))[0] is grpc.StatusCode.PERMISSION_DENIED
        source.cancel()


# Sinks


def delivery(batch: int, sink: str = "out", query: str = "query", attempt: str = "r1/a") -> list[engine_pb2.DeliverRequest]:
    start = engine_pb2.DeliveryStart(sink=sink, part=part(batch, attempt=attempt, pipeline=query), run_number=1)
    return [
        engine_pb2.DeliverRequest(start=start),
        engine_pb2.DeliverRequest(frame=frame(0, 0, [b"forged"])),
        engine_pb2.DeliverRequest(end=engine_pb2.DeliveryEnd(messages=1)),
    ]


def vote(batch: int, sink: str = "out", query: str = "query") -> engine_pb2.VoteRequest:
    parts = [part(batch, pipeline=query)]
    return engine_pb2.VoteRequest(sink=sink, transaction=transaction(batch, query), parts=parts, run_number=1)


def commit_report(*sinks: str, query: str = "query", run: str = "r1", **more: Any) -> engine_pb2.ReportCommitsRequest:
    return engine_pb2.ReportCommitsRequest(pipeline=query, run=run, run_number=int(run[1:]), sinks=sinks, **more)


WRITERS = (
    token("owner", pipelines=("*",), writes=("out",)),
    token("stranger", pipelines=("*",), writes=("out", "other")),
    token("elsewhere", pipelines=("*",), writes=("other",)),
)


@pytest.mark.parametrize("caller", ["stranger", "elsewhere"])
async def test_a_query_is_used_only_by_the_identity_that_first_used_it(caller: str) -> None:
    async with calling(*WRITERS) as channel:
        code, _ = await Caller(channel, "owner").code("ReportCommits", commit_report("out"))
        assert code is grpc.StatusCode.OK
        sink = "out" if caller == "stranger" else "other"
        other = Caller(channel, caller)
        for method, request in (
            ("Deliver", delivery(0, sink)),
            ("Vote", vote(0, sink)),
            ("ReportCommits", commit_report(sink)),
        ):
            code, details = await other.code(method, request)
            assert code is grpc.StatusCode.PERMISSION_DENIED, (method, details)
            assert "query" in details
        assert (await Caller(channel, "owner").code("ReportCommits", commit_report("out")))[0] is grpc.StatusCode.OK


async def test_a_call_names_only_sinks_and_readers_of_its_token() -> None:
    narrow = token("narrow", pipelines=("mine",), writes=("out",))
    async with calling(narrow) as channel:
        caller = Caller(channel, "narrow")
        for method, request in (
            ("Deliver", delivery(0, "other")),
            ("Vote", vote(0, "other")),
            ("ReportCommits", commit_report("out", "other")),
            ("ReportCommits", commit_report("out", readers=["theirs"])),
        ):
            assert (await caller.code(method, request))[0] is grpc.StatusCode.PERMISSION_DENIED, method
        code, details = await caller.code("ReportCommits", commit_report())
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "sinks" in details


async def test_a_former_sink_that_the_token_may_not_write_to_is_left_out_and_the_others_are_reported() -> None:
    narrow = token("narrow", pipelines=("*",), writes=("out",))
    async with serve(tokens=(narrow, OPERATOR)) as (_, address), grpc.aio.insecure_channel(address) as channel:
        caller = Caller(channel, "narrow")
        assert (await caller.code("ReportCommits", commit_report("out", former_sinks=["theirs"])))[0] is grpc.StatusCode.OK
        status = await admin_pb2_grpc.AdminServiceStub(channel).GetStatus(
            admin_pb2.GetStatusRequest(), metadata=bearer("operator"), timeout=DEADLINE_S
        )
        assert [sink.sink for sink in status.sinks] == ["out"]
        code, _ = await caller.code("ReportCommits", commit_report("out", former_sinks=["ü"]))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        code, _ = await caller.code("ReportCommits", commit_report("out", former_sinks=[f"s{n}" for n in range(10_000)]))
        assert code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)


async def test_a_report_without_sinks_needs_the_right_to_run_its_readers_and_claims_no_query_without_any() -> None:
    narrow, other = token("narrow", pipelines=("mine",), writes=("out",)), token("other", pipelines=("theirs",), writes=("old",))
    async with serve(tokens=(narrow, other)) as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        caller, owner = Caller(channel, "narrow"), Caller(channel, "other")
        denied, _ = await caller.code("ReportCommits", commit_report(readers=["theirs"]))
        nothing, _ = await caller.code("ReportCommits", commit_report(former_sinks=["old"]))
        assert (denied, nothing) == (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.OK)
        assert not gateway.commit_logs
        for run in ("r1", "r1", "r2"):
            assert (await owner.code("ReportCommits", commit_report(run=run, readers=["theirs"])))[0] is grpc.StatusCode.OK
        assert (await owner.code("ReportCommits", commit_report(readers=["theirs"])))[0] is grpc.StatusCode.ABORTED
        many = commit_report(run="r2", readers=[f"p{n}" for n in range(10_000)])
        assert (await owner.code("ReportCommits", many))[0] in (
            grpc.StatusCode.INVALID_ARGUMENT,
            grpc.StatusCode.RESOURCE_EXHAUSTED,
        )
        assert (await caller.code("ReportCommits", commit_report("out")))[0] is grpc.StatusCode.PERMISSION_DENIED


async def test_a_report_of_commits_touches_only_the_sinks_that_it_names() -> None:
    """Sink `out` holds what run r1 prepared; a report that names another sink must not abort it."""
    async with serve() as (_, address), grpc.aio.insecure_channel(address) as channel:
        sink = SinkClient(address)
        try:
            await sink.hello(staged=[part(7)], prepared=[transaction(7)])
            caller = Caller(channel, "anybody")
            closing = commit_report("other", closed=True)
            assert (await caller.code("ReportCommits", closing))[0] is grpc.StatusCode.OK
            stub = engine_pb2_grpc.EngineServiceStub(channel)
            response = await stub.ReportCommits(commit_report("out", committed=7, first_batch=7), timeout=DEADLINE_S)
            assert response.pending == 1
            assert await sink.commit() == transaction(7)
        finally:
            await sink.close()


async def test_a_source_token_forges_no_row() -> None:
    source_only = token("source-only", sources=("orders/*",))
    async with calling(source_only) as channel:
        caller = Caller(channel, "source-only")
        for method, request in (("Deliver", delivery(0)), ("Vote", vote(0)), ("ReportCommits", commit_report("out"))):
            assert (await caller.code(method, request))[0] is grpc.StatusCode.PERMISSION_DENIED


async def test_a_sink_session_is_only_for_the_sinks_of_its_token() -> None:
    async with calling(token("archive", sinks=("archive",))) as channel:
        call = channel.stream_stream(
            "/headrace.protocol.v1.SinkService/Attach",
            request_serializer=sink_pb2.SinkServiceAttachRequest.SerializeToString,
            response_deserializer=sink_pb2.SinkServiceAttachResponse.FromString,
        )(metadata=bearer("archive"))
        hello = sink_pb2.SinkHello(protocol_version=1, connector="test", instance="i", sink="totals", mode=IDEMPOTENT)
        await call.write(sink_pb2.SinkServiceAttachRequest(hello=hello))
        async with asyncio.timeout(DEADLINE_S):
            assert await call.code() is grpc.StatusCode.PERMISSION_DENIED

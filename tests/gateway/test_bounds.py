"""What one caller can cost is bounded: patterns, names, and what is kept of names that nobody uses."""

import asyncio
import math
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.sink_wire import AT_LEAST_ONCE, SinkClient, Writer, part, transaction
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered, positions, serve

from headrace.contract.names import covers
from headrace.gateway.config import Limits
from headrace.gateway.core import housekeeping
from headrace.gateway.core.base import bounds
from headrace.gateway.core.connections.id_ranges import IdRanges
from headrace.pipelines.runtime import matches
from headrace.protocol.v1 import engine_pb2, sink_pb2, source_pb2
from headrace.protocol.v1.metrics_pb2 import MetricSeries, RunMetrics, StageTime, StepMetrics

STARS = "a*" * 100 + "b/0"


async def refusal(call: "grpc.aio.UnaryUnaryCall[object, object]") -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value.code(), failed.value.details() or ""


# Patterns


def reference(pattern: str, name: str) -> bool:
    """By trying everything: only for short ones."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return reference(pattern[1:], name) or (bool(name) and name[0] != "/" and reference(pattern, name[1:]))
    return bool(name) and name[0] == pattern[0] and reference(pattern[1:], name[1:])


@given(pattern=st.text("ab*/", max_size=8), name=st.text("ab*/", max_size=8))
def test_patterns_match_as_they_should(pattern: str, name: str) -> None:
    assert covers(pattern, name) == matches(pattern, name) == reference(pattern, name)


@pytest.mark.parametrize("pattern", [STARS, "*a" * 126 + "/*", "*" * 250 + "b/0", "a*b*" * 60 + "/0"])
@pytest.mark.parametrize("name", ["a" * 253 + "/0", "ab" * 126 + "/0", "a" * 252 + "b/0"])
def test_the_work_for_a_pattern_is_bounded_by_its_length(pattern: str, name: str) -> None:
    for match in (covers, matches):
        assert lines_run(lambda match=match: match(pattern, name)) < 10 * (len(pattern) + len(name))


def lines_run(function: Callable[[], object]) -> int:
    """How many lines of Python a function runs: its work, whatever the machine."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines


async def test_a_pattern_of_many_stars_holds_nobody_up() -> None:
    async with serve() as (_, address):
        source, hostile, good = Connector(address), Engine(address, "hostile", streams=STARS), Engine(address, "good")
        await source.hello()
        await source.open("a" * 250 + "/0", 1)
        await source.open("orders/0", 2)
        await good.attach()
        await source.expect("stream_opened")
        for _ in range(20):
            await hostile.attach()
            await good.plan(wait_ms=0)
        for client in (source, hostile, good):
            await client.close()


# Names


@pytest.mark.parametrize("name", ["ü/0", "orders/ü", "日本/0", "orders/٣", "orders/0\n", "orders/\u212a"])
async def test_a_stream_is_named_in_ascii_wherever_it_is_named(name: str) -> None:
    async with serve() as (gateway, address):
        source, pipeline = Connector(address), Engine(address)
        await source.hello()
        await source.open(name)
        assert (await source.ended())[0] is grpc.StatusCode.INVALID_ARGUMENT
        await pipeline.attach()
        at = positions({name: 1})
        wanted = engine_pb2.Range(stream=name, end=at[0].position)
        stub, who = pipeline.stub, pipeline.who
        for call in (
            stub.Attach(engine_pb2.AttachRequest(pipeline=who, committed=at)),
            stub.Attach(engine_pb2.AttachRequest(pipeline=who, planned=at)),
            stub.Attach(engine_pb2.AttachRequest(pipeline=engine_pb2.Pipeline(name="p", run=1, streams=[name]))),
            stub.Plan(engine_pb2.PlanRequest(pipeline=who, committed=at)),
            stub.Detach(engine_pb2.DetachRequest(pipeline=who, committed=at)),
        ):
            assert (await refusal(call))[0] is grpc.StatusCode.INVALID_ARGUMENT
        fetching = stub.Fetch(engine_pb2.FetchRequest(pipeline=who, ranges=[wanted]))
        assert await fetching.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert not gateway.streams
        for client in (source, pipeline):
            await client.close()


@pytest.mark.parametrize("name", ["ü", "out/ü", "a b", "out\n", "", "s" * 256])
async def test_a_sink_is_named_in_ascii_wherever_it_is_named(name: str) -> None:
    async with serve() as (gateway, address):
        sink, writer = SinkClient(address), Writer(address)
        hello = sink_pb2.SinkHello(protocol_version=1, connector="test", sink=name, instance="i", mode=AT_LEAST_ONCE)
        await sink.send(hello=hello)
        assert (await sink.ended())[0] is grpc.StatusCode.INVALID_ARGUMENT
        start = engine_pb2.DeliverRequest(start=engine_pb2.DeliveryStart(sink=name, part=part(0)))
        for call in (
            writer.stub.Deliver(iter([start])),
            writer.stub.Vote(engine_pb2.VoteRequest(sink=name, transaction=transaction(0), parts=[part(0)])),
            writer.stub.ReportCommits(engine_pb2.ReportCommitsRequest(pipeline="query", run="r1", run_number=1, sinks=[name])),
        ):
            assert (await refusal(call))[0] is grpc.StatusCode.INVALID_ARGUMENT
        assert not gateway.sinks
        for client in (sink, writer):
            await client.close()


LONG = "é" * 200
"""Of 400 bytes."""


def long_names() -> Iterable[tuple[str, object]]:
    who = engine_pb2.Pipeline(name=LONG, run=1, streams=["orders/*"])
    yield "Attach", engine_pb2.AttachRequest(pipeline=who)
    long_part = part(0, attempt="r1/" + LONG)
    yield "Vote", engine_pb2.VoteRequest(sink="out", transaction=transaction(0), parts=[long_part])
    yield "Vote", engine_pb2.VoteRequest(sink="out", transaction=transaction(0), parts=[part(0)], instances=[LONG])
    yield "ReportCommits", engine_pb2.ReportCommitsRequest(pipeline=LONG, run="r1", run_number=1, sinks=["out"])
    segments = [engine_pb2.RunSegment(run=LONG)]
    yield (
        "ReportCommits",
        engine_pb2.ReportCommitsRequest(pipeline="query", run="r1", run_number=1, sinks=["out"], segments=segments),
    )
    yield "Attach", engine_pb2.AttachRequest(pipeline=engine_pb2.Pipeline(name="p", run_id=LONG, streams=["orders/*"]))
    yield "Attach", engine_pb2.AttachRequest(pipeline=engine_pb2.Pipeline(name="p", checkpoint=LONG, streams=["orders/*"]))
    yield "ReportCommits", engine_pb2.ReportCommitsRequest(pipeline="query", run=LONG, run_number=1, sinks=["out"])
    yield (
        "ReportCommits",
        engine_pb2.ReportCommitsRequest(pipeline="query", run="r1", run_number=1, sinks=["out"], readers=[LONG]),
    )
    for metrics in (
        RunMetrics(steps=[StepMetrics(step=LONG)]),
        RunMetrics(stages=[StageTime(stage=LONG)]),
        RunMetrics(series=[MetricSeries(metric=LONG)]),
        RunMetrics(series=[MetricSeries(metric="a", value=LONG)]),
        RunMetrics(series=[MetricSeries(metric="a", sum=math.inf)]),
        RunMetrics(series=[MetricSeries(metric="a", bounds=[math.nan], buckets=[0])]),
        RunMetrics(series=[MetricSeries(metric="a", bounds=[1, 2], buckets=[0])]),
    ):
        yield (
            "ReportCommits",
            engine_pb2.ReportCommitsRequest(pipeline="query", run="r1", run_number=1, sinks=["out"], metrics=metrics),
        )


async def test_long_names_are_refused() -> None:
    async with serve() as (gateway, address):
        writer = Writer(address)
        for method, request in long_names():
            assert (await refusal(getattr(writer.stub, method)(request)))[0] is grpc.StatusCode.INVALID_ARGUMENT
        for field in ("connector", "connector_version", "instance"):
            source, sink = Connector(address), SinkClient(address)
            words = {"protocol_version": 1, "connector": "test", "instance": "i", field: LONG}
            await source.send(hello=source_pb2.Hello(**words))
            assert (await source.ended())[0] is grpc.StatusCode.INVALID_ARGUMENT
            await sink.send(hello=sink_pb2.SinkHello(sink="out", mode=AT_LEAST_ONCE, **words))
            assert (await sink.ended())[0] is grpc.StatusCode.INVALID_ARGUMENT
            await source.close()
            await sink.close()
        assert not gateway.pipelines
        assert not gateway.commit_logs
        await writer.close()


WHO = engine_pb2.Pipeline(name="p", run=1, streams=["orders/*"])


def many_names() -> Iterable[tuple[str, object]]:
    patterns = engine_pb2.Pipeline(name="p", run=1, streams=[f"orders/{n}" for n in range(bounds.MAX_PATTERNS + 1)])
    yield "Attach", engine_pb2.AttachRequest(pipeline=patterns)
    many = positions({f"orders/{n}": n for n in range(bounds.MAX_POSITIONS + 1)})
    yield "Attach", engine_pb2.AttachRequest(pipeline=WHO, committed=many)
    yield "Plan", engine_pb2.PlanRequest(pipeline=WHO, forgotten=many)
    sinks = [f"s{n}" for n in range(bounds.MAX_WRITTEN + 1)]
    yield "ReportCommits", engine_pb2.ReportCommitsRequest(pipeline="query", run="r1", run_number=1, sinks=sinks)
    yield "ReportCommits", engine_pb2.ReportCommitsRequest(pipeline="query", run="r1", run_number=1, sinks=["out"], readers=sinks)
    steps = [StepMetrics(step=f"s{n}") for n in range(bounds.MAX_STEPS + 1)]
    stages = [StageTime(stage=f"s{n}") for n in range(bounds.MAX_STAGES + 1)]
    series = [MetricSeries(metric=f"s{n}") for n in range(bounds.MAX_SERIES + 1)]
    for metrics in (RunMetrics(steps=steps), RunMetrics(stages=stages), RunMetrics(series=series)):
        yield (
            "ReportCommits",
            engine_pb2.ReportCommitsRequest(pipeline="query", run="r1", run_number=1, sinks=["out"], metrics=metrics),
        )
    parts = [part(0, partition=n) for n in range(bounds.MAX_PARTS + 1)]
    yield "Vote", engine_pb2.VoteRequest(sink="out", transaction=transaction(0), parts=parts)


async def test_many_names_in_one_request_are_refused() -> None:
    async with serve() as (gateway, address):
        writer = Writer(address)
        await writer.stub.Attach(engine_pb2.AttachRequest(pipeline=WHO))
        for method, request in many_names():
            code, details = await refusal(getattr(writer.stub, method)(request))
            assert (code, "at most" in details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        sink = SinkClient(address)
        hello = {"protocol_version": 1, "connector": "test", "instance": "i", "sink": "out", "mode": AT_LEAST_ONCE}
        committed = [transaction(0, f"q{n}") for n in range(bounds.MAX_LISTED + 1)]
        await sink.send(hello=sink_pb2.SinkHello(**hello, committed=committed))  # type: ignore[arg-type]
        assert (await sink.ended())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert not gateway.streams
        assert not gateway.sinks
        assert not gateway.commit_logs
        for client in (sink, writer):
            await client.close()


async def test_many_names_in_many_requests_are_refused_in_the_end() -> None:
    async with serve() as (gateway, address):
        writer = Writer(address)

        async def until_refused(requests: Iterable[engine_pb2.ReportCommitsRequest]) -> int:
            for accepted, request in enumerate(requests):
                call = writer.stub.ReportCommits(request, timeout=DEADLINE_S)
                if await call.code() is not grpc.StatusCode.OK:
                    assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                    return accepted
            raise AssertionError("none was refused")

        hundreds = ([f"sink-{n}-{i}" for i in range(100)] for n in range(100))
        with_sinks = (
            engine_pb2.ReportCommitsRequest(pipeline="query", run="r1", run_number=1, sinks=sinks) for sinks in hundreds
        )
        assert await until_refused(with_sinks) == bounds.MAX_SINKS // 100
        assert len(gateway.sinks) == bounds.MAX_SINKS
        queries = (
            engine_pb2.ReportCommitsRequest(pipeline=f"q{n}", run="r1", run_number=1, sinks=["sink-0-0"]) for n in range(10_000)
        )
        assert await until_refused(queries) == bounds.MAX_PIPELINES - 1
        assert len(gateway.commit_logs) == bounds.MAX_PIPELINES
        await writer.close()


async def test_what_nobody_uses_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as (gateway, address):
        writer, source = Writer(address), Connector(address)
        request = engine_pb2.ReportCommitsRequest(pipeline="gone", run="r1", run_number=1, sinks=["a", "b"])
        await writer.stub.ReportCommits(request, timeout=DEADLINE_S)
        # A sink that holds something of a query keeps its commit log; one that somebody waits for is kept, too.
        sink = SinkClient(address)
        await sink.hello(staged=[part(0)], prepared=[transaction(0)])
        await writer.report_commits()
        start = engine_pb2.DeliveryStart(sink="absent", part=part(0))
        waiting = asyncio.ensure_future(writer.stub.Deliver(iter([engine_pb2.DeliverRequest(start=start)]), timeout=DEADLINE_S))
        reader = Engine(address)
        await reader.attach()
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 10))
        await reader.plan_until("orders/0", 10)
        async with asyncio.timeout(DEADLINE_S):
            while "absent" not in gateway.sinks or not gateway.sinks["absent"].news.waiters:
                await writer.report_commits()
        housekeeping.forget_unused(gateway)
        assert set(gateway.sinks) == {"a", "b", "out", "absent"}
        monkeypatch.setattr(housekeeping, "UNUSED_AFTER_S", 0.0)
        housekeeping.forget_unused(gateway)
        assert set(gateway.sinks) == {"out", "absent"}
        assert set(gateway.commit_logs) == set(gateway.commits_reported_at) == {"query"}
        assert set(gateway.streams) == {"orders/0"}
        waiting.cancel()
        for client in (sink, writer, source, reader):
            await client.close()


async def test_ids_of_rejected_streams_cost_nothing() -> None:
    async with serve(Limits(max_streams_per_session=2)) as (gateway, address):
        owner, other = Connector(address), Connector(address)
        await owner.hello("owner")
        await owner.open("orders/0", 1)
        await other.hello("other")
        for n in range(1, 2000):
            await other.open("orders/0", n)
            assert (await other.expect("reject")).reason == source_pb2.REJECT_REASON_OWNED
        session = next(session for session in gateway.sessions.values() if session.instance == "other")
        assert len(session.retired) == 1, "one range of ids"
        await other.open("orders/1", 1000)
        code, details = await other.ended()
        assert (code, "used before" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        for client in (owner, other):
            await client.close()


async def test_a_connector_that_asks_and_never_reads_the_answers_is_ended() -> None:
    async with serve() as (gateway, address):
        owner, deaf = Connector(address), Connector(address)
        await owner.hello("owner")
        await owner.open("orders/0", 1)
        await deaf.hello("deaf")
        session = next(session for session in gateway.sessions.values() if session.instance == "deaf")
        refused = source_pb2.IngestResponse(reject=source_pb2.Reject(message="no" * 1000))
        while session.failure is None:
            session.send(refused)
        assert (await deaf.ended())[0] is grpc.StatusCode.DEADLINE_EXCEEDED
        for client in (owner, deaf):
            await client.close()


@given(ids=st.lists(st.integers(0, 30), max_size=60))
def test_ranges_of_ids_are_a_set(ids: list[int]) -> None:
    ranges = IdRanges()
    for n, id_ in enumerate(ids, 1):
        ranges.add(id_)
        known = set(ids[:n])
        assert [i for i in range(32) if i in ranges] == sorted(known)
        assert len(ranges) == sum(i - 1 not in known for i in known)

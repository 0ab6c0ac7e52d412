"""The commit timeline: which stages a micro-batch reaches and when, whoever asks, and what is rebuilt after a restart."""

import asyncio
import time
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.gateway.http_server import get, serve_http
from tests.gateway.sink_wire import IDEMPOTENT, SinkClient, Writer, sink_and_source, transaction
from tests.gateway.test_rights import bearer, token
from tests.gateway.wire import DEADLINE_S, REDELIVERING, Connector, Engine, numbered, position, serve

from headrace.contract.limits import MAX_BATCH_STREAMS, MAX_BATCHES
from headrace.gateway.http import timeline as http_timeline
from headrace.gateway_status import timeline_document
from headrace.protocol.v1 import admin_pb2, engine_pb2

STAGES = ("planned", "read", "processed", "staged", "voted", "committed", "sink_committed", "acknowledged")


async def timeline(engine: Engine, limit: int = 0, pipeline: str = "p") -> Any:
    request = admin_pb2.ListBatchesRequest(pipeline=pipeline, limit=limit)
    return timeline_document(await engine.admin.ListBatches(request, timeout=DEADLINE_S))


async def until_reached(engine: Engine, stage: str) -> Any:
    """Waits until the last micro-batch has reached a stage."""
    async with asyncio.timeout(DEADLINE_S):
        while stage not in (found := await timeline(engine))["batches"][0]["stages"]:
            pass
    return found


async def report(engine: Engine, *batches: dict[str, Any], number: int = 1, **more: Any) -> engine_pb2.ReportBatchesResponse:
    """Reports micro-batches as a driver does."""
    usual = {"checkpoint": engine.who.checkpoint, "run_number": number, "run": f"r{number}"}
    fields: dict[str, Any] = {**usual, "batches": [logged(**batch) for batch in batches], **more}
    request = engine_pb2.ReportBatchesRequest(pipeline=engine.who.name, **fields)
    response = await engine.stub.ReportBatches(request, timeout=DEADLINE_S)
    assert isinstance(response, engine_pb2.ReportBatchesResponse)
    return response


def logged(batch: int, ends: dict[str, tuple[Any, Any]] | None = None, **times: int) -> engine_pb2.LoggedBatch:
    ranges = [
        engine_pb2.LoggedRange(stream=name, after=position(after), end=position(end))
        for name, (after, end) in (ends or {}).items()
    ]
    return engine_pb2.LoggedBatch(batch=batch, ranges=ranges, streams=len(ranges), **times)


async def refused(engine: Engine, *batches: dict[str, Any], **more: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await report(engine, *batches, **more)
    return error.value.code(), error.value.details() or ""


async def test_a_batch_reaches_its_stages_in_order(address: str) -> None:
    async with sink_and_source(address, committed=6) as (sink, writer, source, reader):
        await source.send(frame=numbered(1, 1, 3))
        await reader.plan_until("orders/0", 3)
        assert (await timeline(reader))["batches"][0]["batch"] is None
        await report(reader, {"batch": 7, "ends": {"orders/0": (None, 3)}})
        (batch,) = (await timeline(reader))["batches"]
        assert (batch["batch"], batch["rebuilt"], list(batch["stages"])) == (7, False, ["planned"])
        assert batch["streams"] == [{"stream": "orders/0", "epoch": 0, "after": None, "end": 3, "messages": 3}]
        await reader.fetch("orders/0", None, 3)
        assert list((await timeline(reader))["batches"][0]["stages"]) == ["planned", "read"]
        delivery = writer.deliver(7)
        await sink.take_part()
        await delivery
        assert list((await timeline(reader))["batches"][0]["stages"]) == ["planned", "read"], "other tasks may follow"
        vote = writer.vote(7)
        await until_reached(reader, "staged")
        await sink.vote()
        await vote
        assert list((await timeline(reader))["batches"][0]["stages"]) == [*STAGES[:5]]
        await reader.plan({"orders/0": 3}, wait_ms=0)
        await writer.report_commits(committed=7)
        assert "sink_committed" not in (await timeline(reader))["batches"][0]["stages"]
        assert await sink.commit() == transaction(7)
        found = await until_reached(reader, "sink_committed")
        (batch,) = found["batches"]
        times = list(batch["stages"].values())
        assert (list(batch["stages"]), times) == (list(STAGES), sorted(times))
        assert list(found["summary"]) == list(STAGES[1:])
        assert all(0 <= span["min_ms"] == span["avg_ms"] == span["max_ms"] < 60_000 for span in found["summary"].values())


async def test_a_query_without_sinks_has_no_stages_of_sinks(address: str, engine: Any, connector: Any) -> None:
    source, reader = connector(), engine()
    await opened(source, reader)
    await source.send(frame=numbered(1, 1, 2))
    await reader.plan_until("orders/0", 2)
    await reader.fetch("orders/0", None, 2)
    await reader.plan({"orders/0": 2}, wait_ms=0)
    assert list((await timeline(reader))["batches"][0]["stages"]) == ["planned", "read", "committed", "acknowledged"]


async def opened(source: Connector, reader: Engine, **attach: Any) -> None:
    """Opens stream orders/0 as stream 1."""
    await source.hello()
    await reader.attach(**attach)
    await source.open()
    await source.expect("stream_opened")


async def test_a_batch_that_was_planned_twice_is_one(engine: Any, connector: Any) -> None:
    """The answer was lost, so that the first plan was never in the offset log."""
    source, reader = connector(), engine()
    await opened(source, reader)
    await source.send(frame=numbered(1, 1, 2))
    await reader.plan_until("orders/0", 2)
    await reader.plan_until("orders/0", 2)
    assert len((await timeline(reader))["batches"]) == 1


async def test_an_acknowledgement_waits_for_every_pipeline(engine: Any, connector: Any) -> None:
    source, first, second = connector(), engine("first"), engine("second")
    await second.attach()
    await opened(source, first)
    await source.send(frame=numbered(1, 1, 4))
    await first.plan_until("orders/0", 4)
    await first.plan({"orders/0": 4}, wait_ms=0)
    assert list((await timeline(first, pipeline="first"))["batches"][0]["stages"]) == ["planned", "committed"]
    await second.plan_until("orders/0", 4)
    await second.plan({"orders/0": 4}, wait_ms=0)
    for name in ("first", "second"):
        assert "acknowledged" in (await timeline(first, pipeline=name))["batches"][0]["stages"]


async def test_a_source_that_is_away_is_not_acknowledged_before_it_is_back(engine: Any, connector: Any) -> None:
    source, reader = connector(), engine()
    await opened(source, reader)
    await source.send(frame=numbered(1, 1, 2))
    await reader.plan_until("orders/0", 2)
    await source.close()
    await reader.status_once(lambda status: not status.sessions)
    await reader.plan({"orders/0": 2}, wait_ms=0)
    assert "acknowledged" not in (await timeline(reader))["batches"][0]["stages"]
    back = connector()
    await back.hello()
    await back.open()
    await back.expect("stream_opened")
    assert "acknowledged" in (await timeline(reader))["batches"][0]["stages"]


async def test_messages_that_a_queue_delivers_again_are_not_called_acknowledged(engine: Any, connector: Any) -> None:
    source, reader = connector(), engine()
    await source.hello()
    await reader.attach()
    await source.open(kind=REDELIVERING)
    epoch = (await source.expect("stream_opened")).epoch
    await source.send(frame=numbered(1, 1, 2))
    await reader.plan_until("orders/0", 2)
    await source.close()
    await reader.status_once(lambda status: not status.sessions)
    back = connector()
    await back.hello()
    await back.open(kind=REDELIVERING)
    later = (await back.expect("stream_opened")).epoch
    await back.send(frame=numbered(1, 1, 2))
    await reader.plan({"orders/0": (epoch, 2)}, wait_ms=5000)
    await reader.plan({"orders/0": (later, 2)}, wait_ms=0)
    second, first = (await timeline(reader))["batches"]
    assert (first["redelivered"], "acknowledged" in first["stages"]) == (True, False)
    assert (second["redelivered"], "acknowledged" in second["stages"]) == (False, True)
    assert [batch["streams"][0]["epoch"] for batch in (second, first)] == [later, epoch]


async def test_what_is_kept_is_bounded(engine: Any, connector: Any) -> None:
    source, reader = connector(), engine()
    await source.hello()
    await reader.attach()
    names = [f"orders/{n:03}" for n in range(MAX_BATCH_STREAMS + 10)]
    for at, name in enumerate(names):
        await source.open(name, at + 1)
        await source.expect("stream_opened")
        await source.send(frame=numbered(at + 1, 1, 1 + (at >= 10)))
    async with asyncio.timeout(DEADLINE_S):
        while len((planned := await reader.plan(wait_ms=1000)).ranges) < len(names):
            pass
    assert len(planned.ranges) == len(names)
    (batch,) = (await timeline(reader))["batches"]
    assert batch["streams_in_all"] == len(names)
    assert [read["stream"] for read in batch["streams"]] == names[10:], "the streams with the most messages"
    ends = {f"orders/{n:03}": 1 + (n >= 10) for n in range(len(names))}
    await reader.plan(ends, wait_ms=0)
    last = ends["orders/000"]
    for _ in range(MAX_BATCHES + 5):
        last += 1
        await source.send(frame=numbered(1, last, 1))
        await reader.plan_until("orders/000", last)
        await reader.plan({"orders/000": last}, wait_ms=0)
    batches = (await timeline(reader))["batches"]
    assert len(batches) == MAX_BATCHES
    assert batches[0]["streams"][0]["end"] == last
    assert all("acknowledged" in batch["stages"] for batch in batches)
    assert len((await timeline(reader, limit=3))["batches"]) == 3


# What the driver reports from the checkpoint


async def test_a_restarted_gateway_asks_for_the_history_of_the_checkpoint() -> None:
    earlier = int(time.time() * 1000) - 60_000
    async with serve() as (_, address):
        reader = Engine(address, run=3)
        await reader.attach({"orders/0": 30}, {"orders/0": 40})
        assert (await report(reader)).wants_history
        history = [
            {"batch": n, "ends": {"orders/0": (10 * n, 10 * n + 10)}, "planned_ms": earlier + n, "committed_ms": earlier + n + 5}
            for n in range(3)
        ]
        planned = {"batch": 3, "ends": {"orders/0": (30, 40)}, "planned_ms": earlier + 100}
        assert not (await report(reader, *history, planned, history=True)).wants_history
        batches = (await timeline(reader))["batches"]
        assert [batch["batch"] for batch in batches] == [3, 2, 1, 0]
        assert all(batch["rebuilt"] for batch in batches)
        assert list(batches[0]["stages"]) == ["planned"]
        assert list(batches[1]["stages"]) == ["planned", "committed"]
        assert batches[1]["streams"] == [{"stream": "orders/0", "epoch": 0, "after": 20, "end": 30, "messages": None}]
        await report(reader, *history, planned, history=True)
        assert (await timeline(reader))["batches"] == batches, "a report that comes twice changes nothing"
        await reader.plan({"orders/0": 40}, wait_ms=0)
        (batch, *_) = (await timeline(reader))["batches"]
        assert list(batch["stages"]) == ["planned", "committed"]
        assert (await timeline(reader))["summary"] == {}, "what was rebuilt has times of other clocks"
        await reader.close()


async def test_the_tasks_of_a_batch_are_known_to_a_restarted_gateway_before_the_planner(engine: Any, connector: Any) -> None:
    source, reader = connector(), engine()
    await source.hello()
    await source.open()
    fetch = asyncio.create_task(reader.fetch("orders/0", 5, 7, committed=5))
    assert (await source.expect("stream_opened")).resume.sequence == 5
    await source.send(frame=numbered(1, 6, 2))
    await fetch
    (batch,) = (await timeline(reader))["batches"]
    assert (batch["rebuilt"], list(batch["stages"])) == (True, ["read"])
    assert batch["streams"] == [{"stream": "orders/0", "epoch": 0, "after": 5, "end": 7, "messages": None}]


async def test_a_restarted_driver_repeats_a_batch_and_its_stages(engine: Any, connector: Any) -> None:
    source, reader = connector(), engine()
    await opened(source, reader)
    await source.send(frame=numbered(1, 1, 2))
    await reader.plan_until("orders/0", 2)
    await report(reader, {"batch": 0, "ends": {"orders/0": (None, 2)}})
    await reader.fetch("orders/0", None, 2)
    (before,) = (await timeline(reader))["batches"]
    again = engine(run=2)
    await again.attach(planned={"orders/0": 2})
    (batch,) = (await timeline(again))["batches"]
    assert batch["stages"] == {"planned": before["stages"]["planned"]}
    await again.fetch("orders/0", None, 2)
    await again.plan({"orders/0": 2}, wait_ms=0)
    (batch,) = (await timeline(again))["batches"]
    assert (batch["batch"], batch["rebuilt"]) == (0, False)
    assert list(batch["stages"]) == ["planned", "read", "committed", "acknowledged"]


async def test_a_planned_range_that_reads_nothing_is_not_listed(engine: Any) -> None:
    reader: Engine = engine()
    await reader.attach({}, {"orders/0": None, "orders/1": 4})
    (batch,) = (await timeline(reader))["batches"]
    assert [read["stream"] for read in batch["streams"]] == ["orders/1"]


async def test_a_checkpoint_that_was_set_back_replaces_what_came_after(engine: Any) -> None:
    reader = engine()
    await reader.attach({"orders/0": 30})
    batches = [{"batch": n, "ends": {"orders/0": (n, n + 1)}, "committed_ms": 1} for n in range(3)]
    await report(reader, *batches, history=True)
    await reader.attach({"orders/0": 1}, {"orders/0": 10})
    await report(reader, {"batch": 1, "ends": {"orders/0": (1, 10)}}, number=2)
    second, first = (await timeline(reader))["batches"]
    assert (second["batch"], second["streams"][0]["end"], list(second["stages"])) == (1, 10, [])
    assert (first["batch"], first["streams"][0]["end"], list(first["stages"])) == (0, 1, ["committed"])


# Callers


async def test_a_report_of_an_older_run_or_of_another_checkpoint_is_refused(engine: Any) -> None:
    reader = engine(checkpoint="c1")
    await reader.attach()
    await report(reader, {"batch": 0, "ends": {"orders/0": (None, 1)}}, number=2)
    code, details = await refused(reader, {"batch": 1}, number=1)
    assert code is grpc.StatusCode.ABORTED
    assert "run 2" in details
    code, _ = await refused(reader, {"batch": 1}, number=2, checkpoint="c2")
    assert code is grpc.StatusCode.ABORTED
    assert [batch["batch"] for batch in (await timeline(reader))["batches"]] == [0]


async def test_a_report_of_an_unknown_pipeline_makes_none(engine: Any) -> None:
    reader = engine()
    code, _ = await refused(reader, {"batch": 1})
    assert code is grpc.StatusCode.NOT_FOUND
    assert not (await reader.status()).pipelines


@pytest.mark.parametrize(
    ("request_fields", "code"),
    [
        ({"batches": [logged(n) for n in range(MAX_BATCHES + 1)]}, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (
            {"batches": [logged(0, {f"orders/{n}": (None, 1) for n in range(MAX_BATCH_STREAMS + 1)})]},
            grpc.StatusCode.RESOURCE_EXHAUSTED,
        ),
        ({"batches": [logged(1), logged(1)]}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"batches": [logged(2**63)]}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"batches": [logged(0, planned_ms=2**60)]}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"batches": [logged(0, {"no stream": (None, 1)})]}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"batches": [logged(0, {"payments/0": (None, 1)})]}, grpc.StatusCode.PERMISSION_DENIED),
        ({"run": ""}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"run": "r" * 300}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"run_number": 0}, grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_an_oversized_or_malformed_report_changes_nothing(
    engine: Any, request_fields: dict[str, Any], code: grpc.StatusCode
) -> None:
    reader = engine()
    await reader.attach()
    assert (await refused(reader, **request_fields))[0] is code
    assert not (await timeline(reader))["batches"]


async def test_a_report_names_only_a_pipeline_of_its_token() -> None:
    theirs = token("theirs", pipelines=("other",), reads=("*/*",))
    blind = token("blind", pipelines=("p",), reads=("payments/*",))
    operator = token("operator", admin=True, pipelines=("p",), reads=("*/*",))
    async with serve(tokens=(theirs, blind, operator)) as (_, address):
        reader = Engine(address)
        await reader.stub.Attach(engine_pb2.AttachRequest(pipeline=reader.who), metadata=bearer("operator"), timeout=DEADLINE_S)
        request = engine_pb2.ReportBatchesRequest(pipeline="p", run="r", run_number=1, batches=[logged(0)])
        for caller in ("theirs", "blind"):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await reader.stub.ReportBatches(request, metadata=bearer(caller), timeout=DEADLINE_S)
            assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
        await reader.close()


async def test_the_timeline_of_an_unknown_pipeline_and_a_limit_out_of_range_are_errors(engine: Any) -> None:
    reader = engine()
    await reader.attach()
    for request, code in (
        (admin_pb2.ListBatchesRequest(pipeline="other"), grpc.StatusCode.NOT_FOUND),
        (admin_pb2.ListBatchesRequest(pipeline="p", limit=MAX_BATCHES + 1), grpc.StatusCode.INVALID_ARGUMENT),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await reader.admin.ListBatches(request, timeout=DEADLINE_S)
        assert error.value.code() is code


async def test_http_says_what_the_admin_service_says() -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http, sink_and_source(address) as (_, _, source, reader):
        await source.send(frame=numbered(1, 1, 3))
        await reader.plan_until("orders/0", 3)
        told = await timeline(reader)
        assert await get(http, "/api/v1/pipelines/p/batches") == (200, told)
        assert await get(http, "/api/v1/pipelines/p/batches?limit=1") == (200, told)
        for limit in ("0", "501", "-1", "x", "", "1" * 10_000):
            code, answer = await get(http, f"/api/v1/pipelines/p/batches?limit={limit}")
            assert code in (400, 431), limit
            assert code == 431 or "limit" in answer["detail"]
        code, answer = await get(http, "/api/v1/pipelines/other/batches")
        assert (code, answer["detail"]) == (404, "there is no pipeline 'other'; /api/v1/pipelines lists all")


async def test_http_answers_with_one_micro_batch_and_with_as_many_streams_as_are_wanted() -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http:
        reader = Engine(address, checkpoint="c")
        await reader.attach()
        batches = [{"batch": n, "ends": {f"orders/{s}": (n, n + 1) for s in range(3)}, "committed_ms": 1} for n in range(3)]
        await report(reader, *batches, history=True)
        path = "/api/v1/pipelines/p/batches"
        _, whole = await get(http, path)
        assert [len(batch["streams"]) for batch in whole["batches"]] == [3, 3, 3]
        _, one = await get(http, f"{path}?batch=1")
        assert one["batches"] == whole["batches"][1:2]
        _, fewer = await get(http, f"{path}?streams=0&limit=2")
        assert fewer["batches"] == [{**batch, "streams": []} for batch in whole["batches"][:2]]
        assert (await get(http, f"{path}?batch=7"))[1]["batches"] == []
        for parameter in ("batch=-1", "batch=x", f"batch={2**63}", "streams=51", "streams=-1", "streams=" + "9" * 30):
            code, answer = await get(http, f"{path}?{parameter}")
            assert (code, parameter.partition("=")[0] in answer["detail"]) == (400, True), parameter
        await reader.close()


async def test_pages_that_ask_within_a_second_share_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_timeline, "MAX_KEPT", 2)
    async with serve() as (gateway, address), serve_http(gateway) as http:
        reader = Engine(address, checkpoint="c")
        await reader.attach()

        async def known(limit: int) -> list[int]:
            _, answer = await get(http, f"/api/v1/pipelines/p/batches?limit={limit}")
            return [batch["batch"] for batch in answer["batches"]]

        monkeypatch.setattr(http_timeline, "_FRESH_S", 3600.0)
        await report(reader, {"batch": 0, "ends": {"orders/0": (0, 1)}}, history=True)
        assert [await known(limit) for limit in (7, 8)] == [[0], [0]]
        await report(reader, {"batch": 1, "ends": {"orders/0": (1, 2)}})
        assert await known(7) == [0]
        assert await known(9) == [1, 0], "no more answers are kept than there may be"
        monkeypatch.setattr(http_timeline, "_FRESH_S", 0.0)
        assert await known(7) == [1, 0]
        await reader.close()


async def test_a_sink_that_writes_before_the_commit_has_no_stage_after_it(address: str, engine: Any, connector: Any) -> None:
    sink, writer = SinkClient(address), Writer(address, readers=["p"])
    source, reader = connector(), engine()
    await sink.hello(mode=IDEMPOTENT)
    await opened(source, reader)
    await source.send(frame=numbered(1, 1, 1))
    await reader.plan_until("orders/0", 1)
    delivery = writer.deliver(4)
    await sink.take_part()
    await delivery
    vote = writer.vote(4)
    await sink.vote()
    await vote
    await reader.plan({"orders/0": 1}, wait_ms=0)
    (batch,) = (await timeline(reader))["batches"]
    assert batch["batch"] == 4, "the deliveries name it"
    assert list(batch["stages"]) == ["planned", "processed", "staged", "voted", "committed", "acknowledged"]
    await writer.close()
    await sink.close()


async def test_http_says_why_a_message_is_not_acknowledged_and_refuses_what_is_no_message() -> None:
    async with serve() as (gateway, address), serve_http(gateway) as http, sink_and_source(address) as (_, _, source, reader):
        await source.send(frame=numbered(1, 1, 3))
        await reader.plan_until("orders/0", 3)
        code, found = await get(http, "/api/v1/unacknowledged?stream=orders/0&sequence=2")
        assert (code, found["state"], found["held_by"]) == (200, "in-batch", ["p"])
        code, found = await get(http, "/api/v1/unacknowledged?stream=orders/0&sequence=9")
        assert (code, found["state"]) == (200, "not-received")
        code, found = await get(http, "/api/v1/unacknowledged?stream=orders/0")
        assert (code, found["sequence"], found["state"]) == (200, 0, "in-batch"), "the oldest"
        for query, part in (
            ("stream=orders/0&sequence=", "sequence"),
            ("stream=orders/0&epoch=1", "sequence"),
            ("stream=orders/0&sequence=-1", "sequence"),
            ("stream=orders/0&sequence=" + "9" * 30, "sequence"),
            ("stream=orders/0&sequence=%D9%A1", "sequence"),
            ("stream=orders/0&sequence=1&epoch=x", "epoch"),
        ):
            code, answer = await get(http, f"/api/v1/unacknowledged?{query}")
            assert (code, f"the parameter {part}" in answer["detail"]) == (400, True), query
        for name in ("", "none/0&sequence=1", "none/0", "n" * 2_000):
            code, answer = await get(http, f"/api/v1/unacknowledged?stream={name}")
            assert (code, len(answer["detail"]) < 300) == (404, True)

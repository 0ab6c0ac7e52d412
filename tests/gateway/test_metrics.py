"""What /metrics says: the values of the status, under the names of the reference, in a bounded number of series."""

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.docs.pages import codes, table
from tests.gateway.http_server import get, serve_http
from tests.gateway.sink_wire import Writer, sink_and_source, stage_and_vote
from tests.gateway.test_rights import OPERATOR, ORDERS
from tests.gateway.wire import DEADLINE_S, REPLAYABLE, Connector, Engine, numbered, serve

from headrace.gateway import Limits, observer
from headrace.gateway.core import Gateway
from headrace.gateway.core.connections.connectors import MAX_CONNECTORS, OTHERS
from headrace.gateway.own_faults import OwnFaultKind
from headrace.gateway.telemetry import prometheus
from headrace.gateway.telemetry.instruments import STREAM_INSTRUMENTS
from headrace.gateway.telemetry.readings import MAX_STREAMS
from headrace.protocol.v1 import source_pb2
from headrace.protocol.v1.connector_pb2 import CONNECTOR_STATE_RUNNING, ConnectorError, Report
from headrace.protocol.v1.metrics_pb2 import MetricSeries, RunMetrics, StageTime, StepMetrics

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "_fresh_s", lambda took_s: 0.0)


async def families(http: str) -> list[Metric]:
    code, text = await get(http, "/metrics")
    assert code == 200
    return list(text_string_to_metric_families(text))


async def scrape(http: str) -> Series:
    """All values, by name and labels."""
    samples = [sample for family in await families(http) for sample in family.samples]
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


async def scrape_until(http: str, name: str, value: float, **labels: str) -> Series:
    """All values, once one of them is as expected."""
    async with asyncio.timeout(DEADLINE_S):
        while (found := await scrape(http)).get(key(name, **labels)) != value:  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.02)
    return found


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"headrace_{name}", frozenset(labels.items())


def documented() -> Iterator[tuple[str, str, frozenset[str]]]:
    """The name, type and labels of each metric in the reference."""
    for heading in ("Metrics of every gateway", "Metrics of connectors", "Metrics of applications", "Metrics of streams"):
        for row in table("docs/reference/metrics.md", heading):
            (name,) = codes(row[0])
            kind = "counter" if name.endswith("_total") else row[1] if row[1] == "histogram" else "gauge"
            yield name, kind, frozenset(codes(row[1]))


async def test_values_are_those_of_the_status() -> None:
    async with (
        serve() as (gateway, address),
        serve_http(gateway, stream_metrics=True) as http,
        sink_and_source(address) as (sink, writer, source, reader),
    ):
        await source.send(frame=numbered(1, 1, 3))
        await source.send(frame=numbered(1, 4, 2))
        await reader.plan_until("orders/0", 5)
        await stage_and_vote(sink, writer, 0)
        found = await scrape_until(http, "sink_pending_transactions", 1, sink="out")
        assert found[key("unacknowledged_messages")] == found[key("buffered_messages")] == 5
        await writer.report_commits(0)
        await sink.commit()
        await reader.plan({"orders/0": 5}, wait_ms=0)
        await scrape_until(http, "sink_transactions_total", 1, sink="out", outcome="committed")
        found = await scrape_until(http, "commit_to_ack_seconds_count", 1)
        told = await reader.status()
        expected = {
            key("received_frames_total"): 2,
            key("received_messages_total"): 5,
            key("received_bytes_total"): told.streams[0].received_bytes,
            key("duplicate_messages_total"): 0,
            key("acknowledged_messages_total"): 5,
            key("buffered_messages"): 0,
            key("buffered_bytes"): 0,
            key("buffer_limit_bytes"): 128 * 2**20,
            key("unacknowledged_messages"): 0,
            key("streams", state="live"): 1,
            key("streams", state="parked"): 0,
            key("sessions", role="source", state="unreported"): 1,
            key("sessions", role="sink", state="running"): 0,
            key("pipelines", state="attached"): 1,
            key("pipeline_planned_batches_total", pipeline="p"): told.pipelines[0].planned_batches,
            key("session_credit_bytes"): told.sessions[0].credit_bytes,
            key("sink_staged_messages_total", sink="out"): 1,
            key("sink_transactions_total", sink="out", outcome="aborted"): 0,
            key("sink_instances", sink="out"): 1,
            key("problems", kind="connector-away"): 0,
            key("stream_received_messages_total", stream="orders/0"): 5,
            key("stream_unacknowledged_messages", stream="orders/0"): 0,
        }
        assert {name: found.get(name) for name in expected} == expected
        assert told.pipelines[0].planned_batches in (1, 2)
        assert 0 < found[key("commit_to_ack_seconds_sum")] < DEADLINE_S
        await source.close()
        await scrape_until(http, "problems", 2, kind="connector-away")


async def test_every_metric_is_in_the_reference_with_its_type_and_labels() -> None:
    reference = {name: (kind, labels) for name, kind, labels in documented()}
    async with (
        serve() as (gateway, address),
        serve_http(gateway, stream_metrics=True) as http,
        sink_and_source(address) as (_, writer, source, reader),
    ):
        gateway.rejected_sessions["INVALID_ARGUMENT"] = 1
        gateway.certificates["cert.pem"] = 1_900_000_000
        gateway.own_faults.note("file gateway.toml", OwnFaultKind.CONFIGURATION_INVALID, "no key of this name", "correct it")
        await source.send(frame=numbered(1, 1, 3))
        await reader.plan_until("orders/0", 3)
        await reader.plan({"orders/0": 3}, wait_ms=0)
        await scrape_until(http, "commit_to_ack_seconds_count", 1)
        series = [MetricSeries(metric="rejected"), MetricSeries(metric="price", sum=1)]
        metrics = RunMetrics(batches=1, steps=[StepMetrics(step="count")], stages=[StageTime(stage="addBatch")], series=series)
        await writer.report_commits(metrics=metrics)
        found = {}
        for family in await families(http):
            name = family.name + ("_total" if family.type == "counter" else "")
            given = (label for sample in family.samples for label in sample.labels)
            labels = frozenset(label for label in given if label != "le" or family.type == "counter")
            found[name] = (family.type, labels)
            assert family.documentation
    assert found == reference
    units = re.compile(
        r"headrace_(\w+(_total|_info|_bytes|_seconds|_messages|_transactions|_instances|_keys|_sum)"
        r"|streams|sessions|pipelines|problems)"
    )
    assert [name for name in reference if not units.fullmatch(name)] == []


async def test_a_thousand_streams_and_two_hundred_sessions_stay_below_five_thousand_series() -> None:
    async with serve() as (gateway, address):
        connector = Connector(address)
        await connector.hello()
        for n in range(1_000):
            opening = source_pb2.OpenStream(stream_id=n + 1, stream=f"orders/{n}", kind=REPLAYABLE)
            await connector.send(open_stream=opening)
        # A call is opened just before its Hello, for which the gateway waits only so long.
        others = []
        for n in range(199):
            others.append(Connector(address))
            await others[-1].hello(f"instance-{n}", f"connector-{n}")
        engine = Engine(address)
        await engine.status_once(lambda told: len(told.streams) == 1_000)
        async with serve_http(gateway) as plain, serve_http(gateway, stream_metrics=True) as detailed:
            few, many = await scrape(plain), await scrape(detailed)
        await engine.close()
        for each in (connector, *others):
            await each.close()
    assert len(few) < 800
    assert len(many) - len(few) == 1_000 * len(STREAM_INSTRUMENTS)
    assert len(many) < 5_000


async def test_streams_that_come_and_go_cost_no_more_series_than_there_may_be() -> None:
    gateway = Gateway(Limits())
    async with serve_http(gateway, stream_metrics=True) as http:
        for day in range(3):
            for stream in list(gateway.streams.values()):
                gateway.forget_stream(stream)
            for n in range(MAX_STREAMS + 500):
                gateway.stream(f"day{day}/{n}").received_messages = 1
            found: list[Any] = []
            async with asyncio.timeout(DEADLINE_S):
                # A snapshot of this many streams is shared for a moment.
                while not found or not all(dict(labels)["stream"].startswith(f"day{day}/") for labels in found):
                    metrics = await scrape(http)
                    found = [labels for name, labels in metrics if name == "headrace_stream_received_messages_total"]
            assert len(found) == MAX_STREAMS
            assert all(labels.keys() == {"stream"} for labels in map(dict, found))


async def test_the_gateway_works_while_a_text_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    answered, made = threading.Event(), 0

    def render(*_: Any) -> str:
        nonlocal made
        made += 1
        assert answered.wait(DEADLINE_S)
        return "all of them\n"

    monkeypatch.setattr(prometheus, "rendered", render)
    monkeypatch.setattr(observer, "_fresh_s", lambda took_s: 3_600.0)
    async with serve_http(Gateway(Limits())) as http:
        scrapes = [asyncio.create_task(get(http, "/metrics")) for _ in range(5)]
        assert (await get(http, "/healthz"))[0] == 200
        assert not any(scrape.done() for scrape in scrapes)
        answered.set()
        texts = {await scrape for scrape in scrapes}
    assert [(code, text.endswith("all of them\n")) for code, text in texts] == [(200, True)]
    assert made == 1


async def test_counters_keep_what_forgotten_streams_have_counted() -> None:
    gateway = Gateway(Limits())
    stream = gateway.stream("orders/0")
    stream.received_messages, stream.received_bytes, stream.tally.total = 7, 70, 5
    async with serve_http(gateway, stream_metrics=True) as http:
        before = await scrape(http)
        gateway.forget_stream(stream)
        after = await scrape(http)
    for name, value in (("received_messages_total", 7), ("received_bytes_total", 70), ("acknowledged_messages_total", 5)):
        assert before[key(name)] == after[key(name)] == value
    assert key("stream_received_messages_total", stream="orders/0") in before
    assert key("stream_received_messages_total", stream="orders/0") not in after


async def test_a_token_without_admin_reads_no_metrics_and_clients_choose_the_format() -> None:
    async with serve_http(Gateway(Limits()), [OPERATOR, ORDERS]) as http:
        codes_of: dict[str | None, Any] = {
            caller: (await get(http, "/metrics", caller))[0] for caller in (None, "orders", "operator")
        }
        assert codes_of == {None: 401, "orders": 403, "operator": 200}
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        _, text = await get(http, "/metrics", "operator", headers=accept)
        assert text.endswith("# EOF\n")


async def test_connectors_are_counted_by_name_and_the_hundredth_and_following_together() -> None:
    error = ConnectorError(message="the broker is away")
    async with serve() as (gateway, address), serve_http(gateway) as http:
        connectors = []
        for n in range(MAX_CONNECTORS + 20):
            connectors.append(Connector(address))
            await connectors[-1].hello(f"instance-{n}", f"connector-{n:03}")
        first = connectors[0]
        await first.send(report=Report(state=CONNECTOR_STATE_RUNNING, errors=[error, error]))
        await scrape_until(http, "connector_errors_total", 2, role="source", connector="connector-000")
        await first.close()
        again = Connector(address)
        await again.hello("instance-0", "connector-000")
        found = await scrape_until(http, "connector_sessions_total", 2, role="source", connector="connector-000")
        assert found[key("connector_errors_total", role="source", connector="connector-000")] == 2
        assert found[key("connector_sessions_total", role="source", connector=OTHERS)] == 20
        assert sum(name == "headrace_connector_sessions_total" for name, _ in found) == MAX_CONNECTORS + 1
        for connector in (*connectors[1:], again):
            await connector.close()


async def test_frames_of_a_connector_are_counted_with_duplicates_and_those_of_a_sink_are_not() -> None:
    async with (
        serve() as (gateway, address),
        serve_http(gateway) as http,
        sink_and_source(address) as (_, _, source, reader),
    ):
        await source.send(frame=numbered(1, 1, 3))
        await reader.plan_until("orders/0", 3)
        found = await scrape(http)
        assert found[key("connector_sent_messages_total", role="source", connector="test")] == 3
        assert found[key("connector_sent_frames_total", role="source", connector="test")] == 1
        assert found[key("connector_sent_bytes_total", role="source", connector="test")] > 0
        assert key("connector_sent_frames_total", role="sink", connector="test") not in found
        assert found[key("connector_sessions_total", role="sink", connector="test")] == 1


async def test_a_run_says_what_its_steps_have_done_and_a_replaced_run_says_nothing_more() -> None:
    async with (
        serve() as (gateway, address),
        serve_http(gateway) as http,
        sink_and_source(address) as (_, writer, _, _),
    ):
        step = StepMetrics(step="count", received=7, sent=5, late=1, failed=1, time_us=1_500_000, keys=4)
        step.MergeFrom(StepMetrics(fired=2, violated=6, further=8))
        stages = [StageTime(stage="addBatch", time_ms=2_500)]
        series = [
            MetricSeries(metric="rejected", value="stock", count=3),
            MetricSeries(metric="price", count=5, sum=12.5, bounds=[0.5, 10], buckets=[1, 4]),
        ]
        await writer.report_commits(metrics=RunMetrics(batches=3, steps=[step], stages=stages, state_bytes=900, series=series))
        found = await scrape(http)
        of_step = {"pipeline": "p", "step": "count"}
        expected = {
            key("pipeline_batches_total", pipeline="p"): 3,
            key("pipeline_stage_seconds_total", pipeline="p", stage="addBatch"): 2.5,
            key("pipeline_state_bytes", pipeline="p"): 900,
            key("step_received_messages_total", **of_step): 7,
            key("step_sent_messages_total", **of_step): 5,
            key("step_late_messages_total", **of_step): 1,
            key("step_failed_messages_total", **of_step): 1,
            key("step_violating_messages_total", **of_step): 6,
            key("step_further_messages_total", **of_step): 8,
            key("step_fired_timers_total", **of_step): 2,
            key("step_seconds_total", **of_step): 1.5,
            key("step_state_keys", **of_step): 4,
            key("application_counts_total", pipeline="p", metric="rejected", value="stock"): 3,
            key("application_histogram_buckets_total", pipeline="p", metric="price", value="", le="0.5"): 1,
            key("application_histogram_buckets_total", pipeline="p", metric="price", value="", le="10.0"): 4,
            key("application_histogram_buckets_total", pipeline="p", metric="price", value="", le="+Inf"): 5,
            key("application_histogram_sum", pipeline="p", metric="price", value=""): 12.5,
        }
        assert {name: found.get(name) for name in expected} == expected
        newer = Writer(address, "r2", readers=["p"])
        await newer.report_commits(metrics=RunMetrics(batches=1))
        with pytest.raises(grpc.aio.AioRpcError, match="r2"):
            await writer.report_commits(metrics=RunMetrics(batches=4))
        found = await scrape(http)
        assert found[key("pipeline_batches_total", pipeline="p")] == 1
        assert key("step_received_messages_total", **of_step) not in found
        await newer.report_commits()
        assert (await scrape(http))[key("pipeline_batches_total", pipeline="p")] == 1
        await newer.close()

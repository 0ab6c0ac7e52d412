"""Metrics that are exported by OTLP: what a collector receives, and what happens without one."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as pb_grpc
from tests.gateway.processes import gateway_process, headrace
from tests.gateway.sink_wire import sink_and_source
from tests.gateway.wire import DEADLINE_S, numbered, serve

from headrace.gateway import Http, Limits
from headrace.gateway.core import Gateway
from headrace.gateway.observer import Observer
from headrace.gateway.telemetry import export
from headrace.gateway.telemetry.export import export_interval_s, exporting_metrics
from headrace.gateway.telemetry.instruments import INSTRUMENTS
from headrace.telemetry import ExportRepeats, export_endpoint


class Collector(pb_grpc.MetricsServiceServicer):
    """A collector that keeps what it receives, or does not answer."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[pb.ExportMetricsServiceRequest] = asyncio.Queue()
        self.headers: dict[str, str] = {}
        self.hangs = False

    async def Export(
        self, request: pb.ExportMetricsServiceRequest, context: grpc.aio.ServicerContext
    ) -> pb.ExportMetricsServiceResponse:
        self.headers = {name: str(value) for name, value in context.invocation_metadata() or ()}
        self.received.put_nowait(request)
        if self.hangs:
            await asyncio.Event().wait()
        return pb.ExportMetricsServiceResponse()


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[Collector, str]]:
    """A collector, and its URL."""
    collector, server = Collector(), grpc.aio.server()
    pb_grpc.add_MetricsServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield collector, f"http://127.0.0.1:{port}"
    finally:
        await server.stop(None)


def values(request: pb.ExportMetricsServiceRequest) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Each value with its name and labels; of a histogram, how many values it has."""
    for metric in (m for r in request.resource_metrics for s in r.scope_metrics for m in s.metrics):
        for point in metric.histogram.data_points:
            yield metric.name, {}, point.count
        for number in (*metric.sum.data_points, *metric.gauge.data_points):
            value = number.as_double if number.HasField("as_double") else number.as_int
            yield metric.name, {label.key: label.value.string_value for label in number.attributes}, value


async def test_a_collector_receives_what_prometheus_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "export_interval_s", lambda: 0.05)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=numbers")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    async with (
        collecting() as (collector, url),
        serve() as (gateway, address),
        exporting_metrics(gateway, Observer(gateway, Http()), url, of_streams=True),
        sink_and_source(address) as (_, _, source, reader),
    ):
        await source.send(frame=numbered(1, 1, 3))
        await reader.plan_until("orders/0", 3)
        await reader.plan({"orders/0": 3}, wait_ms=0)
        async with asyncio.timeout(DEADLINE_S):
            while True:
                request = await collector.received.get()
                found = list(values(request))
                if ("headrace_acknowledged_messages", {}, 3) in found and ("headrace_commit_to_ack_seconds", {}, 1) in found:
                    break
    assert ("headrace_stream_received_messages", {"stream": "orders/0"}, 3) in found
    recorded = {f"headrace_{instrument.name}" for instrument in INSTRUMENTS}
    # A count that is still absent, such as of rejected sessions, has no series.
    absent = {"rejected_sessions", "degraded_seconds", "certificate_expires_timestamp_seconds"}
    assert {name for name, _, _ in found if "_stream_" not in name} >= recorded - {f"headrace_{name}" for name in absent}
    assert collector.headers["x-team"] == "numbers"
    resource = {each.key: each.value.string_value for each in request.resource_metrics[0].resource.attributes}
    assert resource["service.name"] == "headrace-gateway"
    assert resource["deployment.environment.name"] == "test"


async def test_the_last_values_are_exported_at_the_end_and_a_collector_that_hangs_does_not_delay_it() -> None:
    gateway = Gateway(Limits())
    async with collecting() as (collector, url):
        async with exporting_metrics(gateway, Observer(gateway, Http()), url, of_streams=False):
            assert collector.received.empty()
        assert ("headrace_received_frames", {}, 0) in list(values(collector.received.get_nowait()))
        collector.hangs = True
        async with asyncio.timeout(export.LAST_EXPORT_S + DEADLINE_S / 4):
            async with exporting_metrics(gateway, Observer(gateway, Http()), url, of_streams=False):
                pass


async def test_without_a_collector_the_gateway_works_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(export, "export_interval_s", lambda: 0.01)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    # OpenTelemetry's own filter drops what another test has logged less than 20 s ago.
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("opentelemetry.exporter")]:
        monkeypatch.setattr(logging.getLogger(name), "filters", [])
    async with (
        serve() as (gateway, address),
        exporting_metrics(gateway, Observer(gateway, Http()), "http://127.0.0.1:1", of_streams=False),
    ):
        async with asyncio.timeout(DEADLINE_S):
            while not any("Failed to export" in record.getMessage() for record in caplog.records):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        async with sink_and_source(address) as (_, _, source, reader):
            await source.send(frame=numbered(1, 1, 3))
            await reader.plan_until("orders/0", 3)
    told = [record.getMessage() for record in caplog.records if record.name.startswith("opentelemetry.exporter")]
    assert len(told) == 1
    assert "127.0.0.1:1" in told[0]


async def test_an_exporter_that_cannot_be_made_leaves_the_gateway_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
    gateway = Gateway(Limits())
    entered = False
    async with exporting_metrics(gateway, Observer(gateway, Http()), "http://127.0.0.1:1", of_streams=False):
        entered = True
    assert entered


def test_each_kind_of_error_is_logged_once_in_a_while() -> None:
    repeats = ExportRepeats(3_600)

    def passes(level: int, text: str, *args: object) -> bool:
        return repeats.filter(logging.LogRecord("x", level, "", 0, text, args, None))

    assert [passes(logging.ERROR, "failed to export %s: %s", what, n) for n in range(3) for what in ("metrics", "traces")] == [
        True,
        True,
        *[False] * 4,
    ]
    assert not passes(logging.WARNING, "is tried again")
    assert ExportRepeats(0).filter(logging.LogRecord("x", logging.ERROR, "", 0, "again", (), None))


def test_the_endpoint_is_the_configured_one_or_that_of_the_standard_variables() -> None:
    general, own = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}, {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://b:2"}
    assert export_endpoint("metrics", "", {}) is None
    assert export_endpoint("metrics", "", general) == "http://a:1"
    assert export_endpoint("metrics", "", {**general, **own}) == "http://b:2"
    assert export_endpoint("traces", "", {**general, **own}) == "http://a:1"
    assert export_endpoint("metrics", "http://c:3", {**general, **own}) == "http://c:3"
    assert export_endpoint("metrics", "http://c:3", {"OTEL_METRICS_EXPORTER": "none"}) is None
    assert [export_interval_s({"OTEL_METRIC_EXPORT_INTERVAL": text}) for text in ("5000", "1", "soon")] == [5.0, 1.0, 60.0]


async def test_a_gateway_exports_where_its_configuration_says(tmp_path: Path) -> None:
    async with collecting() as (collector, url):
        file = tmp_path / "gateway.toml"
        file.write_text(f'[telemetry]\notlp_endpoint = "{url}"\n')

        def run() -> str:
            with gateway_process("--config", file, environ={"OTEL_METRIC_EXPORT_INTERVAL": "1000"}) as gateway:
                gateway.wait_for_log("gateway exports metrics")
                gateway.process.terminate()
                assert gateway.wait() == 0
                return gateway.log

        log = await asyncio.to_thread(run)
        assert ("headrace_received_frames", {}, 0) in list(values(collector.received.get_nowait()))
    assert "Traceback" not in log


def test_a_wrong_endpoint_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('[telemetry]\notlp_endpoint = "localhost:4317"\n')
    done = headrace("gateway", "--config", file, "--check")
    assert done.returncode == 2
    assert "'localhost:4317' is not the URL of a collector" in done.stderr

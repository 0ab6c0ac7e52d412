"""Exports the metrics by OTLP, if an endpoint is configured. Whatever happens to it, the gateway continues."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult, MetricsData

from headrace.gateway.core import Gateway
from headrace.gateway.observer import Observation, Observer
from headrace.gateway.telemetry.measuring import CARDINALITY_LIMITS, Measuring
from headrace.telemetry import ExportRepeats

DEFAULT_INTERVAL_MS = 60_000
LAST_EXPORT_S = 2.0
"""How long the last export may take when the gateway stops, in seconds."""
REPEAT_S = 60.0
"""How often the log repeats that an export has failed, in seconds."""
_EXPORTER_LOG = "opentelemetry.exporter.otlp.proto.grpc.exporter"

_log = logging.getLogger(__name__)


@asynccontextmanager
async def exporting_metrics(gateway: Gateway, observer: Observer, endpoint: str, *, of_streams: bool) -> AsyncIterator[None]:
    """Exports the metrics of a gateway in the block, and once more at its end.

    Args:
        gateway: The gateway.
        observer: Takes the snapshots.
        endpoint: The URL of the collector.
        of_streams: Whether there are series for each stream.
    """
    repeats = ExportRepeats(REPEAT_S)
    exporter_log = logging.getLogger(_EXPORTER_LOG)
    exporter_log.addFilter(repeats)
    try:
        try:
            export = _Export(gateway, observer, endpoint, of_streams=of_streams)
        except Exception as error:
            # The exporter reads the standard variables itself, and files that they name.
            _log.error("metrics are not exported", extra={"endpoint": endpoint, "error": f"{type(error).__name__}: {error}"})
            yield
            return
        _log.info("gateway exports metrics", extra={"endpoint": endpoint, "interval_s": export_interval_s()})
        running = asyncio.create_task(export.run(export_interval_s()))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await export.close()
    finally:
        exporter_log.removeFilter(repeats)


class _Export:
    """Sends observations to a collector, one at a time, in a thread of its own."""

    def __init__(self, gateway: Gateway, observer: Observer, endpoint: str, *, of_streams: bool) -> None:
        self._observer = observer
        self._exporter = OTLPMetricExporter(endpoint)
        self._measuring = Measuring(gateway, self._reader, prefix="headrace_", of_streams=of_streams)
        self._thread = ThreadPoolExecutor(1, "headrace-otlp")
        self._succeeds = True

    async def run(self, interval_s: float) -> None:
        """Exports until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            await self._export()

    async def close(self) -> None:
        """Exports once more, if that does not take long, and ends the thread."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._export(), LAST_EXPORT_S)
        # Ends a call in progress.
        self._exporter.shutdown()
        await asyncio.to_thread(self._thread.shutdown)

    async def _export(self) -> None:
        observed = await self._observer.observe()
        try:
            succeeded = await asyncio.get_running_loop().run_in_executor(self._thread, self._send, observed)
        except Exception:
            if self._succeeds:
                _log.exception("metrics cannot be exported")
            succeeded = False
        if succeeded and not self._succeeds:
            _log.info("metrics are exported again")
        self._succeeds = succeeded

    def _send(self, observed: Observation) -> bool:
        with self._measuring.reading(observed) as readers:
            found = [data for reader in readers if (data := reader.get_metrics_data()) is not None]
        return self._exporter.export(_merged(found)) is MetricExportResult.SUCCESS

    def _reader(self) -> InMemoryMetricReader:
        return InMemoryMetricReader(cardinality_limits=CARDINALITY_LIMITS)


def _merged(exports: Sequence[MetricsData]) -> MetricsData:
    """Returns metrics of one resource and scope as one: of several, the exporter would send the last."""
    first = next((resource for data in exports for resource in data.resource_metrics), None)
    if first is None:
        return MetricsData([])
    scopes = [scope for data in exports for resource in data.resource_metrics for scope in resource.scope_metrics]
    metrics = [metric for scope in scopes for metric in scope.metrics]
    return MetricsData([replace(first, scope_metrics=[replace(scopes[0], metrics=metrics)])])


def export_interval_s(environ: Mapping[str, str] = os.environ) -> float:
    """Returns the interval between exports of metrics, in seconds; at least one."""
    with suppress(ValueError):
        return max(1_000, int(environ.get("OTEL_METRIC_EXPORT_INTERVAL", ""))) / 1000
    return DEFAULT_INTERVAL_MS / 1000

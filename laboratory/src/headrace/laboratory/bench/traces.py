"""The cost for a gateway of creating and exporting the spans of sampled messages."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import grpc
from pyspark.sql import SparkSession

from headrace.laboratory.bench.core import drain
from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.queries import headrace, noop
from headrace.laboratory.bench.rig import acknowledged_rate, connector, gateway
from headrace.laboratory.bench.site import Run, overhead

_STOP_S = 5.0
_SERVICES = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "spans",
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
}


def traces_overhead(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Messages per second while spans are exported, against a gateway that exports nothing.

    All messages have a `traceparent`, and 1 % are sampled.
    """
    messages = 400_000 if quick else 4_000_000
    drain(spark, messages=100_000 if quick else 400_000, sampled=0.01)
    yield from overhead("traces_overhead", "spans", partial(_run, spark, messages), say, quick)


def _run(spark: SparkSession, messages: int, exports: bool) -> Run:
    with tempfile.TemporaryDirectory() as folder, _collecting() as (url, received):
        config = Path(folder) / "gateway.toml"
        config.write_text(f'[telemetry]\notlp_endpoint = "{url}"\n' if exports else "")
        with gateway("--config", str(config)) as running, noop(headrace(spark, running.address)):
            begun = running.cpu_s()
            with connector(running.address, "fast", messages=messages, sampled=0.01) as source:
                moments = source.result(timeout_s=300)["acknowledged"]
            found = Run(acknowledged_rate(moments), (running.cpu_s() - begun) * 1e6 / messages)
        if exports and "spans" not in received:
            raise RuntimeError("the gateway has exported no spans; set no OTEL_TRACES_EXPORTER and no OTEL_SDK_DISABLED")
        return found


@contextmanager
def _collecting() -> Iterator[tuple[str, set[str]]]:
    """A collector that drops what it receives; yields its URL, and what it has received: spans or metrics."""
    received = set[str]()

    def service(name: str, what: str) -> grpc.GenericRpcHandler:
        def export(request: bytes, context: grpc.ServicerContext) -> bytes:
            received.add(what)
            return b""

        return grpc.method_handlers_generic_handler(name, {"Export": grpc.unary_unary_rpc_method_handler(export)})

    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([service(name, what) for name, what in _SERVICES.items()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", received
    finally:
        server.stop(_STOP_S).wait()

"""A collector of spans in a process of its own: it receives OTLP over gRPC, and writes each span as a line of JSON.

`python -m tests.telemetry.collector FOLDER` writes its URL to `FOLDER/url`, the spans to `FOLDER/spans`, and the requests as they
are to `FOLDER/raw`.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as pb_grpc
from opentelemetry.proto.common.v1 import common_pb2

DEADLINE_S = 150.0


@dataclass(frozen=True)
class Span:
    """A span as the collector has received it."""

    service: str
    schema: str
    name: str
    kind: int
    trace: str
    parent: str
    links: list[tuple[str, str]]
    attributes: dict[str, Any]
    begun_ns: int
    ended_ns: int
    status: int

    @property
    def operation(self) -> str:
        """Its operation."""
        return str(self.attributes["messaging.operation.name"])


class Service(pb_grpc.TraceServiceServicer):
    """Writes what it receives."""

    def __init__(self, folder: Path) -> None:
        self._spans, self._raw = (folder / "spans").open("a"), (folder / "raw").open("ab")

    def Export(self, request: pb.ExportTraceServiceRequest, context: grpc.ServicerContext) -> pb.ExportTraceServiceResponse:
        self._raw.write(request.SerializeToString())
        self._raw.flush()
        for resource in request.resource_spans:
            service = _attributes(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    found = Span(
                        service,
                        scope.schema_url,
                        span.name,
                        span.kind,
                        span.trace_id.hex(),
                        span.parent_span_id.hex(),
                        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                        _attributes(span.attributes),
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        span.status.code,
                    )
                    self._spans.write(json.dumps(vars(found)) + "\n")
        self._spans.flush()
        return pb.ExportTraceServiceResponse()


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: common_pb2.AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)


@dataclass(frozen=True)
class Collector:
    """A collector that runs."""

    folder: Path
    url: str

    def spans(self) -> list[Span]:
        """The spans and metrics that it has received."""
        lines = (self.folder / "spans").read_text().splitlines(keepends=True)
        return [
            Span(**{**found, "links": [tuple(link) for link in found["links"]]})
            for found in (json.loads(line) for line in lines if line.endswith("\n"))
        ]

    def wait_for(self, *names: str) -> list[Span]:
        """Waits until it has a span of each of these names; returns all spans."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            spans = self.spans()
            if not set(names) - {span.name for span in spans}:
                return spans
            assert time.monotonic() < deadline, f"of {names}, only {[span.name for span in spans]} have come"
            time.sleep(0.05)

    @property
    def raw(self) -> bytes:
        """The requests that it has received."""
        return (self.folder / "raw").read_bytes()


@contextmanager
def collector(folder: Path) -> Iterator[Collector]:
    """Runs a collector."""
    folder.mkdir()
    process = subprocess.Popen([sys.executable, "-m", "tests.telemetry.collector", str(folder)])
    try:
        deadline, url = time.monotonic() + DEADLINE_S, folder / "url"
        while not (url.exists() and url.read_text().endswith("\n")):
            assert process.poll() is None, "the collector has ended"
            assert time.monotonic() < deadline, "the collector does not listen"
            time.sleep(0.02)
        yield Collector(folder, url.read_text().strip())
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    server = grpc.server(ThreadPoolExecutor(2))
    pb_grpc.add_TraceServiceServicer_to_server(Service(place), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    (place / "url").write_text(f"http://127.0.0.1:{port}\n")
    server.wait_for_termination()

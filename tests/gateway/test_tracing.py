"""Which spans a gateway creates of the frames and parts that pass through it."""

import asyncio
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import StatusCode
from tests.captured_logs import capture_logs
from tests.gateway.sink_wire import sink_and_source
from tests.gateway.wire import DEADLINE_S, frame, numbered, serve, until_gone

from headrace.gateway.core import Gateway
from headrace.gateway.telemetry import tracing
from headrace.gateway.telemetry.tracing import GatewayTracing
from headrace.protocol.v1 import sink_pb2
from headrace.protocol.v1.frame_pb2 import Frame
from headrace.telemetry.spans import Spans

SAMPLED = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = b"00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def traced(frame: Frame, traceparent: bytes = SAMPLED) -> Frame:
    """A frame whose first message has a `traceparent`."""
    frame.header_counts = struct.pack(f"<{frame.count}I", 1, *[0] * (frame.count - 1))
    frame.header_names, frame.header_name_lengths = b"traceparent", struct.pack("<I", 11)
    frame.header_values, frame.header_value_lengths = traceparent, struct.pack("<I", len(traceparent))
    return frame


class Created:
    """The spans that were created since the last look."""

    def __init__(self, spans: Spans, exported: list[ReadableSpan]) -> None:
        self._spans, self._exported = spans, exported

    def take(self) -> list[ReadableSpan]:
        self._spans.flush()
        found = self._exported[:]
        self._exported.clear()
        return found

    async def next(self) -> ReadableSpan:
        """The next span: an acknowledgement's ends when it is written, and its reader may be earlier."""
        async with asyncio.timeout(DEADLINE_S):
            while not (found := self.take()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        (span,) = found
        return span

    def names(self) -> list[str]:
        return [span.name for span in self.take()]


@contextmanager
def tracing_of(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Created]:
    exported: list[ReadableSpan] = []

    def export(self: OTLPSpanExporter, spans: list[ReadableSpan]) -> SpanExportResult:
        exported.extend(spans)
        return SpanExportResult.SUCCESS

    monkeypatch.setattr(OTLPSpanExporter, "export", export)
    spans = Spans("http://127.0.0.1:1", "test", "0")
    gateway.tracing = GatewayTracing(spans)
    yield Created(spans, exported)
    gateway.tracing = None
    spans.close(1.0)


async def test_frames_and_parts_have_spans_if_a_message_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as (gateway, address), sink_and_source(address) as (_, _, source, reader):
        with tracing_of(gateway, monkeypatch) as created:
            await source.send(frame=traced(numbered(1, 1, 3), UNSAMPLED))
            await source.send(frame=numbered(1, 4, 3))
            await reader.plan_until("orders/0", 6)
            assert created.take() == []
            await source.send(frame=traced(numbered(1, 7, 3)))
            await source.send(frame=numbered(1, 10, 1))
            await reader.plan_until("orders/0", 10)
            (received,) = created.take()
            assert received.name == "receive orders/0"
            assert dict(received.attributes or {})["messaging.batch.message_count"] == 3
            assert dict(received.attributes or {})["headrace.sequence.last"] == 9
            # An acknowledgement within the frame does not complete it.
            await reader.plan({"orders/0": 8}, wait_ms=0)
            await source.expect("ack")
            assert created.take() == []
            await reader.plan({"orders/0": 10}, wait_ms=0)
            await source.expect("ack")
            settled = await created.next()
            assert settled.name == "settle orders/0"
            assert [span.context.trace_id for span in (received, settled) if span.context] == [int(SAMPLED[3:35], 16)] * 2


async def test_frames_that_wait_are_bounded_and_forgotten_with_their_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MAX_UNSETTLED", 2)
    async with serve() as (gateway, address):
        with tracing_of(gateway, monkeypatch) as created:
            async with sink_and_source(address) as (_, _, source, reader):
                for first in (1, 2, 3):
                    await source.send(frame=traced(numbered(1, first, 1)))
                await reader.plan_until("orders/0", 3)
                assert created.names() == ["receive orders/0"] * 3
                await reader.plan({"orders/0": 3}, wait_ms=0)
                await source.expect("ack")
                settled = await created.next()
                assert dict(settled.attributes or {})["messaging.batch.message_count"] == 2
                for first in (4, 5):
                    await source.send(frame=traced(numbered(1, first, 1)))
                await reader.plan_until("orders/0", 5)
                await source.close()
                await until_gone(address, "test-0")
            assert created.names() == ["receive orders/0"] * 2
            assert gateway.tracing is not None
            assert vars(gateway.tracing)["_held"] == 0


async def test_parts_have_spans_with_the_type_of_the_error_if_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as (gateway, address), sink_and_source(address) as (sink, writer, _, _):
        with tracing_of(gateway, monkeypatch) as created:
            staged = writer.deliver_packed(writer.part(0), traced(frame(0, 0, [b"a", b"b"])))
            await sink.take_part()
            await staged
            lost = writer.deliver_packed(writer.part(0, 1), traced(frame(0, 0, [b"secret"])))
            await sink.expect("start_part")
            await sink.expect("frame")
            with capture_logs() as logs:
                await sink.close()
                with pytest.raises(grpc.aio.AioRpcError):
                    await lost
            sent, failed = created.take()
    assert [span.name for span in (sent, failed)] == ["send out", "send out"]
    attributes = dict(sent.attributes or {})
    assert (attributes["headrace.pipeline"], attributes["headrace.batch"], attributes["headrace.partition"]) == ("query", 0, 0)
    assert sent.status.status_code is StatusCode.UNSET
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, None)
    assert dict(failed.attributes or {})["error.type"] == "SinkAway"
    (logged,) = (line for line in logs if line["event"] == "a delivery failed")
    assert (logged["trace_id"], logged["batch"], logged["partition"]) == (SAMPLED[3:35].decode(), 0, 1)
    assert logged["session"]
    assert logged["instance"] == "i"


async def test_what_a_sink_says_of_a_part_that_it_refuses_is_logged_with_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as (gateway, address), sink_and_source(address) as (sink, writer, _, _):
        with tracing_of(gateway, monkeypatch), capture_logs() as logs:
            for message in (traced(frame(0, 0, [b"a"])), frame(0, 0, [b"not traced"])):
                delivery = writer.deliver_packed(writer.part(0, attempt=str(len(logs))), message)
                start = await sink.expect("start_part")
                await sink.expect("frame")
                await sink.send(failed=sink_pb2.Failed(part_id=start.id, reason="full"))
                with pytest.raises(grpc.aio.AioRpcError):
                    await delivery
                await sink.expect("end_part")
    failed = [line for line in logs if line["event"] == "a sink failed"]
    assert [line.get("trace_id") for line in failed] == [SAMPLED[3:35].decode(), None]

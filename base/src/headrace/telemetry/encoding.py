"""Spans with many links, and their encoding by OTLP.

The SDK creates and encodes an object for each link; for a gateway, which links a span to up to 32 messages, that was most of the
cost of its spans. These spans keep the headers as they are until they are encoded, and are the same on the wire.
"""

from binascii import unhexlify
from collections.abc import Mapping, Sequence

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, SpanFlags
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_KINDS = {
    SpanKind.CLIENT: Span.SPAN_KIND_CLIENT,
    SpanKind.CONSUMER: Span.SPAN_KIND_CONSUMER,
}
_OF_ANOTHER_PROCESS = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_CODES = {
    StatusCode.UNSET: trace_pb2.Status.STATUS_CODE_UNSET,
    StatusCode.ERROR: trace_pb2.Status.STATUS_CODE_ERROR,
}
_new_id = RandomIdGenerator().generate_span_id


class MessagesSpan(ReadableSpan):
    """The span of an operation on messages. The first context is its parent; it has links to all of them.

    Args:
        name: Its name.
        kind: Its kind: CLIENT or CONSUMER.
        contexts: The contexts of the sampled messages, at least one, each a valid header `traceparent`.
        attributes: Its attributes.
        status: Its status.
        begun_ns: When it began, in nanoseconds since 1970 UTC.
        ended_ns: When it ended.
        resource: The process.
        scope: What created it.
    """

    def __init__(
        self,
        name: str,
        kind: SpanKind,
        contexts: Sequence[bytes],
        attributes: Mapping[str, str | int],
        status: Status,
        begun_ns: int,
        ended_ns: int,
        resource: Resource,
        scope: InstrumentationScope,
    ) -> None:
        self.contexts = contexts
        parent = _context(contexts[0])
        super().__init__(
            name,
            SpanContext(parent.trace_id, _new_id(), is_remote=False, trace_flags=_SAMPLED),
            parent,
            resource,
            attributes,
            kind=kind,
            status=status,
            start_time=begun_ns,
            end_time=ended_ns,
            instrumentation_scope=scope,
        )

    @property
    def links(self) -> Sequence[Link]:
        """The links to the contexts."""
        return tuple(Link(_context(context)) for context in self.contexts)


class MessagesSpanExporter(OTLPSpanExporter):
    """Exports spans of one process and one scope."""

    _empty: ExportTraceServiceRequest | None = None
    """A request with the resource and the scope, and no span."""

    def _translate_data(self, data: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
        if self._empty is None:
            self._empty = encode_spans(data[:1])
            self._empty.resource_spans[0].scope_spans[0].ClearField("spans")
        request = ExportTraceServiceRequest()
        request.CopyFrom(self._empty)
        spans = request.resource_spans[0].scope_spans[0]
        for span in data:
            assert isinstance(span, MessagesSpan)
            _encode(span, spans)
        return request


def _encode(span: MessagesSpan, into: ScopeSpans) -> None:
    own, first = span.get_span_context(), span.contexts[0]
    assert own is not None
    encoded = into.spans.add(
        trace_id=unhexlify(first[3:35]),
        span_id=own.span_id.to_bytes(8),
        parent_span_id=unhexlify(first[36:52]),
        name=span.name,
        kind=_KINDS[span.kind],
        start_time_unix_nano=span.start_time,
        end_time_unix_nano=span.end_time,
        attributes=[KeyValue(key=name, value=_value(value)) for name, value in (span.attributes or {}).items()],
        flags=_OF_ANOTHER_PROCESS,
    )
    encoded.status.SetInParent()
    encoded.status.code = _CODES[span.status.status_code]
    for context in span.contexts:
        encoded.links.add(trace_id=unhexlify(context[3:35]), span_id=unhexlify(context[36:52]), flags=_OF_ANOTHER_PROCESS)


def _value(value: object) -> AnyValue:
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=str(value))


def _context(traceparent: bytes) -> SpanContext:
    text = traceparent.decode("ascii")
    return SpanContext(int(text[3:35], 16), int(text[36:52], 16), is_remote=True, trace_flags=TraceFlags(int(text[53:55], 16)))

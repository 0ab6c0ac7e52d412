"""The encoding of spans gives what the SDK gives, and reads the headers of messages as it reads contexts."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind, Status, StatusCode

from headrace.telemetry.encoding import MessagesSpan, MessagesSpanExporter

RESOURCE = Resource.create({"service.name": "test", "service.version": "0"})
SCOPE = InstrumentationScope("headrace", "0", "https://opentelemetry.io/schemas/1.44.0")

contexts = st.builds(
    lambda trace, span, flags: f"00-{trace:032x}-{span:016x}-{flags:02x}".encode(),
    st.integers(1, 2**128 - 1),
    st.integers(1, 2**64 - 1),
    st.integers(0, 127).map(lambda number: 2 * number + 1),
)
attributes = st.dictionaries(
    st.text(min_size=1, max_size=20), st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20), max_size=8
)
calls = st.tuples(
    st.text(max_size=30),
    st.sampled_from([SpanKind.CLIENT, SpanKind.CONSUMER]),
    st.lists(contexts, min_size=1, max_size=3),
    attributes,
    st.sampled_from([Status(StatusCode.UNSET), Status(StatusCode.ERROR)]),
    st.integers(0, 2**63),
    st.integers(0, 2**63),
    st.just(RESOURCE),
    st.just(SCOPE),
)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.lists(calls, min_size=1, max_size=2), min_size=1, max_size=2))
def test_each_request_is_the_same_as_that_of_the_sdk(given: list[list[Any]]) -> None:
    batches = [[MessagesSpan(*call) for call in calls] for calls in given]
    sent: list[Any] = []

    class Client:
        def Export(self, request: Any, **_: Any) -> None:
            sent.append(request)

    exporter = MessagesSpanExporter("http://127.0.0.1:1", insecure=True)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exporter, "_client", Client())
            assert [exporter.export(batch) for batch in batches] == [SpanExportResult.SUCCESS] * len(batches)
    finally:
        exporter.shutdown()
    assert sent == [encode_spans(batch) for batch in batches]

"""A connector's spans are connected with its messages by their headers."""

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from headrace.sdk import Headers
from headrace.sdk.tracing import extract, inject

TRACEPARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SPAN = SpanContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, is_remote=False, trace_flags=TraceFlags(1))


def test_a_source_adds_the_current_span_to_the_headers() -> None:
    with trace.use_span(NonRecordingSpan(SPAN)):
        assert inject([("a", None)]) == [("a", None), ("traceparent", TRACEPARENT)]
    assert inject(None, trace.set_span_in_context(NonRecordingSpan(SPAN))) == [("traceparent", TRACEPARENT)]


def test_without_a_span_and_with_a_traceparent_headers_are_unchanged() -> None:
    assert inject() == []
    theirs: Headers = [("traceparent", b"of a producer")]
    with trace.use_span(NonRecordingSpan(SPAN)):
        assert inject(theirs) == theirs


def test_a_sink_finds_the_span_of_a_message() -> None:
    found = trace.get_current_span(extract([("a", None), ("b", b"\xff"), ("traceparent", TRACEPARENT)])).get_span_context()
    assert (found.trace_id, found.span_id, found.is_remote) == (SPAN.trace_id, SPAN.span_id, True)


def test_a_message_without_a_valid_traceparent_has_no_span() -> None:
    for headers in (None, [], [("traceparent", b"\xff")], [("traceparent", None)]):
        assert not trace.get_current_span(extract(headers)).get_span_context().is_valid

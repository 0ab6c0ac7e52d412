"""Connects the spans of a connector with its messages, by their headers. Needs `headrace-sdk[tracing]`.

The SDK creates no spans itself: the gateway does, for connectors in any language. Where a connector creates spans of its own, a
source has `inject` add their context to its messages, and a sink has `extract` find the context of the message that it writes.
"""

from collections.abc import Iterable

from opentelemetry import propagate
from opentelemetry.context import Context

from headrace.sdk.wire import Headers

_TRACEPARENT = "traceparent"


def inject(headers: Headers | None = None, context: Context | None = None) -> Headers:
    """Returns headers with the context of a span, for a message of a source.

    Headers that have a `traceparent` are returned unchanged: the message is in a trace already.

    Args:
        headers: The headers of the message.
        context: The context of the span; by default, the current one.
    """
    own = list(headers or ())
    if any(name == _TRACEPARENT for name, _ in own):
        return own
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    return [*own, *((name, value.encode()) for name, value in carrier.items())]


def extract(headers: Headers | None) -> Context:
    """Returns the context of a message, as the parent of a span or for a link; an empty one if it has none."""
    return propagate.extract(_carrier(headers or ()))


def _carrier(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    return {name: value.decode("ascii", "replace") for name, value in headers if value is not None}

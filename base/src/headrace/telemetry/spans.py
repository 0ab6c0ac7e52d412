"""Creates the spans of operations on messages, by the semantic conventions for messaging, and exports them by OTLP."""

import logging
import time
from collections.abc import Iterable, Mapping
from enum import Enum
from threading import Thread

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind, Status, StatusCode

from headrace.telemetry._exporting import ExportRepeats
from headrace.telemetry.encoding import MessagesSpan, MessagesSpanExporter

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the semantic conventions whose names are used."""
REPEAT_S = 60.0
"""How often the log repeats that an export has failed, in seconds."""

_LOGS = ("opentelemetry.exporter.otlp.proto.grpc.exporter", "opentelemetry.sdk._shared_internal")


class Operation(Enum):
    """The operations, each with the kind that the conventions give its span."""

    RECEIVE = SpanKind.CLIENT, "receive"
    PROCESS = SpanKind.CONSUMER, "process"
    SEND = SpanKind.CLIENT, "send"
    SETTLE = SpanKind.CLIENT, "settle"


class Spans:
    """The spans of a process. A collector that is away, or slow, costs spans and nothing else.

    Args:
        endpoint: The URL of the collector.
        service: The process, as `service.name`, unless the standard variables name it.
        version: Its version.
        delay_ms: How long spans are collected for an export, in milliseconds; None for the default of the standard variables.

    Raises:
        Exception: A standard variable is invalid, or a file that one names cannot be read.
    """

    def __init__(self, endpoint: str, service: str, version: str, *, delay_ms: float | None = None) -> None:
        self._repeats = ExportRepeats(REPEAT_S)
        for name in _LOGS:
            logging.getLogger(name).addFilter(self._repeats)
        self._resource = Resource.create({"service.name": service, "service.version": version})
        self._scope = InstrumentationScope("headrace", version, SCHEMA_URL)
        self._exporter = MessagesSpanExporter(endpoint)
        self._processor = BatchSpanProcessor(self._exporter, schedule_delay_millis=delay_ms)

    def record(
        self,
        operation: Operation,
        destination: str,
        contexts: Iterable[bytes],
        messages: int,
        begun_ns: int,
        attributes: Mapping[str, str | int],
        error: str | None = None,
    ) -> None:
        """Creates a span that ends now. Nothing happens if there is no context.

        The first context is its parent, so that the span is in the trace of a message. It has links to all contexts.

        Args:
            operation: The operation.
            destination: The stream, sink or pipeline.
            contexts: The contexts of the sampled messages, from `sampled`.
            messages: The number of messages, sampled or not.
            begun_ns: When it began, in nanoseconds since 1970 UTC.
            attributes: Further attributes.
            error: The type of the error with which it failed; None if it did not.
        """
        # Only sampled messages have contexts, and no span begins a trace of its own.
        if not (found := tuple(contexts)):
            return
        kind, name = operation.value
        of_all: dict[str, str | int] = {
            "messaging.system": "headrace",
            "messaging.operation.name": name,
            "messaging.operation.type": name,
            "messaging.destination.name": destination,
            "messaging.batch.message_count": messages,
        }
        of_error: dict[str, str | int] = {} if error is None else {"error.type": error}
        span = MessagesSpan(
            f"{name} {destination}",
            kind,
            found,
            {**of_all, **attributes, **of_error},
            Status(StatusCode.UNSET if error is None else StatusCode.ERROR),
            begun_ns,
            # A clock that was set back must not end a span before it began.
            max(begun_ns, time.time_ns()),
            self._resource,
            self._scope,
        )
        self._processor.on_end(span)

    def flush(self) -> None:
        """Exports all spans that have ended, and waits until the collector has received them."""
        self._processor.force_flush()

    def close(self, within_s: float) -> None:
        """Exports the remaining spans for at most `within_s` seconds, and ends."""
        ending = Thread(target=self._processor.shutdown, name="headrace-spans-end", daemon=True)
        ending.start()
        ending.join(within_s)
        # Ends a call in progress.
        self._exporter.shutdown()
        ending.join()
        for name in _LOGS:
            logging.getLogger(name).removeFilter(self._repeats)

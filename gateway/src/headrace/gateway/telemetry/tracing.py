"""Creates the spans of messages on their way through the gateway, and exports them by OTLP, if an endpoint is configured."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from headrace.contract import clock
from headrace.gateway.core import VERSION, Gateway
from headrace.gateway.core.sinks import Part
from headrace.gateway.core.streams import Session
from headrace.protocol.v1 import frame_pb2
from headrace.telemetry import Contexts, sampled
from headrace.telemetry.spans import Operation, Spans

LAST_EXPORT_S = 2.0
"""How long the last export may take when the gateway stops, in seconds."""
MAX_UNSETTLED = 4096
"""How many frames are remembered until they are acknowledged, with the contexts of their messages."""

_log = logging.getLogger(__name__)


@asynccontextmanager
async def exporting_spans(gateway: Gateway, endpoint: str) -> AsyncIterator[None]:
    """Creates and exports spans in the block.

    Args:
        gateway: The gateway.
        endpoint: The URL of the collector.
    """
    try:
        spans = Spans(endpoint, "headrace-gateway", VERSION)
    except Exception as error:
        # The exporter reads the standard variables itself, and files that they name.
        _log.error("spans are not exported", extra={"endpoint": endpoint, "error": f"{type(error).__name__}: {error}"})
        yield
        return
    _log.info("gateway exports spans", extra={"endpoint": endpoint})
    gateway.tracing = GatewayTracing(spans)
    try:
        yield
    finally:
        gateway.tracing = None
        await asyncio.to_thread(spans.close, LAST_EXPORT_S)


@dataclass(slots=True)
class _Frames:
    """The frames of a stream that a session has sent, that have contexts, and that are not acknowledged."""

    stream: str
    frames: deque[tuple[int, int, Contexts]] = field(default_factory=deque)
    """Of each frame, its last sequence, its number of messages, and its contexts."""


class GatewayTracing:
    """Creates the spans of a gateway. Messages that are not sampled cost a look at their headers."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._unsettled: dict[str, dict[int, _Frames]] = {}
        """By session, and by stream id in it."""
        self._held = 0

    def received(self, session: Session, stream: str, frame: frame_pb2.Frame, last: int, begun_at: float) -> None:
        """Creates the span `receive` of a frame."""
        contexts = _contexts(frame)
        if not contexts:
            return
        attributes: dict[str, str | int] = {
            "messaging.client.id": session.instance,
            "headrace.sequence.first": frame.first_sequence,
            "headrace.sequence.last": last,
        }
        self._spans.record(Operation.RECEIVE, stream, contexts, frame.count, _unix_ns(begun_at), attributes)
        if self._held < MAX_UNSETTLED:
            self._held += 1
            by_id = self._unsettled.setdefault(session.id, {})
            by_id.setdefault(frame.stream_id, _Frames(stream)).frames.append((last, frame.count, contexts))

    def settled(self, session: Session, stream_id: int, sequence: int, begun_at: float) -> None:
        """Creates the span `settle` of the frames that an acknowledgement covers."""
        found = self._unsettled.get(session.id, {}).get(stream_id)
        if found is None:
            return
        contexts, messages = Contexts(), 0
        while found.frames and found.frames[0][0] <= sequence:
            _, count, own = found.frames.popleft()
            self._held -= 1
            messages += count
            contexts.take(own)
        attributes: dict[str, str | int] = {"messaging.client.id": session.instance, "headrace.sequence.last": sequence}
        self._spans.record(Operation.SETTLE, found.stream, contexts, messages, _unix_ns(begun_at), attributes)

    def closed(self, session: Session) -> None:
        """Forgets the frames of a session."""
        self._held -= sum(len(found.frames) for found in self._unsettled.pop(session.id, {}).values())

    def sending(self, sink: str, instance: str, part: Part) -> "PartTracing":
        """Begins to follow a part."""
        return PartTracing(self._spans, sink, instance, part)


class PartTracing:
    """Creates the span `send` of a part."""

    def __init__(self, spans: Spans, sink: str, instance: str, part: Part) -> None:
        self._spans = spans
        self._sink = sink
        self._instance = instance
        self._part = part
        self._begun_ns = clock.now_ns()
        self._contexts = Contexts()
        self._messages = 0

    @property
    def trace_id(self) -> str | None:
        """The trace of its first sampled message; None if there is none."""
        return next((context[3:35].decode() for context in self._contexts), None)

    def take(self, frame: frame_pb2.Frame) -> None:
        """Notes a frame of the part."""
        self._messages += frame.count
        if not self._contexts.is_full:
            self._contexts.take(_contexts(frame))

    def end(self, error: str | None) -> None:
        """Creates the span."""
        transaction = self._part.transaction
        attributes: dict[str, str | int] = {
            "messaging.client.id": self._instance,
            "headrace.pipeline": transaction.pipeline,
            "headrace.batch": transaction.batch,
            "headrace.partition": self._part.partition,
        }
        self._spans.record(Operation.SEND, self._sink, self._contexts, self._messages, self._begun_ns, attributes, error)


def _contexts(frame: frame_pb2.Frame) -> Contexts:
    if not frame.header_counts:
        return Contexts()
    return sampled(frame.header_names, frame.header_name_lengths, frame.header_values, frame.header_value_lengths)


def _unix_ns(at: float) -> int:
    """A moment on the monotonic clock, in nanoseconds since 1970 UTC."""
    return clock.now_ns() - int((clock.monotonic() - at) * 1e9)

"""Waits for connectors: of a query's sinks, and of the streams that a bounded run must read."""

from collections.abc import Iterable, Mapping

from headrace.engine._errors import SinkAway, StreamAway
from headrace.engine.source.options import Options
from headrace.engine.wire.retry import Retry
from headrace.protocol.v1 import engine_pb2 as pb

MAX_PAUSE_S = 0.25


class MissingConnectors:
    """Waits while sinks or streams have no connector, and gives up after a timeout."""

    def __init__(self, options: Options, fields: Mapping[str, object]) -> None:
        self._gateway = options.gateway
        self._sinks = Retry(options.gateway_timeout_s, MAX_PAUSE_S, "every sink", "Start its connector", fields=fields)
        advice = "Start its connector, check the options stream and gateway, or set onStreamAway to accept to end without it"
        self._streams = Retry(options.stream_timeout_s, MAX_PAUSE_S, "every stream", advice, "streamTimeout", fields=fields)

    def note(self, response: pb.PlanResponse, *, awaits_streams: bool) -> None:
        """Pauses if the gateway has planned nothing because sinks or streams have no connector.

        Args:
            response: The plan.
            awaits_streams: Whether to wait for streams, too.

        Raises:
            SinkAway: Sinks had no connector until the timeout.
            StreamAway: Streams had no connector until the timeout.
        """
        if response.sinks_away:
            self._sinks.wait(sinks_away(response.sinks_away))
        else:
            self._sinks.reset()
        if not awaits_streams or not response.streams_away:
            self._streams.reset()
        elif not response.ranges and not response.sinks_away:
            named = ", ".join(response.streams_away)
            self._streams.wait(StreamAway(f"no connector at the gateway {self._gateway} provides a stream {named}"))


def sinks_away(sinks: Iterable[str]) -> SinkAway:
    """The error for sinks without a connector."""
    return SinkAway(f"no connector serves sink {', '.join(sinks)}, which the query writes to")

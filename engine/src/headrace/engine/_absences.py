"""Who a run waits for besides the gateway: sinks, and the streams of a run that ends once it has caught up."""

from collections.abc import Iterable

from headrace.engine._errors import SinkAway, StreamAway
from headrace.engine._options import Options
from headrace.engine._patience import Patience
from headrace.protocol.v1 import engine_pb2 as pb

LONGEST_PAUSE_S = 0.25


class Absences:
    """Remembers since when sinks or streams have been away, and gives up after a while."""

    def __init__(self, options: Options) -> None:
        self._gateway = options.gateway
        self._sinks = Patience(options.gateway_timeout_s, LONGEST_PAUSE_S, "every sink", "Start its connector")
        advice = "Start its connector, check the options stream and gateway, or set onStreamAway to accept to end without it"
        self._streams = Patience(options.stream_timeout_s, LONGEST_PAUSE_S, "every stream", advice, "streamTimeout")

    def note(self, response: pb.PlanResponse) -> None:
        """Notes who is away; pauses where nothing is planned because of that.

        Raises:
            SinkAway: sinks have been away for too long.
            StreamAway: streams have been.
        """
        if response.sinks_away:
            self._sinks.wait(sinks_away(response.sinks_away))
        else:
            self._sinks.answered()
        if not response.streams_away:
            self._streams.answered()
        elif not response.ranges and not response.sinks_away:
            named = ", ".join(response.streams_away)
            self._streams.wait(StreamAway(f"no connector at the gateway {self._gateway} has a stream {named}"))


def sinks_away(sinks: Iterable[str]) -> SinkAway:
    """The error that says which sinks are away."""
    return SinkAway(f"no connector serves sink {', '.join(sinks)}, which the query writes to")

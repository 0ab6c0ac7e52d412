"""The events of a gateway as a message of the protocol."""

from headrace.gateway.core.state import EventLog
from headrace.protocol.v1 import admin_pb2 as pb


def list_events(log: EventLog, limit: int, after: int) -> pb.ListEventsResponse:
    """Returns the last events, oldest first.

    Args:
        log: What the gateway remembers.
        limit: How many at most.
        after: Only events with a larger number.
    """
    events = [
        pb.Event(number=one.number, at_ms=round(one.at * 1000), kind=one.kind, part=one.part, text=one.text)
        for one in log.events(limit, after)
    ]
    return pb.ListEventsResponse(events=events, started_ms=round(log.started_at * 1000))

"""`headrace events`: what happened at a gateway."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from headrace.contract.limits import MAX_EVENTS
from headrace.gateway_cli.previews import printable
from headrace.gateway_cli.watching import interval_option
from headrace.terminal import (
    CALL_TIMEOUT_S,
    Connection,
    ProgramCommand,
    connection_options,
    counted,
    json_option,
    print_json,
    print_result,
    print_text,
)

if TYPE_CHECKING:
    import grpc

    from headrace.gateway_status.timeline import EventDocument, EventLogDocument

_KIND_WIDTH = len("fault-began")


@click.command(cls=ProgramCommand)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_EVENTS),
    metavar="N",
    default=50,
    show_default=True,
    help="How many of the latest events to show.",
)
@json_option("with --follow, bare events, one per line")
@click.option("--follow", is_flag=True, help="Print further events as they happen, until Ctrl-C.")
@interval_option
@connection_options
def events(limit: int, as_json: bool, follow: bool, interval: float, connection: Connection) -> None:
    """Show what happened at a gateway: who attached, detached, restarted or was rejected, and when faults began and ended.

    The gateway remembers the last 200 events of each kind, until it ends, and looks for faults every five seconds.

    \b
    Examples:
      headrace events
      headrace events --follow
      headrace events --limit 1200 --json | jq '.result.events[] | select(.kind == "fault-began")'

    Exit codes: 0 shown, 1 the gateway refuses or is away.
    """
    with connection.channel() as channel:
        found = fetch_events(channel, connection, limit)
        if as_json and not follow:
            print_result(f"{counted(len(found['events']), 'event')} since {found['started']}", found)
            return
        _print(found["events"], as_json)
        if not follow:
            if not found["events"]:
                print_text(f"nothing has happened since the gateway started, at {found['started']}")
            return
        # Ctrl-C is how it ends.
        with suppress(KeyboardInterrupt):
            last, started = _last(found, 0), found["started"]
            while True:
                time.sleep(interval)
                found = fetch_events(channel, connection, MAX_EVENTS, last)
                if found["started"] != started:
                    # The gateway has restarted, and counts from 1 again.
                    found = fetch_events(channel, connection, MAX_EVENTS)
                    last, started = 0, found["started"]
                _print(found["events"], as_json)
                last = _last(found, last)


def fetch_events(channel: "grpc.Channel", connection: Connection, limit: int, after: int = 0) -> "EventLogDocument":
    """Fetches the last events, oldest first.

    Args:
        channel: The channel to the gateway.
        connection: How it is called.
        limit: How many at most.
        after: Only events with a larger number.

    Raises:
        Failure: the call failed.
    """
    from headrace.gateway_status import event_log_document
    from headrace.protocol.v1.admin_pb2 import ListEventsRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    request = ListEventsRequest(limit=limit, after=after)
    with connection.failures():
        answer = AdminServiceStub(channel).ListEvents(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    return event_log_document(answer)


def _last(log: "EventLogDocument", before: int) -> int:
    """Returns the number of the last event; the one before if there is none."""
    return log["events"][-1]["number"] if log["events"] else before


def _print(events: Sequence["EventDocument"], as_json: bool) -> None:
    for event in events:
        if as_json:
            print_json(event, compact=True)
        else:
            text = f"  {event['text']}" if event["text"] else ""
            print_text(printable(f"{event['at']}  {event['kind']:<{_KIND_WIDTH}}  {event['part']}{text}"))

"""`headrace status`."""

import time
from typing import TYPE_CHECKING, Any

import click

from headrace.terminal import CALL_TIMEOUT_S, Connection, Failure, ProgramCommand, connection_options, console, print_json

if TYPE_CHECKING:
    import grpc


@click.command(cls=ProgramCommand)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; with --watch, one per line.")
@click.option("--watch", is_flag=True, help="Refresh until Ctrl-C.")
@click.option("--interval", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Seconds between refreshes.")
@connection_options
def status(as_json: bool, watch: bool, interval: float, connection: Connection) -> None:
    """Show a gateway's streams, sessions, pipelines and sinks: positions, lag, credit, age.

    \b
    Examples:
      headrace status
      headrace status --watch --interval 0.5
      headrace status --json | jq '.streams[] | select(.lag_messages > 0)'

    \b
    The JSON document. Names and types are stable; sizes are in bytes, times in milliseconds:
      gateway    address, version, uptime_ms, buffered_bytes, buffer_limit_bytes, draining,
                 rejected_sessions {status name: count}
      streams    [stream, state (parked, live, detached, ended, lost), detail, instance, replayable,
                 received, acknowledged, received_messages, acknowledged_messages, duplicate_messages,
                 losses, lag_messages, lag_bytes, oldest_unacknowledged_ms,
                 holders [pipeline, state (attached, away, detached, awaited), committed, held_ms]]
      sessions   [session, connector, connector_version, instance, peer, age_ms, streams, credit_bytes,
                 credit_messages, outstanding_bytes, outstanding_messages, linger_ms, sdk, state,
                 state_age_ms, reason, errors]
      pipelines  [pipeline, run, attached, state, away_ms, patterns, committed {stream: position},
                 idle_ms, lag_messages, lag_bytes]
      sinks      [sink, mode (two-phase, batch-idempotent, at-least-once), instances, away, open_parts,
                 pending_transactions, staged_messages, refused_messages, committed {pipeline: batch},
                 lost [instance, pipeline, batch], losses]
      sink_sessions  [session, sink, connector, connector_version, instance, peer, age_ms, sdk, state,
                 state_age_ms, reason, errors]
      What a connector has reported: sdk {name, version, language} or null, state (connecting, running,
      degraded, waiting) or null, errors [message, age_ms, stream], oldest first.
      A position is null or {epoch, sequence, cursor (base64 or null)}.
    """
    with connection.channel() as channel:
        if watch and as_json:
            _watch_json(channel, connection, interval)
        elif watch:
            _watch(channel, connection, interval)
        elif as_json:
            print_json(_fetch(channel, connection))
        else:
            from headrace.gateway_cli.status_tables import status_tables

            console().print(status_tables(_fetch(channel, connection)))


def _fetch(channel: "grpc.Channel", connection: Connection) -> dict[str, Any]:
    """Fetches the status once.

    Raises:
        Failure: the call failed.
    """
    import grpc

    from headrace.gateway_cli.status_document import status_document
    from headrace.protocol.v1.admin_pb2 import GetStatusRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    try:
        answer = AdminServiceStub(channel).GetStatus(GetStatusRequest(), timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    except grpc.RpcError as error:
        raise connection.failure(error) from None
    return status_document(connection.gateway, answer)


def _watch(channel: "grpc.Channel", connection: Connection, interval: float) -> None:
    """Shows tables until interrupted. If the gateway is unreachable, shows the error and keeps trying."""
    from rich.live import Live
    from rich.text import Text

    from headrace.gateway_cli.status_tables import status_tables

    out = console()
    with Live(console=out, auto_refresh=False, screen=out.is_terminal) as live:
        while True:
            try:
                view = status_tables(_fetch(channel, connection))
            except Failure as failure:
                view = Text(failure.message, style="bold red")
            if out.is_terminal:
                live.update(view, refresh=True)
            else:
                out.print(view)
            time.sleep(interval)


def _watch_json(channel: "grpc.Channel", connection: Connection, interval: float) -> None:
    """Prints one document per line until interrupted, or until a call fails."""
    while True:
        print_json(_fetch(channel, connection), compact=True)
        time.sleep(interval)

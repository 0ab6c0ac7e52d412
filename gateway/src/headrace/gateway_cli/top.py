"""`headrace top`."""

import os
import sys
from typing import TYPE_CHECKING

import click

from headrace.gateway_cli.status import fetch_status
from headrace.terminal import EXIT_INVALID, Connection, Failure, ProgramCommand, as_typed, connection_options

if TYPE_CHECKING:
    from headrace.gateway_status import StatusDocument


@click.command(cls=ProgramCommand)
@click.option("--interval", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Seconds between refreshes.")
@connection_options
def top(interval: float, connection: Connection) -> None:
    """Show a gateway live: what is wrong, its pipelines, streams, connectors and sinks.

    Keeps the last rows, marked as stale, while the gateway is away. NO_COLOR turns colours off.

    \b
    Keys:
      q             quit
      1 2 3 4, Tab  pipelines, streams, connectors, sinks; left and right arrows too
      up, down      one row; Page Up, Page Down, Space one page; Home and End
      <, >          sort by the column to the left or right; r reverses
      /             show only rows that contain a text; Escape shows all

    \b
    What a stream does:
      idle       everything is acknowledged
      flows      messages are acknowledged
      waits      messages wait for a micro-batch
      no credit  its connector has no credit left: the query is slower than the source
      stalled    nothing is acknowledged, and the oldest message was received 10 s ago or earlier
      paused     somebody has paused it, or its connector
      source stalled
                 its connector has messages left and credit, and has sent none for 20 s

    \b
    Examples:
      headrace top
      headrace top --gateway gateway.example:7433 --tls --interval 5
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        text = "headrace top needs a terminal; use headrace status --watch, or headrace status --json for programs"
        raise Failure(as_typed(text), EXIT_INVALID)
    # gRPC's own log lines would be drawn over.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Imported here: not every system has these terminals.
    from headrace.gateway_cli.live.loop import run_top

    channel = connection.channel()

    def fetch() -> "StatusDocument":
        return fetch_status(channel, connection)

    run_top(fetch, interval, channel.close)

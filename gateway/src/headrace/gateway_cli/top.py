"""`headrace top`."""

import os
import sys
from typing import TYPE_CHECKING

import click

from headrace.gateway_cli.status import fetch_status
from headrace.gateway_cli.watching import interval_option
from headrace.terminal import EXIT_INVALID, Connection, Failure, ProgramCommand, as_typed, connection_options

if TYPE_CHECKING:
    from headrace.gateway_status import StatusDocument


@click.command(cls=ProgramCommand)
@interval_option
@connection_options
def top(interval: float, connection: Connection) -> None:
    """Show a gateway live: what is wrong, its pipelines, streams, connectors and sinks.

    Keeps the last rows, marked as stale, while the gateway is away. NO_COLOR turns colours off.

    \b
    Keys:
      q             quit
      1 2 3 4       pipelines, streams, connectors, sinks; Tab, left and right
                    arrows turn to the one beside
      up, down      one row; Page Up, Page Down, Space one page; Home and End
      <, >          sort by the column to the left or right; r reverses
      /             show only rows that contain a text; Escape shows all

    \b
    What a part does, as `headrace status` and the console show it, too:
      flows      something was acknowledged, committed or written in the
                 last 5 s
      idle       it has nothing to do
      waits      something waits, for less than 10 s
      no credit  messages wait, and their connector has no credit left: the
                 query is slower than the source
      stalled    something has waited for 10 s or longer, and nothing flows
      source stalled
                 the connector of a stream has messages left and credit,
                 and has sent none for 20 s
      trouble    it has another fault, which the problems name
      paused     somebody has paused it, or its connector
      detached   no connector or query serves it, and nothing waits for one
      ended      its source has ended

    \b
    Examples:
      headrace top
      headrace top --gateway gateway.example:7433 --tls --interval-seconds 5
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

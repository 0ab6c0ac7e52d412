"""`headrace drain`."""

from typing import TYPE_CHECKING

import click

from headrace.terminal import (
    EXIT_FAILED,
    Connection,
    ProgramCommand,
    connection_options,
    counted,
    json_option,
    print_result,
    print_text,
)

if TYPE_CHECKING:
    from headrace.protocol.v1.admin_pb2 import DrainResponse


@click.command(cls=ProgramCommand)
@click.option(
    "--timeout-seconds",
    "timeout",
    type=click.FloatRange(min=0),
    metavar="N",
    help="Time to finish.  [default: the gateway's drain_timeout_seconds]",
)
@json_option()
@connection_options
def drain(timeout: float | None, as_json: bool, connection: Connection) -> None:
    """Let a gateway finish, and show the progress.

    The gateway takes no new sessions. Sources stop, what they have sent is processed and acknowledged, and all sessions end. The
    gateway continues to run without sessions, until you stop or restart it.

    \b
    Examples:
      headrace drain
      headrace drain --timeout-seconds 120 --json

    Exit codes: 0 nothing is left, 1 something was left when the time was over, or the gateway is away.
    """
    from headrace.protocol.v1.admin_pb2 import DrainRequest, DrainResponse
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    left = DrainResponse()
    with connection.failures("the gateway is not drained"), connection.channel() as channel:
        request = DrainRequest(timeout_ms=None if timeout is None else round(timeout * 1000))
        for left in AdminServiceStub(channel).Drain(request, metadata=connection.metadata):
            if not as_json:
                print_text(_describe(left), err=True)
    complete = left.done and not (left.sessions or left.sink_sessions)
    summary = "the gateway is drained" if complete else f"the time is over, and this is left: {_describe(left)}"
    if as_json:
        result = {
            "sessions": left.sessions,
            "sink_sessions": left.sink_sessions,
            "unacknowledged_messages": left.unacknowledged_messages,
        }
        print_result(summary, result, None if complete else summary)
    else:
        print_text(summary)
    if not complete:
        click.get_current_context().exit(EXIT_FAILED)


def _describe(left: "DrainResponse") -> str:
    return (
        f"{counted(left.sessions, 'session')} of sources, {left.sink_sessions} of sinks, "
        f"{counted(left.unacknowledged_messages, 'message')} not acknowledged"
    )

"""`headrace gateway reload`."""

import click

from headrace.terminal import (
    CALL_TIMEOUT_S,
    Connection,
    ProgramCommand,
    connection_options,
    json_option,
    print_line,
    print_result,
)


@click.command(cls=ProgramCommand)
@json_option()
@connection_options
def reload(as_json: bool, connection: Connection) -> None:
    """Let a running gateway read its configuration file again.

    Everything that has changed takes effect, or nothing does: if the file is invalid, or if a change needs a restart, the gateway
    keeps the previous configuration. SIGHUP does the same.

    \b
    Examples:
      headrace gateway reload
      headrace gateway reload --json

    Exit codes: 0 the file is in effect, 1 it is refused or the gateway is away.
    """
    import grpc

    from headrace.protocol.v1.admin_pb2 import ReloadRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    try:
        with connection.channel() as channel:
            answer = AdminServiceStub(channel).Reload(ReloadRequest(), timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    except grpc.RpcError as error:
        raise connection.failure(error).with_summary("nothing has changed") from None
    changes = list(answer.changes)
    summary = f"{len(changes)} changes are in effect" if changes else "nothing has changed"
    if as_json:
        print_result(summary, {"changes": changes})
    else:
        print_line("\n".join([*changes, summary]))

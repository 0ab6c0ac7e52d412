"""`headrace pause` and `headrace resume`."""

import click

from headrace.terminal import (
    CALL_TIMEOUT_S,
    Connection,
    ProgramCommand,
    connection_options,
    json_option,
    print_result,
    print_text,
)

_KINDS = click.Choice(["stream", "connector", "pipeline", "sink"])


@click.command(cls=ProgramCommand)
@click.argument("kind", type=_KINDS)
@click.argument("name")
@json_option()
@connection_options
def pause(kind: str, name: str, as_json: bool, connection: Connection) -> None:
    """Pause a stream, all streams of a connector, a pipeline or a sink.

    Planned micro-batches end as usual, and are acknowledged. Nothing new is planned until you resume it. The gateway keeps
    nothing: when it restarts, only what [paused] in its configuration names is paused.

    \b
    Examples:
      headrace pause pipeline market-spread
      headrace pause stream orders/0
      headrace pause connector orders
      headrace pause sink totals --json

    Exit codes: 0 it is paused, 1 the gateway does not know it, refuses or is away.
    """
    _change("pause", kind, name, as_json, connection)


@click.command(cls=ProgramCommand)
@click.argument("kind", type=_KINDS)
@click.argument("name")
@json_option()
@connection_options
def resume(kind: str, name: str, as_json: bool, connection: Connection) -> None:
    """End the pause of a stream, a connector, a pipeline or a sink.

    \b
    Examples:
      headrace resume pipeline market-spread
      headrace resume connector orders --json

    Exit codes: 0 it is not paused, 1 the gateway does not know it, refuses or is away.
    """
    _change("resume", kind, name, as_json, connection)


def _change(command: str, kind: str, name: str, as_json: bool, connection: Connection) -> None:
    """Makes a change, and prints the result."""
    from headrace.protocol.v1.admin_pb2 import PartKind, PauseRequest, ResumeRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    wanted = PartKind.Value(f"PART_KIND_{kind.upper()}")
    with connection.failures(f"{kind} {name}: nothing has changed"), connection.channel() as channel:
        stub, metadata = AdminServiceStub(channel), connection.metadata
        if command == "pause":
            paused = stub.Pause(PauseRequest(kind=wanted, name=name), timeout=CALL_TIMEOUT_S, metadata=metadata)
            changed = paused.changed
            summary = f"{kind} {name} is paused{'' if changed else f', by {paused.pause.by} already'}"
        else:
            request = ResumeRequest(kind=wanted, name=name)
            changed = stub.Resume(request, timeout=CALL_TIMEOUT_S, metadata=metadata).changed
            summary = f"{kind} {name} {'is resumed' if changed else 'was not paused'}"
    if as_json:
        print_result(summary, {"kind": kind, "name": name, "changed": changed})
    else:
        print_text(summary)

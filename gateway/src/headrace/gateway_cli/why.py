"""`headrace why`: why a message is not acknowledged yet."""

import click

from headrace.contract.limits import MAX_SEQUENCE
from headrace.terminal import (
    CALL_TIMEOUT_S,
    EXIT_INVALID,
    Connection,
    Failure,
    ProgramCommand,
    connection_options,
    console,
    json_option,
    print_result,
)

_SEQUENCE = click.IntRange(0, MAX_SEQUENCE)


@click.command(cls=ProgramCommand)
@click.argument("stream")
@click.argument("sequence", type=_SEQUENCE, required=False)
@click.option(
    "--epoch", type=_SEQUENCE, metavar="N", help="For a redelivering source: the epoch of SEQUENCE.  [default: the latest]"
)
@json_option()
@connection_options
def why(stream: str, epoch: int | None, sequence: int | None, as_json: bool, connection: Connection) -> None:
    """Show where a message stands on its way to its acknowledgement, and what it waits for.

    Without SEQUENCE, the message is the oldest one of STREAM that is not acknowledged.

    \b
    Examples:
      headrace why orders/0
      headrace why orders/0 4711
      headrace why queue/orders 12 --epoch 3
      headrace why orders/0 4711 --json | jq --raw-output .result.state

    The state is one of not-received, not-planned, in-batch, committed, acknowledged, redelivered.

    Exit codes: 0 shown, 1 the gateway does not know the stream, refuses or is away.
    """
    from headrace.gateway_status import message_document, oldest_unacknowledged
    from headrace.protocol.v1.admin_pb2 import GetStatusRequest, LocateMessageRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    if sequence is None and epoch is not None:
        raise Failure("--epoch says which epoch SEQUENCE belongs to: name both, or neither", EXIT_INVALID)
    with connection.channel() as channel:
        stub = AdminServiceStub(channel)
        with connection.failures():
            if sequence is None:
                status = stub.GetStatus(GetStatusRequest(), timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
                epoch, sequence = oldest_unacknowledged(status, stream)
            request = LocateMessageRequest(stream=stream, epoch=epoch, sequence=sequence)
            answer = stub.LocateMessage(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    document = message_document(answer)
    if as_json:
        print_result(f"message {sequence} of {stream}: {document['state']}", document)
        return
    from headrace.gateway_cli.message_lines import message_lines

    out = console()
    for line in message_lines(document):
        out.print(line)

"""`headrace why`: why a message is not acknowledged yet."""

import click

from headrace.contract.limits import MAX_SEQUENCE
from headrace.terminal import CALL_TIMEOUT_S, Connection, ProgramCommand, connection_options, console, print_json

_SEQUENCE = click.IntRange(0, MAX_SEQUENCE)


@click.command(cls=ProgramCommand)
@click.argument("stream")
@click.argument("sequence", type=_SEQUENCE)
@click.option("--epoch", type=_SEQUENCE, help="The epoch of the sequence, of a redelivering source; the latest if omitted.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@connection_options
def why(stream: str, sequence: int, epoch: int | None, as_json: bool, connection: Connection) -> None:
    """Show where a message stands on its way to its acknowledgement, and what it waits for.

    \b
    Examples:
      headrace why orders/0 4711
      headrace why queue/orders 12 --epoch 3
      headrace why orders/0 4711 --json | jq --raw-output .state

    \b
    state is one of not-received, not-planned, in-batch, committed, acknowledged, redelivered.

    Exit codes: 0 shown, 1 the gateway does not know the stream, refuses or is away.
    """
    import grpc

    from headrace.gateway_status import message_document
    from headrace.protocol.v1.admin_pb2 import LocateMessageRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    request = LocateMessageRequest(stream=stream, sequence=sequence, epoch=epoch)
    with connection.channel() as channel:
        try:
            answer = AdminServiceStub(channel).LocateMessage(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
        except grpc.RpcError as error:
            raise connection.failure(error) from None
    document = message_document(answer)
    if as_json:
        print_json(document)
        return
    from headrace.gateway_cli.message_lines import message_lines

    out = console()
    for line in message_lines(document):
        out.print(line)

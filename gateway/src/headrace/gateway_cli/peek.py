"""`headrace peek`: a sample of a stream's messages."""

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from headrace.contract.limits import MAX_PEEK
from headrace.gateway_cli.previews import form_option, preview_lines
from headrace.terminal import (
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
    from headrace.protocol.v1.admin_pb2 import PeekResponse


@click.command(cls=ProgramCommand)
@click.argument("stream")
@click.option(
    "--limit",
    type=click.IntRange(0, MAX_PEEK),
    metavar="N",
    default=10,
    show_default=True,
    help="End after this many messages; with 0, never.",
)
@form_option
@json_option("samples before it, one per line")
@connection_options
def peek(stream: str, limit: int, form: str, as_json: bool, connection: Connection) -> None:
    """Show messages of a stream: messages that the gateway holds, then messages that arrive.

    Peeking needs the right `peek` for the stream, and a gateway whose configuration enables it. What is shown is a sample:
    the gateway limits how many messages it shows in a second, and how much of each. Nothing is acknowledged or removed.

    \b
    Examples:
      headrace peek orders/0
      headrace peek orders/0 --limit 0 --form hex
      headrace peek orders/0 --json | jq '.messages[]?.value.text'

    Exit codes: 0 the limit is reached or Ctrl-C, 1 the gateway does not know the stream, refuses or is away.
    """
    from headrace.gateway_status import peek_document
    from headrace.protocol.v1.admin_pb2 import PeekRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    sample: PeekResponse | None = None
    # Ctrl-C is how it ends without a limit.
    with connection.failures(), connection.channel() as channel, suppress(KeyboardInterrupt):
        for sample in AdminServiceStub(channel).Peek(PeekRequest(stream=stream, limit=limit), metadata=connection.metadata):
            document = peek_document(sample)
            if not as_json:
                for message in document["messages"]:
                    print_text("\n".join(preview_lines(message, form)))
            elif sample.messages:
                print_json(document, compact=True)
    not_shown = 0 if sample is None else sample.not_shown
    if as_json:
        print_result(f"not shown: {counted(not_shown, 'message')}", {"not_shown": not_shown}, compact=True)
    elif sample is not None:
        print_text(f"not shown: {counted(not_shown, 'message')}", err=True)

"""`headrace why`: why a message is not acknowledged yet."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from headrace.contract.limits import MAX_SEQUENCE
from headrace.terminal import CALL_TIMEOUT_S, Connection, ProgramCommand, connection_options, console, print_json

if TYPE_CHECKING:
    from rich.text import Text

_SEQUENCE = click.IntRange(0, MAX_SEQUENCE)
_MAX_PIPELINES = 20
"""How many pipelines are shown; the JSON document has more."""
_STATES = {
    "not-received": "has not arrived at the gateway",
    "not-planned": "waits for a micro-batch",
    "in-batch": "is in a micro-batch that is not committed",
    "committed": "is committed, and its source is not told yet",
    "acknowledged": "is acknowledged",
    "redelivered": "was delivered again under another sequence",
}


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
    out = console()
    for line in _lines(document):
        out.print(line)


def _lines(document: Mapping[str, Any]) -> Iterator["Text"]:
    from rich.text import Text

    from headrace.gateway_cli.problems import one_line

    epoch = f" of epoch {document['epoch']}" if document["epoch"] else ""
    style = "green" if document["state"] == "acknowledged" else "bold"
    yield Text(f"{one_line(document['stream'])} {document['sequence']}{epoch} {_STATES[document['state']]}", style=style)
    if document["reason"]:
        yield Text(f"  {one_line(document['reason'])}")
    for reader in document["pipelines"][:_MAX_PIPELINES]:
        yield from _reader(reader)
    if (more := len(document["pipelines"]) - _MAX_PIPELINES) > 0:
        yield Text(f"  and {more:,} more pipelines", style="dim")
    if document["problem"] is not None:
        yield from _problem(document["problem"], "  ")


def _reader(reader: Mapping[str, Any]) -> Iterator["Text"]:
    from datetime import UTC, datetime

    from rich.text import Text

    from headrace.gateway_cli.problems import one_line
    from headrace.terminal import duration_text

    line = Text(f"  pipeline {one_line(reader['pipeline'])}: ", style="bold").append(_STATES[reader["state"]], style="not bold")
    if reader["batch"] is not None:
        line.append(f", micro-batch {reader['batch']:,}", style="not bold")
    if reader["since"] is not None:
        age = datetime.now(UTC) - datetime.fromisoformat(reader["since"])
        waits = reader["stage"].replace("_", " ") if reader["stage"] else "received"
        line.append(f", {waits} {duration_text(max(0, int(age.total_seconds() * 1000)))} ago", style="not bold")
    yield line
    if reader["reason"]:
        yield Text(f"    {one_line(reader['reason'])}")
    if reader["problem"] is not None:
        yield from _problem(reader["problem"], "    ")


def _problem(problem: Mapping[str, Any], indent: str) -> Iterator["Text"]:
    from rich.text import Text

    from headrace.gateway_cli.problems import one_line

    yield Text(f"{indent}{one_line(problem['root'])}: {one_line(problem['cause'])}", style="red")
    yield Text(f"{indent}{one_line(problem['remedy'])}", style="dim")

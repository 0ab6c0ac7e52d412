"""`headrace dead-letters`: dead letters that the gateway has passed on to sinks, and their replay."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from headrace.contract.limits import MAX_DEAD_LETTERS
from headrace.gateway_cli.previews import content_lines, form_option, printable
from headrace.gateway_cli.replay import replay
from headrace.terminal import (
    CALL_TIMEOUT_S,
    Connection,
    ProgramGroup,
    connection_options,
    counted,
    json_option,
    print_result,
    print_text,
)

if TYPE_CHECKING:
    from headrace.gateway_status.messages import DeadLetterDocument, DeadLettersDocument


@click.group("dead-letters", cls=ProgramGroup)
def dead_letters() -> None:
    """Show the last dead letters that a gateway has passed on, and have a deployment replay them.

    \b
    Examples:
      headrace dead-letters list
      headrace dead-letters replay errors --source again
    """


@dead_letters.command("list")
@click.argument("sink", default="")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_DEAD_LETTERS),
    metavar="N",
    default=10,
    show_default=True,
    help="How many dead letters to show of each sink.",
)
@form_option
@json_option()
@connection_options
def list_(sink: str, limit: int, form: str, as_json: bool, connection: Connection) -> None:
    """Show the last dead letters that queries have delivered to SINK since the gateway started, or to all sinks.

    This needs the right `peek` for the sink, and a gateway whose configuration enables it; without, dead letters are only
    counted. The sink keeps all of them: headrace dead-letters list-files shows what a bundled file sink keeps.

    \b
    Examples:
      headrace dead-letters list
      headrace dead-letters list errors --limit 50 --form hex
      headrace dead-letters list --json | jq '.result.sinks[].letters[].reason'

    Exit codes: 0 shown, 1 the gateway does not know the sink, refuses or is away.
    """
    from headrace.gateway_status import dead_letters_document
    from headrace.protocol.v1.admin_pb2 import ListDeadLettersRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    request = ListDeadLettersRequest(sink=sink, limit=limit)
    with connection.failures(), connection.channel() as channel:
        answer = AdminServiceStub(channel).ListDeadLetters(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    document = dead_letters_document(answer)
    if as_json:
        count = sum(one["count"] for one in document["sinks"])
        print_result(f"{counted(count, 'dead letter')} since the gateway started", document)
    else:
        print_text("\n".join(_lines(document, form)))


dead_letters.add_command(replay)


def _lines(document: "DeadLettersDocument", form: str) -> Iterator[str]:
    for sink in document["sinks"]:
        yield f"sink {sink['sink']}: {sink['count']:,} dead letter{'' if sink['count'] == 1 else 's'} since the gateway started"
        for letter in sink["letters"]:
            yield ""
            yield from _letter_lines(letter, form)
    if not document["sinks"]:
        yield "no dead letters since the gateway started"
    if not document["keeps_letters"]:
        yield "the gateway only counts them: set enabled = true in [peek] of its configuration to see them"
    if any(sink["count"] for sink in document["sinks"]):
        yield f"\nto replay what the bundled file sink has written to a folder:\n  {document['replay']}"


def _letter_lines(letter: "DeadLetterDocument", form: str) -> Iterator[str]:
    origin = [] if letter["stream"] is None else [" ".join(str(part) for part in (letter["stream"], letter["sequence"]) if part)]
    by = [f"refused by sink {letter['sink']}"] if letter["sink"] else [f"step {letter['step']}"] if letter["step"] else []
    batch = f"batch {letter['batch']} of pipeline {letter['pipeline']}"
    yield printable("  ".join([letter["committed_at"], batch, *origin, *by]))
    yield f"  {printable(letter['reason'])}"
    yield from (f"  {line}" for line in content_lines(letter, form))

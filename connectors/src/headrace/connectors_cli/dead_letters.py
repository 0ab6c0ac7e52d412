"""`headrace dead-letters list-files`, `replay-files` and `discard-files`: the dead letters in the files of a file sink."""

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.connectors_cli.run import format_option, run_connector, verbose_option
from headrace.terminal import (
    Connection,
    Failure,
    ProgramGroup,
    console,
    counted,
    json_option,
    own_connection_options,
    print_line,
    print_result,
)

if TYPE_CHECKING:
    from headrace.connectors import DeadLetter

_SHOWN = 20

_path = click.argument("path", type=click.Path(path_type=Path))


@click.group("dead-letters", cls=ProgramGroup)
def dead_letters() -> None:
    """Show the dead letters in the files of a sink, and replay or discard them.

    With the option deadLetters, a query writes the messages that its sink refuses permanently to another sink. Serve that sink
    with `headrace connector run file-sink --format json`, and name its folder here.

    \b
    Examples:
      headrace dead-letters list-files errors
      headrace dead-letters replay-files errors --source again
    """


@dead_letters.command()
@_path
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", default=_SHOWN, show_default=True, help="How many dead letters to show."
)
@json_option()
def list_files(path: Path, limit: int, as_json: bool) -> None:
    """Show the dead letters in PATH, and their number for each reason.

    \b
    Example:
      headrace dead-letters list-files errors --limit 5
    """
    from headrace.connectors import dead_letters as dead_letters_of
    from headrace.sdk import HeadraceError

    try:
        letters = list(dead_letters_of(path))
    except HeadraceError as error:
        raise Failure(str(error), error.exit_code) from None
    if as_json:
        print_result(counted(len(letters), "dead letter"), {"dead_letters": [_document(letter) for letter in letters]})
    else:
        _print(letters, limit)


@dead_letters.command()
@_path
@click.option("--source", metavar="NAME", required=True, help="Streams are named NAME/<file name>.")
@click.option("--sink", metavar="NAME", help="Only what this sink, or this step (application/step), refused.")
@verbose_option
@format_option
@own_connection_options
def replay_files(path: Path, source: str, sink: str | None, verbose: bool, log_format: str, connection: Connection) -> None:
    """Stream the messages of the dead letters in PATH again, unchanged, until all are acknowledged.

    If you run it again, it continues where the query that reads them has committed.

    \b
    Example:
      headrace dead-letters replay-files errors --source again --sink alerts
    """
    from headrace.connectors import DeadLetterSource
    from headrace.sdk import HeadraceError

    try:
        letters = DeadLetterSource(source, path, sink)
        if not letters.has_letters():
            print_line(f"{path} has no dead letters: nothing is replayed", err=True)
            return
    except HeadraceError as error:
        raise Failure(str(error), error.exit_code) from None
    print_line(f"sends {path} as {source}/FILE; a query that reads it must commit what is sent", err=True)
    run_connector(letters, connection, None, verbose, log_format)


@dead_letters.command()
@_path
@click.option("--yes", is_flag=True, help="Remove them; without it, only show what would be removed.")
@json_option()
def discard_files(path: Path, yes: bool, as_json: bool) -> None:
    """Remove the dead letters in PATH for ever, file by file, except files that a sink or a source still writes to.

    A replay in progress then has nothing left to send.

    \b
    Example:
      headrace dead-letters discard-files errors --yes
    """
    from headrace.connectors import discardable
    from headrace.sdk import HeadraceError

    removed = 0
    try:
        with discardable(path) as found:
            for file in found.discard() if yes else ():
                removed += found.counts[file]
    except HeadraceError as error:
        raise Failure(f"{error}; discarded: {counted(removed, 'dead letter')}", error.exit_code) from None
    total = sum(found.counts.values())
    in_use = [{"file": file.name, "reason": reason} for file, reason in found.reasons.items()]
    files = [{"file": file.name, "dead_letters": count} for file, count in found.counts.items()]
    number = f"{counted(total, 'dead letter')} in {counted(len(found.counts), 'file')} of {path}"
    said = f"discarded {number}" if yes else f"would discard {number}; to do so, repeat this with --yes"
    if as_json:
        print_result(said, {"discarded": yes, "dead_letters": total, "files": files, "in_use": in_use})
        return
    print_line(said)
    for one in in_use:
        print_line(f"kept {one['file']}: {one['reason']}", err=True)


def _print(letters: "list[DeadLetter]", limit: int) -> None:
    from headrace.terminal.tables import plain_table

    table = plain_table("stream", "sequence", "sink", "batch", "reason", "value")
    for letter in islice(letters, limit):
        document = _document(letter)
        cells = (document[name] for name in ("stream", "sequence", "sink", "batch", "reason"))
        table.add_row(*("-" if cell is None else str(cell) for cell in cells), repr(letter.message.value)[:60])
    console().print(table)
    if len(letters) > limit:
        print_line(f"... and {len(letters) - limit:,} more")
    for (sink, reason), count in Counter((letter.sink, letter.reason) for letter in letters).most_common(10):
        print_line(f"{count:,} refused by {sink}: {reason}")
    if not letters:
        print_line("no dead letters")


def _document(letter: "DeadLetter") -> dict[str, Any]:
    value, key = letter.message.value, letter.message.key
    return {
        "stream": letter.stream,
        "sequence": letter.sequence,
        "sink": letter.sink,
        "batch": letter.batch,
        "reason": letter.reason,
        "key": None if key is None else key.decode(errors="replace"),
        "value": None if value is None else value.decode(errors="replace"),
    }

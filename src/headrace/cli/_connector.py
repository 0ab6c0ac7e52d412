"""`headrace connector`: lists and runs the bundled connectors."""

import dataclasses
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.cli._connection import Connection, connection_options
from headrace.cli._output import Failure, console, print_json

if TYPE_CHECKING:
    from headrace.sdk import Source


@click.group()
def connector() -> None:
    """List and run the connectors that come with Headrace.

    \b
    Examples:
      headrace connector list
      headrace connector run file --path 'trades/*.csv' --source trades
    """


@connector.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def list_connectors(as_json: bool) -> None:
    """List the connectors that come with Headrace.

    \b
    Example:
      headrace connector list
    """
    from rich.table import Table

    from headrace.connectors import CONNECTORS

    if as_json:
        print_json({"connectors": [dataclasses.asdict(known) for known in CONNECTORS]})
        return
    table = Table("connector", "kind", "replayable", "summary", box=None, pad_edge=False, header_style="bold")
    for known in CONNECTORS:
        table.add_row(known.name, known.kind, "yes" if known.replayable else "no", known.summary)
    console().print(table)


@connector.group()
def run() -> None:
    """Run a connector until its source has ended and everything is acknowledged.

    SIGTERM and Ctrl-C stop it in good order: what was read is sent, and acknowledged where that takes no longer than 10 s. A
    second one ends it at once.

    \b
    Example:
      headrace connector run file --path 'trades/*.csv' --source trades --no-follow
    """


@run.command("file")
@click.option("--path", "paths", metavar="PATH", multiple=True, required=True, help="A file or a pattern; may be repeated.")
@click.option("--source", metavar="NAME", required=True, help="Streams are called NAME/<file name>.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["lines", "length-prefixed"]),
    default="lines",
    show_default=True,
    help="length-prefixed: a big-endian u32 before each record.",
)
@click.option("--follow/--no-follow", default=True, show_default=True, help="Wait for more at the end of a file, or end there.")
@click.option("--instance", metavar="NAME", help="Which deployment this is; a newer run of it takes over.  [default: the source]")
@click.option("-v", "--verbose", is_flag=True, help="Log what happens, not only what goes wrong.")
@connection_options
def run_file(
    paths: tuple[str, ...],
    source: str,
    format_name: str,
    follow: bool,
    instance: str | None,
    verbose: bool,
    connection: Connection,
) -> None:
    """Stream the records of files; each file is a partition.

    Files must only be appended to. Patterns are those of the shell: quote them, so that files that appear later are found.

    \b
    Examples:
      headrace connector run file --path 'trades/*.csv' --source trades
      headrace connector run file --path quotes.msg --source quotes --format length-prefixed --no-follow
    """
    _quiet_grpc()
    from headrace.connectors import FileSource, Format
    from headrace.sdk import HeadraceError

    try:
        files = FileSource(source, paths, Format(format_name), follow=follow)
    except HeadraceError as error:
        raise Failure(str(error), error.exit_code) from None
    _run(files, connection, instance, verbose)


def _run(source: "Source", connection: Connection, instance: str | None, verbose: bool) -> None:
    """Runs a source and exits with its code."""
    from headrace.sdk import Tls
    from headrace.sdk import run as run_source

    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="%(levelname)s: %(message)s")
    options: dict[str, Any] = {}
    if connection.encrypted:
        options["tls"] = Tls(ca=connection.tls_ca, certificate=connection.tls_cert, key=connection.tls_key)
    code = run_source(source, gateway=connection.gateway, token=connection.token, instance=instance, **options)
    click.get_current_context().exit(code)


def _quiet_grpc() -> None:
    """Silences gRPC itself: its log lines name no cause that a person could act on; it reads this when it is imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")

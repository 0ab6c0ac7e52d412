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
    from headrace.sdk import Sink, Source, TwoPhaseSink


@click.group()
def connector() -> None:
    """List and run the connectors that come with Headrace.

    \b
    Examples:
      headrace connector list
      headrace connector run file --path 'trades/*.csv' --source trades
      headrace connector run file-sink --path alerts --sink alerts
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
    table = Table("connector", "kind", "replayable", "mode", "summary", box=None, pad_edge=False, header_style="bold")
    for known in CONNECTORS:
        replayable = "-" if known.replayable is None else "yes" if known.replayable else "no"
        table.add_row(known.name, known.kind, replayable, known.mode or "-", known.summary)
    console().print(table)


@connector.group()
def run() -> None:
    """Run a connector: a source until it has ended and everything is acknowledged, a sink until it is stopped.

    SIGTERM and Ctrl-C stop it in good order: what was read is sent, and acknowledged where that takes no longer than 10 s; what
    has arrived at a sink is answered. A second one ends it at once.

    \b
    Examples:
      headrace connector run file --path 'trades/*.csv' --source trades --no-follow
      headrace connector run stdout-sink --sink alerts
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
    run_connector(files, connection, instance, verbose)


_sink_option = click.option(
    "--sink", metavar="NAME", required=True, help='What Spark calls it: format("headrace").option("sink", NAME).'
)
_sink_instance_option = click.option(
    "--instance", metavar="NAME", help="Which deployment this is; a newer run of it takes over.  [default: the sink]"
)
_verbose_option = click.option("-v", "--verbose", is_flag=True, help="Log what happens, not only what goes wrong.")


@run.command("file-sink")
@click.option("--path", metavar="FOLDER", required=True, help="The folder that the files are in; it is made where needed.")
@_sink_option
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["json", "lines", "length-prefixed"]),
    default="json",
    show_default=True,
    help="json: all of a message in a line; lines: its value; length-prefixed: its value after a big-endian u32.",
)
@click.option(
    "--rotate-bytes",
    metavar="N",
    type=click.IntRange(min=1),
    default=128 << 20,
    show_default=True,
    help="Begin a new file when one has N bytes.",
)
@click.option(
    "--rotate-seconds",
    metavar="N",
    type=click.FloatRange(min=0, min_open=True),
    help="Begin a new file when one is N seconds old.  [default: never]",
)
@_sink_instance_option
@_verbose_option
@connection_options
def run_file_sink(
    path: str,
    sink: str,
    format_name: str,
    rotate_bytes: int,
    rotate_seconds: float | None,
    instance: str | None,
    verbose: bool,
    connection: Connection,
) -> None:
    """Write to files, exactly once: a message is in a file if and only if its batch is committed.

    Files are called NAME-000001.jsonl and so on (.lines, .bin), and are only appended to. A file is complete once the next one
    exists; only then may it be moved away. The hidden folder .headrace beside them belongs to the sink.

    \b
    Examples:
      headrace connector run file-sink --path alerts --sink alerts
      headrace connector run file-sink --path out --sink quotes --format lines --rotate-seconds 3600
    """
    _quiet_grpc()
    from headrace.connectors import FileSink, Rotation, SinkFormat
    from headrace.sdk import HeadraceError

    try:
        files = FileSink(sink, path, SinkFormat(format_name), rotation=Rotation(rotate_bytes, rotate_seconds))
    except HeadraceError as error:
        raise Failure(str(error), error.exit_code) from None
    run_connector(files, connection, instance, verbose)


@run.command("stdout-sink")
@_sink_option
@click.option("--json", "as_json", is_flag=True, help="Print all of a message as a line of JSON, instead of its value.")
@_sink_instance_option
@_verbose_option
@connection_options
def run_stdout_sink(sink: str, as_json: bool, instance: str | None, verbose: bool, connection: Connection) -> None:
    """Print messages, at least once.

    \b
    Example:
      headrace connector run stdout-sink --sink alerts --json
    """
    _quiet_grpc()
    from headrace.connectors import StdoutSink

    run_connector(StdoutSink(sink, as_json=as_json), connection, instance, verbose)


def run_connector(connector: "Source | Sink | TwoPhaseSink", connection: Connection, instance: str | None, verbose: bool) -> None:
    """Runs a connector and exits with its code."""
    from headrace.sdk import Tls
    from headrace.sdk import run as run_to_end

    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="%(levelname)s: %(message)s")
    options: dict[str, Any] = {}
    if connection.encrypted:
        options["tls"] = Tls(ca=connection.tls_ca, certificate=connection.tls_cert, key=connection.tls_key)
    code = run_to_end(connector, gateway=connection.gateway, token=connection.token, instance=instance, **options)
    click.get_current_context().exit(code)


def _quiet_grpc() -> None:
    """Silences gRPC itself: its log lines name no cause that a person could act on; it reads this when it is imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")

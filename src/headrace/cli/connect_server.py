"""`headrace connect-server`: serves Spark Connect, whose clients read streams and write to sinks."""

import logging
import os
import signal
import threading
from pathlib import Path

import click

from headrace.cli.spark_options import SparkOptions, log_format_option, require_java, spark_options
from headrace.contract.addresses import split_address
from headrace.contract.errors import HeadraceError
from headrace.logs.output import FORMAT_VARIABLE, configure_logging, is_verbose
from headrace.machine.replacement import replace_text
from headrace.terminal import (
    EXIT_FAILED,
    EXIT_INVALID,
    Connection,
    Failure,
    ProgramCommand,
    own_connection_options,
    print_line,
)

_DEFAULT_LISTEN = "127.0.0.1:15002"
_LOOKS_EVERY_S = 0.5


@click.command("connect-server", cls=ProgramCommand)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=_DEFAULT_LISTEN,
    show_default=True,
    help="Where to listen. Port 0 takes any free port. Another host than this one needs spark.connect.authenticate.token.",
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the actual address to this file once it listens.",
)
@log_format_option
@spark_options
@own_connection_options
def connect_server(listen: str, ready_file: Path | None, log_format: str, on: SparkOptions, connection: Connection) -> None:
    """Serve Spark Connect: its clients, in any language, read streams of a gateway and write to its sinks.

    Clients need nothing of Headrace: format("headrace") exists in each of their sessions, also in declarative pipelines. The
    options for the gateway are the defaults of its queries. This process is the driver of all queries, and reports their
    commits. SIGTERM or Ctrl-C stops the queries, then the server.

    \b
    Examples:
      headrace connect-server
      headrace connect-server --listen 127.0.0.1:0 --ready-file connect.address --master 'local[4]'
    """
    try:
        host, port = split_address(listen)
    except ValueError as error:
        raise Failure(f"--listen {error}", EXIT_INVALID) from None
    if connection.tls and not (connection.tls_ca or connection.tls_cert):
        raise Failure("--tls alone is not enough for Spark's workers: give --tls-ca", EXIT_INVALID)
    require_java()
    os.environ[FORMAT_VARIABLE] = log_format
    configure_logging(log_format, logging.INFO if is_verbose() else logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    from headrace.engine.spark.connect_server import connect_server as serving

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    options = {
        "gateway": connection.gateway,
        "token": connection.token,
        "token_file": connection.token_file,
        "tls_ca": connection.tls_ca and connection.tls_ca.absolute(),
        "tls_cert": connection.tls_cert and connection.tls_cert.absolute(),
        "tls_key": connection.tls_key and connection.tls_key.absolute(),
    }
    try:
        with serving(host, port, on.master, on.conf, options=options, quiet=not is_verbose()) as server:
            if ready_file is not None:
                _announce(server.address, ready_file)
            print_line(f"Spark Connect: sc://{server.address}, gateway {connection.gateway}", err=True)
            while not stop.wait(_LOOKS_EVERY_S):
                if not server.is_alive:
                    raise Failure("Spark's JVM has ended, and its queries with it", EXIT_FAILED)
                server.keep_sessions()
    except HeadraceError as error:
        raise Failure(str(error), EXIT_FAILED) from None
    except OSError as error:
        raise Failure(f"no folder for temporary files: {error.filename}: {error.strerror or error}", EXIT_FAILED) from None


def _announce(address: str, ready_file: Path) -> None:
    try:
        replace_text(ready_file, f"{address}\n")
    except OSError as error:
        raise Failure(f"--ready-file {ready_file} cannot be written: {error.strerror or error}", EXIT_FAILED) from None

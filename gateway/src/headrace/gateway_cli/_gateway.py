"""`headrace gateway`, and `headrace gateway token`."""

import os
import re
import secrets
import sys
from pathlib import Path
from typing import Any

import click

from headrace.terminal import Failure, ProgramGroup

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=ProgramGroup, invoke_without_command=True)
@click.option("--config", type=_FILE, help="A TOML file; the options below win over it.")
@click.option("--listen", metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.  [default: 127.0.0.1:7433]")
@click.option("--insecure", is_flag=True, default=None, help="Listen in the clear also where others can reach it.")
@click.option("--tls-cert", type=_FILE, help="PEM: the gateway's certificate.")
@click.option("--tls-key", type=_FILE, help="PEM: its key.")
@click.option("--tls-client-ca", type=_FILE, help="PEM: clients must show a certificate that this authority signed.")
@click.option("--buffer-bytes", metavar="SIZE", help="Frames held, all sessions together.  [default: 128MiB]")
@click.option("--max-frame-bytes", metavar="SIZE", help="The largest frame taken.  [default: 4032KiB]")
@click.option("--max-sessions", metavar="N", help="Sessions at the same time.  [default: 2000]")
@click.option("--drain-timeout-ms", metavar="MS", help="Time for what is in flight, when stopping.  [default: 10000]")
@click.option("--log-format", metavar="FORMAT", help="auto, json or console.  [default: auto]")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.  [default: info]")
@click.option("--ready-file", type=_FILE, help="Write the actual address there once it listens.")
@click.option("--check", is_flag=True, help="Only check the configuration.")
@click.option("--print-config", is_flag=True, help="Only print the whole configuration, secrets hidden.")
@click.pass_context
def gateway(
    ctx: click.Context, /, config: Path | None, ready_file: Path | None, check: bool, print_config: bool, **flags: Any
) -> None:
    """Run a gateway between connectors and Spark.

    It keeps nothing on disk. SIGTERM or Ctrl-C drains it: what is in flight is given time to be acknowledged. A second
    one ends it at once. Where tokens are configured every call needs one, except for grpc.health.v1.

    \b
    Examples:
      headrace gateway
      headrace gateway --listen 127.0.0.1:0 --ready-file gateway.address --buffer-bytes 64MiB
      headrace gateway --config gateway.toml --check

    \b
    A configuration file; everything is optional, ${NAME} and ${NAME:default} are taken from the environment:
      listen = "0.0.0.0:7433"

    \b
      [tls]                        # paths are relative to this file
      cert = "gateway.pem"
      key = "gateway.key"
      client_ca = "clients.pem"    # ask clients for a certificate

    \b
      [[tokens]]                   # headrace gateway token prints such a table
      name = "orders"
      sha256 = "..."               # or: token = "${ORDERS_TOKEN}"
      sources = ["orders/*"]       # streams it may send
      pipelines = ["totals"]       # pipelines it may run
      reads = ["orders/*"]         # streams that these may read
      writes = ["totals"]          # sinks that these may write to
      sinks = []                   # sinks it may attach as
      admin = false                # may it call status and forget

    \b
      [[streams]]                  # acknowledged when all these have committed
      pattern = "orders/*"
      pipelines = ["totals", "archive"]

    \b
      [limits]
      buffer_bytes = "128MiB"
      max_frame_bytes = "4032KiB"

    \b
      [log]
      format = "json"
    """
    if ctx.invoked_subcommand is not None:
        return
    # gRPC's own log lines are not structured, and name no cause that a person could act on.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from headrace.gateway import OPTION_KEYS, ConfigError, ConfigSource, Flag, load_config, redacted_toml

    given = {OPTION_KEYS[name]: Flag(_option(name), value) for name, value in flags.items() if value is not None}
    try:
        resolved = load_config(config, {key: _absolute(flag) for key, flag in given.items()})
    except ConfigError as error:
        click.echo(str(error), err=True)
        ctx.exit(error.exit_code)
    if print_config:
        click.echo(redacted_toml(resolved), nl=False)
    elif check:
        click.echo(f"{config or 'the configuration'} is valid")
    else:
        overrides = {key: _absolute(flag) for key, flag in given.items()}
        _run(resolved, ready_file, None if config is None else ConfigSource(config, lambda: load_config(config, overrides)))


def _run(config: Any, ready_file: Path | None, source: Any) -> None:
    import uvloop

    from headrace.gateway import GatewayError, configure_logging
    from headrace.gateway._server import serve

    def announce(address: str) -> None:
        if ready_file is not None:
            _write_whole(ready_file, f"{address}\n")

    configure_logging(config.log)
    try:
        uvloop.run(serve(config, ready=announce, source=source))
    except GatewayError as error:
        raise Failure(str(error), error.exit_code) from None


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _absolute(flag: Any) -> Any:
    """Paths on the command line are relative to where the command runs, not to the configuration file."""
    return type(flag)(flag.option, str(flag.value.absolute())) if isinstance(flag.value, Path) else flag


def _write_whole(path: Path, text: str) -> None:
    """Writes a file in one step, so that whoever waits for it never reads half an address."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


def _plain_name(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+", value):
        raise click.BadParameter("letters, digits and ._- only")
    return value


@gateway.command()
@click.argument("name", callback=_plain_name)
def token(name: str) -> None:
    """Print a fresh token for NAME, and the table for the gateway's configuration.

    The token goes to standard error, once: keep it where the connector finds it as HEADRACE_TOKEN. The table holds only its
    digest and goes to standard output.

    \b
    Example:
      headrace gateway token orders >> gateway.toml
    """
    from headrace.gateway import token_digest

    secret = f"hr_{secrets.token_urlsafe(32)}"
    click.echo(f"HEADRACE_TOKEN={secret}", err=True)
    sys.stdout.write(
        f'\n[[tokens]]\nname = "{name}"\nsha256 = "{token_digest(secret)}"\n'
        f'sources = ["{name}/*"]\npipelines = []\nreads = []\nwrites = []\nsinks = []\nadmin = false\n'
    )

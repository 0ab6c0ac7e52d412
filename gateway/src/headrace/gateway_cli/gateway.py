"""`headrace gateway`, and `headrace gateway token`."""

import os
import secrets
import signal
import sys
from pathlib import Path
from typing import Any

import click

from headrace.contract.names import is_name
from headrace.contract.settings import OF_GATEWAY
from headrace.contract.token_files import descriptor_of
from headrace.machine.replacement import replace_text
from headrace.terminal import (
    CALL_TIMEOUT_S,
    Connection,
    Failure,
    ProgramCommand,
    ProgramGroup,
    connection_options,
    counted,
    json_option,
    print_line,
    print_result,
    setting_option,
)

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=ProgramGroup, invoke_without_command=True)
@setting_option(OF_GATEWAY["config"], type=_FILE)
@click.option("--env-file", type=_FILE, help="Variables, NAME=value line by line, which precede the environment.")
@setting_option(OF_GATEWAY["listen"], metavar="HOST:PORT")
@setting_option(OF_GATEWAY["insecure"], default=None)
@setting_option(OF_GATEWAY["tls_cert"], type=_FILE)
@setting_option(OF_GATEWAY["tls_key"], type=_FILE)
@setting_option(OF_GATEWAY["tls_client_ca"], type=_FILE)
@setting_option(OF_GATEWAY["buffer_bytes"], metavar="SIZE")
@setting_option(OF_GATEWAY["max_frame_bytes"], metavar="SIZE")
@setting_option(OF_GATEWAY["max_sessions"], metavar="N")
@setting_option(OF_GATEWAY["drain_timeout_seconds"], metavar="DURATION")
@setting_option(OF_GATEWAY["http_listen"], metavar="HOST:PORT")
@setting_option(OF_GATEWAY["log_format"], metavar="FORMAT")
@setting_option(OF_GATEWAY["log_level"], metavar="LEVEL")
@click.option("--ready-file", type=_FILE, help="Write the actual address to this file once it listens.")
@click.option("--check", is_flag=True, help="Check the configuration, then exit.")
@click.option("--print-config", is_flag=True, help="Print the complete configuration without secrets, then exit.")
@click.pass_context
def gateway(
    ctx: click.Context,
    /,
    config: Path | None,
    env_file: Path | None,
    ready_file: Path | None,
    check: bool,
    print_config: bool,
    **flags: Any,
) -> None:
    """Run a gateway between connectors and Spark.

    It keeps nothing on disk. SIGTERM or Ctrl-C drains it: messages in flight have time to be acknowledged. A second signal
    ends it at once. SIGHUP reloads the configuration file. If tokens are configured, every call needs one, except for
    grpc.health.v1.

    \b
    Examples:
      headrace gateway
      headrace gateway --listen 127.0.0.1:0 --ready-file gateway.address --buffer-bytes 64MiB
      headrace gateway --config gateway.toml --check

    \b
    A configuration file. Everything is optional; ${NAME} and ${NAME:-default}
    refer to environment variables:
      listen = "0.0.0.0:7433"

    \b
      [tls]                        # paths are relative to this file
      cert = "gateway.pem"
      key = "gateway.key"
      client_ca = "clients.pem"    # ask clients for a certificate

    \b
      [[tokens]]                   # headrace gateway token prints this table
      name = "orders"
      sha256 = "..."               # or: token = "${ORDERS_TOKEN}"
      sources = ["orders/*"]       # streams it may send
      pipelines = ["totals"]       # pipelines it may run
      reads = ["orders/*"]         # streams that these may read
      writes = ["totals"]          # sinks that these may write to
      sinks = []                   # sinks it may attach as
      admin = false                # whether it may read the status
      control = false              # may pause, forget, drain, reload, restart
      peek = []                    # streams of which it may see messages
      supervise = []               # deployments it may register: ["deploy.toml"]

    \b
      [[streams]]                  # acknowledged when all these have committed
      pattern = "orders/*"
      pipelines = ["totals", "archive"]

    \b
      [paused]                     # paused whenever the gateway runs
      streams = ["orders/7"]

    \b
      [limits]
      buffer_bytes = "128MiB"
      max_frame_bytes = "4032KiB"

    \b
      [http]                       # health, metrics and the API
      listen = "127.0.0.1:7434"

    \b
      [log]
      format = "json"
    """
    if ctx.invoked_subcommand is not None:
        return
    # Until it is handled, and after that.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # gRPC's own log lines are unstructured, and do not name the causes of errors.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from headrace.configuration import ConfigurationError, Flag, read_env_file
    from headrace.gateway import OPTION_KEYS, ConfigSource, load_config, redacted_toml

    given = {OPTION_KEYS[name]: Flag(OF_GATEWAY[name].option, value) for name, value in flags.items() if value is not None}
    overrides = {key: _absolute(flag) for key, flag in given.items()}

    def load() -> Any:
        variables = {} if env_file is None else read_env_file(env_file)
        return load_config(config, overrides, {**os.environ, **variables})

    try:
        resolved = load()
    except ConfigurationError as error:
        print_line(str(error), err=True)
        ctx.exit(error.exit_code)
    if print_config:
        print_line(redacted_toml(resolved).removesuffix("\n"))
    elif check:
        print_line(f"{config or 'the configuration'} is valid")
    else:
        _run(resolved, ready_file, None if config is None else ConfigSource(config, load, env_file))


def _run(config: Any, ready_file: Path | None, source: Any) -> None:
    import uvloop

    from headrace.gateway import GatewayError, configure_logging
    from headrace.gateway.server import serve
    from headrace.machine.resources import keep_freed_memory

    def announce(address: str) -> None:
        if ready_file is not None:
            try:
                _write_whole(ready_file, f"{address}\n")
            except OSError as error:
                raise Failure(f"--ready-file {ready_file} cannot be written: {error.strerror or error}") from None

    configure_logging(config.log)
    keep_freed_memory()
    try:
        uvloop.run(serve(config, ready=announce, source=source))
    except GatewayError as error:
        raise Failure(str(error), error.exit_code) from None


def _absolute(flag: Any) -> Any:
    """Makes a path absolute: on the command line, it is relative to the working directory, not to the configuration file."""
    return type(flag)(flag.option, str(flag.value.absolute())) if isinstance(flag.value, Path) else flag


def _write_whole(path: Path, text: str) -> None:
    """Writes a file atomically, so that a process that waits for it never reads a partial address.

    Whoever passes a descriptor as `/dev/fd/N` waits for the end of the line.
    """
    if descriptor_of(path) is not None:
        path.write_text(text)
        return
    replace_text(path, text)


def _plain_name(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if not is_name(value):
        raise click.BadParameter("letters, digits and ._- only")
    return value


@gateway.command()
@click.argument("name", callback=_plain_name)
def token(name: str) -> None:
    """Generate a token for NAME, and print its table for the gateway's configuration.

    The token is printed once, to standard error: set it as HEADRACE_TOKEN for the connector. The table contains only its
    digest, and is printed to standard output.

    \b
    Example:
      headrace gateway token orders >> gateway.toml
    """
    from headrace.gateway import token_digest

    secret = f"hr_{secrets.token_urlsafe(32)}"
    print_line(f"HEADRACE_TOKEN={secret}", err=True)
    sys.stdout.write(
        f'\n[[tokens]]\nname = "{name}"\nsha256 = "{token_digest(secret)}"\n'
        f'sources = ["{name}/*"]\npipelines = []\nreads = []\nwrites = []\nsinks = []\n'
        "admin = false\ncontrol = false\npeek = []\nsupervise = []\n"
    )


@gateway.command(cls=ProgramCommand)
@json_option()
@connection_options
def reload(as_json: bool, connection: Connection) -> None:
    """Let a running gateway read its configuration file again.

    Everything that has changed takes effect, or nothing does: if the file is invalid, or if a change needs a restart, the gateway
    keeps the previous configuration. SIGHUP does the same.

    \b
    Examples:
      headrace gateway reload
      headrace gateway reload --json

    Exit codes: 0 the file is in effect, 1 it is refused or the gateway is away.
    """
    from headrace.protocol.v1.admin_pb2 import ReloadRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    with connection.failures("nothing has changed"), connection.channel() as channel:
        answer = AdminServiceStub(channel).Reload(ReloadRequest(), timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    changes = list(answer.changes)
    summary = f"in effect: {counted(len(changes), 'change')}" if changes else "nothing has changed"
    if as_json:
        print_result(summary, {"changes": changes})
    else:
        print_line("\n".join([*changes, summary]))

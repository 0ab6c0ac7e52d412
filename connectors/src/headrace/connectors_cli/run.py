"""`headrace connector run`: runs a connector by name with options, or from a configuration file."""

import logging
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from headrace.connectors_cli.execution import execute
from headrace.connectors_cli.group import ConnectorGroup, connector_command
from headrace.connectors_cli.loading import built, configuration
from headrace.contract.token_files import TokenFile
from headrace.logs.output import FORMAT_VARIABLE, FORMATS, configure_logging, is_verbose
from headrace.terminal import EXIT_INVALID, Connection, Failure, as_typed, own_connection_options, print_line

if TYPE_CHECKING:
    from headrace.connectors import Connector, Implementation, Parameters
    from headrace.connectors._connector import AnyConnector
    from headrace.connectors.configuration import GatewayTable
    from headrace.connectors.manifests import Program

T = TypeVar("T")

_instance_option = click.option(
    "--instance",
    metavar="NAME",
    help="Name of this deployment; the newest process of it takes over.  [default: the source or sink]",
)
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Also log normal events, not only problems.")
format_option = click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    envvar=FORMAT_VARIABLE,
    default="console",
    help=f"Format of the log, also of programs in other languages.  [default: {FORMAT_VARIABLE}, or console]",
)


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of every run."""
    return _instance_option(verbose_option(format_option(own_connection_options(command))))


class _RunGroup(ConnectorGroup):
    """Runs any connector."""

    def command_of(self, connector: "Connector") -> click.Command:
        return connector_command(connector, _run, _options, "run", "gateway")


@click.group(cls=_RunGroup, invoke_without_command=True, subcommand_metavar="[CONNECTOR [OPTIONS]]")
@click.option("-c", "--config", metavar="FILE[:NAME]", help="A TOML configuration file; the options below override it.")
@_instance_option
@verbose_option
@format_option
@own_connection_options
@click.pass_context
def run(
    ctx: click.Context, config: str | None, instance: str | None, verbose: bool, log_format: str, connection: Connection
) -> None:
    """Run a connector: a source until it has ended and everything is acknowledged, a sink until it is stopped.

    Give its name and options, or a configuration file. For a deployment (headrace run deploy.toml), also give the name of the
    connector in it.

    SIGTERM and Ctrl-C stop it gracefully: a source sends what it has read, and waits up to 10 s for acknowledgements; a sink
    answers what has arrived. A second signal ends it immediately. SIGHUP never does: certificates are read again.

    \b
    Examples:
      headrace connector run file --path 'trades/*.csv' --source trades --no-follow
      headrace connector run stdout-sink --sink alerts
      headrace connector run -c trades.toml
      headrace connector run -c deploy.toml:trades
    """
    # Also while the connector is loaded. A program in another language inherits it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    given = [option for option in ctx.params if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE]
    if ctx.invoked_subcommand is not None:
        if given:
            words = as_typed(f"headrace connector run {ctx.invoked_subcommand} ...")
            raise click.UsageError(f"options come after the connector: {words}")
        return
    if config is None:
        if given:
            raise click.UsageError("name a connector, or give a configuration file with -c")
        print_line(ctx.get_help())
        return
    configured = configuration(config)
    connector = built(configured.implementation, configured.parameters)
    reached = _reached(configured.gateway, connection, ctx)
    run_connector(connector, reached, instance or configured.instance, verbose, log_format)


def run_connector(
    connector: "AnyConnector | Program", connection: Connection, instance: str | None, verbose: bool, log_format: str
) -> None:
    """Runs a connector and exits with its code."""
    from headrace.connectors.manifests import Program
    from headrace.sdk import Tls
    from headrace.sdk import run as run_to_end

    if isinstance(connector, Program):
        execute(connector, connection, instance, verbose, log_format)
    configure_logging(log_format, logging.INFO if verbose or is_verbose() else logging.WARNING)
    options: dict[str, Any] = {}
    if connection.encrypted:
        options["tls"] = Tls(ca=connection.tls_ca, certificate=connection.tls_cert, key=connection.tls_key)
    if connection.token_file is not None:
        options["token_file"] = connection.token_file.path
    code = run_to_end(connector, gateway=connection.gateway, token=connection.token, instance=instance, **options)
    click.get_current_context().exit(code)


def _run(
    implementation: "Implementation[Any]",
    parameters: "Parameters",
    *,
    instance: str | None,
    verbose: bool,
    log_format: str,
    connection: Connection,
) -> None:
    run_connector(built(implementation, parameters), connection, instance, verbose, log_format)


def _reached(file: "GatewayTable", connection: Connection, ctx: click.Context) -> Connection:
    """How to reach the gateway: from command-line options, or else the file, or else the environment."""

    def chosen(option: str, from_file: T | None, otherwise: T) -> T:
        typed = ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
        return otherwise if typed or from_file is None else from_file

    token, token_file = connection.token, connection.token_file
    if ParameterSource.COMMANDLINE not in (ctx.get_parameter_source("token"), ctx.get_parameter_source("token_file")):
        if file.token_file is not None:
            token, token_file = None, TokenFile(file.token_file)
        elif file.token is not None:
            token, token_file = file.token.get_secret_value(), None
    reached = Connection(
        gateway=chosen("gateway", file.address, connection.gateway),
        token=token,
        token_file=token_file,
        tls=connection.tls or file.tls,
        tls_ca=chosen("tls_ca", file.tls_ca, connection.tls_ca),
        tls_cert=chosen("tls_cert", file.tls_cert, connection.tls_cert),
        tls_key=chosen("tls_key", file.tls_key, connection.tls_key),
    )
    missing = next((path for path in (reached.tls_ca, reached.tls_cert, reached.tls_key) if path and not path.is_file()), None)
    if missing is not None:
        raise Failure(f"there is no file {missing}", EXIT_INVALID)
    return reached

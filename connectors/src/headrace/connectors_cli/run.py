"""`headrace connector run`: runs a connector by name with options, or from a configuration file."""

import inspect
import logging
import os
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from headrace.connectors_cli.logs import configure_logging
from headrace.terminal import EXIT_INVALID, Connection, Failure, ProgramGroup, as_typed, connection_options

if TYPE_CHECKING:
    from headrace.connectors import Connector, Implementation, Parameters
    from headrace.connectors._registry import AnyConnector
    from headrace.connectors.configuration import Configured, GatewayTable

T = TypeVar("T")

_instance_option = click.option(
    "--instance",
    metavar="NAME",
    help="Name of this deployment; a newer process with it takes over.  [default: the source or sink]",
)
_verbose_option = click.option("-v", "--verbose", is_flag=True, help="Also log normal events, not only problems.")


class _Connectors(ProgramGroup):
    """A group with a command for each connector, whose options are the parameters of the connector."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from headrace.connectors import CONNECTORS

        return [known.name for known in CONNECTORS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from headrace.connectors import CONNECTORS

        return next((_command(known) for known in CONNECTORS if known.name == cmd_name), None)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in (names := self.list_commands(ctx)) and not args[0].startswith("-"):
            raise click.exceptions.NoSuchCommand(args[0], f"There is no connector {args[0]!r}.", names, ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the connectors without importing them."""
        from headrace.connectors import CONNECTORS

        with formatter.section("Connectors"):
            formatter.write_dl([(known.name, known.summary) for known in CONNECTORS])


@click.group(cls=_Connectors, invoke_without_command=True, subcommand_metavar="[CONNECTOR [OPTIONS]]")
@click.option("-c", "--config", metavar="FILE[:NAME]", help="A TOML configuration file; the options below override it.")
@_instance_option
@_verbose_option
@connection_options
@click.pass_context
def run(ctx: click.Context, config: str | None, instance: str | None, verbose: bool, connection: Connection) -> None:
    """Run a connector: a source until it has ended and everything is acknowledged, a sink until it is stopped.

    Give its name and options, or a configuration file. For a deployment (headrace run deploy.toml), also give the name of the
    connector in it.

    SIGTERM and Ctrl-C stop it gracefully: a source sends what it has read, and waits up to 10 s for acknowledgements; a sink
    answers what has arrived. A second signal ends it immediately.

    \b
    Examples:
      headrace connector run file --path 'trades/*.csv' --source trades --no-follow
      headrace connector run stdout-sink --sink alerts
      headrace connector run -c trades.toml
      headrace connector run -c deploy.toml:trades
    """
    given = [option for option in ctx.params if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE]
    if ctx.invoked_subcommand is not None:
        if given:
            words = as_typed(f"headrace connector run {ctx.invoked_subcommand} ...")
            raise click.UsageError(f"options come after the connector: {words}")
        return
    if config is None:
        if given:
            raise click.UsageError("name a connector, or give a configuration file with -c")
        click.echo(ctx.get_help())
        return
    configured = configuration(config)
    connector = built(configured.implementation, configured.parameters)
    reached = _reached(configured.gateway, connection, ctx)
    run_connector(connector, reached, instance or configured.instance, verbose)


def configuration(target: str) -> "Configured":
    """Returns the connector that `FILE` or `FILE:NAME` configures.

    Raises:
        Failure: The file is invalid, or the connector's client library is not installed.
    """
    quiet_grpc()
    from headrace.configuration import ConfigurationError
    from headrace.connectors import MissingExtra
    from headrace.connectors.configuration import load_connector

    try:
        return load_connector(target)
    except (ConfigurationError, MissingExtra) as error:
        raise Failure(str(error), error.exit_code) from None


def implementation_of(connector: "Connector") -> "Implementation[Any]":
    """Imports a connector.

    Raises:
        Failure: Its client library is not installed; the message states how to install it.
    """
    quiet_grpc()
    from headrace.connectors import MissingExtra

    try:
        return connector.load()
    except MissingExtra as error:
        raise Failure(str(error), error.exit_code) from None


def built(implementation: "Implementation[Any]", parameters: "Parameters") -> "AnyConnector":
    """Builds a connector.

    Raises:
        Failure: Its parameters do not allow it to run.
    """
    from headrace.sdk import HeadraceError

    try:
        return implementation.build(parameters)
    except HeadraceError as error:
        raise Failure(str(error), error.exit_code) from None


def run_connector(connector: "AnyConnector", connection: Connection, instance: str | None, verbose: bool) -> None:
    """Runs a connector and exits with its code."""
    from headrace.sdk import Tls
    from headrace.sdk import run as run_to_end

    configure_logging(logging.INFO if verbose else logging.WARNING)
    options: dict[str, Any] = {}
    if connection.encrypted:
        options["tls"] = Tls(ca=connection.tls_ca, certificate=connection.tls_cert, key=connection.tls_key)
    code = run_to_end(connector, gateway=connection.gateway, token=connection.token, instance=instance, **options)
    click.get_current_context().exit(code)


def quiet_grpc() -> None:
    """Silences gRPC's own log lines, which name no cause that a user could act on; to be called before gRPC is imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _command(connector: "Connector") -> click.Command:
    """Returns the command that runs a connector."""
    implementation = implementation_of(connector)
    from headrace.connectors import declared
    from headrace.connectors_cli.options import example_of, option_of, taken_from

    parameters = declared(implementation.parameters)

    def run_it(instance: str | None, verbose: bool, connection: Connection, **values: Any) -> None:
        given = taken_from(implementation.parameters, parameters, values)
        run_connector(built(implementation, given), connection, instance, verbose)

    about = inspect.cleandoc(implementation.parameters.__doc__ or f"{connector.summary}.")
    command = click.command(connector.name, help=f"{about}\n\n\b\nExample:\n  {example_of(connector, parameters)}")(
        _instance_option(_verbose_option(connection_options(run_it)))
    )
    own = [option_of(parameter, connector) for parameter in parameters]
    taken = {option for parameter in own for option in parameter.opts}
    if any(option.startswith("--tls") for option in taken):
        taken |= {"--tls", "--tls-ca", "--tls-cert", "--tls-key"}
    for option in command.params:
        # A broker may have its own token or certificates.
        option.opts = [f"--gateway-{name[2:]}" if name in taken else name for name in option.opts]
    command.params = [*own, *command.params]
    return command


def _reached(file: "GatewayTable", connection: Connection, ctx: click.Context) -> Connection:
    """How to reach the gateway: from command-line options, or else the file, or else the environment."""

    def chosen(option: str, from_file: T | None, otherwise: T) -> T:
        typed = ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
        return otherwise if typed or from_file is None else from_file

    reached = Connection(
        gateway=chosen("gateway", file.address, connection.gateway),
        token=chosen("token", file.token.get_secret_value() if file.token is not None else None, connection.token),
        tls=connection.tls or file.tls,
        tls_ca=chosen("tls_ca", file.tls_ca, connection.tls_ca),
        tls_cert=chosen("tls_cert", file.tls_cert, connection.tls_cert),
        tls_key=chosen("tls_key", file.tls_key, connection.tls_key),
    )
    missing = next((path for path in (reached.tls_ca, reached.tls_cert, reached.tls_key) if path and not path.is_file()), None)
    if missing is not None:
        raise Failure(f"there is no file {missing}", EXIT_INVALID)
    return reached

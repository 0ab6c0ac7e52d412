"""`headrace connector run`: by a connector's name and its options, or by a configuration file."""

import inspect
import logging
import os
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from headrace.connectors_cli._logs import configure_logging
from headrace.terminal import EXIT_INVALID, Connection, Failure, ProgramGroup, as_typed, connection_options

if TYPE_CHECKING:
    from headrace.configuration import Configured, GatewayTable
    from headrace.connectors import Connector, Implementation, Parameters
    from headrace.connectors._registry import AnyConnector

T = TypeVar("T")

_instance_option = click.option(
    "--instance", metavar="NAME", help="Which deployment this is; a newer run of it takes over.  [default: the source or sink]"
)
_verbose_option = click.option("-v", "--verbose", is_flag=True, help="Log what happens, not only what goes wrong.")


class _Connectors(ProgramGroup):
    """A group whose commands are the connectors; their options are what they declare."""

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
@click.option("-c", "--config", metavar="FILE[:NAME]", help="A TOML file that configures it; the options below win over it.")
@_instance_option
@_verbose_option
@connection_options
@click.pass_context
def run(ctx: click.Context, config: str | None, instance: str | None, verbose: bool, connection: Connection) -> None:
    """Run a connector: a source until it has ended and everything is acknowledged, a sink until it is stopped.

    Give its name and its options, or a configuration file; of a deployment (headrace run deploy.toml) also the connector's name
    there.

    SIGTERM and Ctrl-C stop it in good order: what was read is sent, and acknowledged where that takes no longer than 10 s; what
    has arrived at a sink is answered. A second one ends it at once.

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
    """The connector that `FILE` or `FILE:NAME` configures.

    Raises:
        Failure: The file is wrong, or the connector's client library is not installed.
    """
    quiet_grpc()
    from headrace.configuration import ConfigurationError, load_connector
    from headrace.connectors import MissingExtra

    try:
        return load_connector(target)
    except (ConfigurationError, MissingExtra) as error:
        raise Failure(str(error), error.exit_code) from None


def implementation_of(connector: "Connector") -> "Implementation[Any]":
    """Imports a connector.

    Raises:
        Failure: Its client library is not installed; the failure says how to install it.
    """
    quiet_grpc()
    from headrace.connectors import MissingExtra

    try:
        return connector.load()
    except MissingExtra as error:
        raise Failure(str(error), error.exit_code) from None


def built(implementation: "Implementation[Any]", parameters: "Parameters") -> "AnyConnector":
    """Makes a connector.

    Raises:
        Failure: It cannot be run as it is.
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
    """Silences gRPC itself: its log lines name no cause that a person could act on; it reads this when it is imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _command(connector: "Connector") -> click.Command:
    """The command that runs a connector."""
    implementation = implementation_of(connector)
    from headrace.connectors import declared
    from headrace.connectors_cli._options import example_of, option_of, taken_from

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
        # A broker may have a token, or certificates, of its own.
        option.opts = [f"--gateway-{name[2:]}" if name in taken else name for name in option.opts]
    command.params = [*own, *command.params]
    return command


def _reached(file: "GatewayTable", connection: Connection, ctx: click.Context) -> Connection:
    """How the gateway is reached: by options on the command line, else by the file, else by the environment."""

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

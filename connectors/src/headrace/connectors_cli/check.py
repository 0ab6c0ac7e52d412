"""`headrace connector check`: checks parameters, and whether a connector can connect to its system."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from headrace.connectors_cli.group import ConnectorGroup, connector_command
from headrace.connectors_cli.loading import configuration
from headrace.terminal import Failure, as_typed, json_option, print_line, print_result

if TYPE_CHECKING:
    from headrace.connectors import Connector, Implementation, Parameters

_json_option = json_option()


class _CheckGroup(ConnectorGroup):
    """Checks any connector."""

    def command_of(self, connector: "Connector") -> click.Command:
        def check_it(implementation: "Implementation[Any]", parameters: "Parameters", *, as_json: bool) -> None:
            _report(as_json, connector.name, lambda: (connector.name, _result_of(connector.name, implementation, parameters)))

        return connector_command(connector, check_it, _json_option, "check", "check")


@click.group(cls=_CheckGroup, invoke_without_command=True, subcommand_metavar="[CONNECTOR [OPTIONS]]")
@click.option("-c", "--config", metavar="FILE[:NAME]", help="The TOML file to check.")
@_json_option
@click.pass_context
def check(ctx: click.Context, config: str | None, as_json: bool) -> None:
    """Check a connector's parameters, and whether it can connect to its system. Changes nothing in that system.

    Give a configuration file, or the connector's name and options as for a run.

    Exit codes: 0 valid, 1 cannot connect, 2 a parameter is invalid, 3 the connector cannot be used on this machine.

    \b
    Examples:
      headrace connector check -c trades.toml
      headrace connector check -c deploy.toml:trades --json
      headrace connector check file --path 'trades/*.csv' --source trades
    """
    if ctx.invoked_subcommand is not None:
        if config is not None or as_json:
            words = as_typed(f"headrace connector check {ctx.invoked_subcommand} ...")
            raise click.UsageError(f"options come after the connector: {words}")
        return
    if config is None:
        raise click.UsageError("name a connector, or give a configuration file with -c")

    def look() -> tuple[str, str | None]:
        configured = configuration(config)
        return configured.connector.name, _result_of(config, configured.implementation, configured.parameters)

    _report(as_json, config, look)


def _report(as_json: bool, what: str, look: Callable[[], tuple[str, str | None]]) -> None:
    """Prints the result of a check.

    Args:
        as_json: Whether to print JSON.
        what: What is checked: a file, or the name of a connector.
        look: Checks, and returns the name of the connector and what was found.

    Raises:
        Failure: It is invalid, or the connector cannot connect.
    """
    try:
        name, found = look()
    except Failure as failure:
        raise failure.with_summary(f"{what} is invalid, or its connector cannot connect") from None
    if as_json:
        print_result(f"{what} is valid", {"connector": name, "finding": found})
    else:
        of_file = f"{name}, " if name != what else ""
        details = f"{of_file}{found or ''}".removesuffix(", ")
        print_line(f"{what} is valid{f': {details}' if details else ''}")


def _result_of(what: str, implementation: "Implementation[Any]", parameters: "Parameters") -> str | None:
    """Returns what the check of a connector found; None if it has no check.

    Raises:
        Failure: The connector cannot connect.
    """
    from headrace.sdk import HeadraceError

    try:
        return implementation.check(parameters) if implementation.check is not None else None
    except HeadraceError as error:
        raise Failure(f"{what}: {error}", error.exit_code) from None

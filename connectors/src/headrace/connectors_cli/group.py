"""A group that has a command for each connector of this machine, with the parameters of the connector as options."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from headrace.connectors_cli.loading import connector_of, implementation_of
from headrace.terminal import ProgramCommand, ProgramGroup

if TYPE_CHECKING:
    from headrace.connectors import Connector

_TLS = {"--tls", "--tls-ca", "--tls-cert", "--tls-key"}
_TOKEN = {"--token", "--token-file"}


class ConnectorGroup(ProgramGroup):
    """A group with a command for each connector. Only the connector that is asked for is imported."""

    def command_of(self, connector: "Connector") -> click.Command:
        """Returns the command of a connector."""
        raise NotImplementedError

    def offers(self, connector: "Connector") -> bool:
        """Returns whether the group lists a connector, by what is known without importing it."""
        return True

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of the connectors that it offers."""
        return sorted(connector.name for connector in self._offered())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command of a connector, None if there is no such connector."""
        connector = connector_of(cmd_name)
        return None if connector is None else self.command_of(connector)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command, or suggests a connector."""
        name = args[0]
        if not name.startswith("-") and connector_of(name) is None:
            raise click.exceptions.NoSuchCommand(name, f"There is no connector {name!r}.", self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes the names of connectors, without importing their implementations."""
        known = [known for known in self._offered() if known.name.startswith(incomplete)]
        names = [CompletionItem(connector.name, help=connector.summary) for connector in known]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the connectors, without importing their implementations."""
        with formatter.section("Connectors"):
            formatter.write_dl([(known.name, known.summary) for known in self._offered()])

    def _offered(self) -> "list[Connector]":
        from headrace.connectors import catalog

        return [known for known in catalog().connectors if self.offers(known)]


def connector_command(
    connector: "Connector",
    action: Callable[..., None],
    options: Callable[[Callable[..., None]], Callable[..., None]],
    verb: str,
    prefix: str,
    further: str = "",
) -> click.Command:
    """Returns the command of a connector, with its parameters as options.

    Args:
        connector: The connector.
        action: Called with the implementation, the parameters, and the values of the other options by name.
        options: Declares the other options.
        verb: The name of the group, for the example.
        prefix: Precedes the name of another option if a parameter has the same name: `--gateway-token`.
        further: Options for the end of the example.
    """
    implementation = implementation_of(connector)
    from headrace.connectors import declared
    from headrace.connectors_cli.options import example_of, is_parameter, option_of, taken_from

    parameters = declared(implementation.parameters)

    def act(**values: Any) -> None:
        others = {name: value for name, value in values.items() if not is_parameter(name)}
        action(implementation, taken_from(implementation.parameters, parameters, values), **others)

    about = inspect.cleandoc(implementation.parameters.__doc__ or f"{connector.summary}.")
    example = f"{example_of(connector, parameters, verb)} {further}".rstrip()
    command = click.command(connector.name, cls=ProgramCommand, help=f"{about}\n\n\b\nExample:\n  {example}")(options(act))
    own = [option_of(parameter, connector) for parameter in parameters]
    taken = {option for parameter in own for option in parameter.opts}
    if any(option.startswith("--tls") for option in taken):
        taken |= _TLS
    if taken & _TOKEN:
        taken |= _TOKEN
    for option in command.params:
        # A broker may have its own token or certificates.
        option.opts = [f"--{prefix}-{name[2:]}" if name in taken else name for name in option.opts]
    command.params = [*own, *command.params]
    return command

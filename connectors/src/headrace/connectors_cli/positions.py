"""`headrace connector positions`: asks the system of a source where a time is in its streams."""

import base64
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from headrace.connectors_cli.group import ConnectorGroup, connector_command
from headrace.connectors_cli.loading import configuration
from headrace.connectors_cli.time_index import positions_at
from headrace.terminal import TIME, as_typed, print_json

if TYPE_CHECKING:
    from headrace.connectors import Connector, Implementation, Parameters
    from headrace.sdk import Position

_time_option = click.option(
    "--time",
    type=TIME,
    metavar="TIME",
    help="The time, in UTC unless it names a zone.",
)


class _PositionsGroup(ConnectorGroup):
    """Finds a time in the streams of any replayable source that can."""

    def command_of(self, connector: "Connector") -> click.Command:
        def find(implementation: "Implementation[Any]", parameters: "Parameters", *, time: datetime | None) -> None:
            _print(connector.name, implementation, parameters, time)

        return connector_command(connector, find, _time_option, "positions", "at", "--time 2026-11-24T02:00:00Z")

    def offers(self, connector: "Connector") -> bool:
        return connector.kind == "source" and connector.replayable is True


@click.group(cls=_PositionsGroup, invoke_without_command=True, subcommand_metavar="[CONNECTOR [OPTIONS]]")
@click.option("-c", "--config", metavar="FILE[:NAME]", help="The TOML file of the connector.")
@_time_option
@click.pass_context
def positions(ctx: click.Context, config: str | None, time: datetime | None) -> None:
    """Print the position of a time in each stream of a source, as JSON for headrace positions. Changes nothing.

    The source must be able to find a time: it has the parameter start. A position is the one before the first message
    since that time.

    Give a configuration file, or the connector's name and options as for a run.

    \b
    Examples:
      headrace connector positions -c orders.toml --time 2026-11-24T02:00:00Z > orders.json
      headrace positions rewind app.py --all --positions orders.json --states keep --into checkpoints/orders-2

    headrace positions rewind --time TIME --connector FILE[:NAME] does both.
    """
    if ctx.invoked_subcommand is not None:
        if config is not None or time is not None:
            words = as_typed(f"headrace connector positions {ctx.invoked_subcommand} ...")
            raise click.UsageError(f"options come after the connector: {words}")
        return
    if config is None:
        raise click.UsageError("name a connector, or give a configuration file with -c")
    configured = configuration(config)
    _print(configured.connector.name, configured.implementation, configured.parameters, time)


def _print(name: str, implementation: "Implementation[Any]", parameters: "Parameters", time: datetime | None) -> None:
    """Prints the positions. A stream that begins with its first message has none.

    Raises:
        Failure: The source cannot find a time, or its system does not answer.
    """
    found = positions_at(name, implementation, parameters, time)
    documents = {stream: _document(position) for stream, position in found.positions.items() if position is not None}
    print_json({"time": found.time, "source": found.source, "positions": documents})


def _document(position: "Position") -> dict[str, Any]:
    """Returns a position in the form of the checkpoint."""
    cursor = {} if position.cursor is None else {"cursor": base64.b64encode(position.cursor).decode("ascii")}
    return {"epoch": 0, "sequence": position.sequence, **cursor}

"""`headrace connector positions`: where a time is in the streams of a source, as its system finds it."""

import asyncio
import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from headrace.connectors_cli.group import ConnectorGroup, connector_command
from headrace.connectors_cli.loading import built, configuration
from headrace.terminal import EXIT_INVALID, Failure, as_typed, print_json

if TYPE_CHECKING:
    from headrace.connectors import Connector, Implementation, Parameters
    from headrace.sdk import AsyncSource, Position, Source

_START = "start"
"""The parameter of a source that finds a time itself."""
_ANSWER_SECONDS = 60.0
_time_option = click.option(
    "--time",
    type=click.DateTime(("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d")),
    metavar="TIME",
    help="The time, in UTC unless it names a zone.",
)


class _PositionsGroup(ConnectorGroup):
    """Finds a time in the streams of any source that can."""

    def command_of(self, connector: "Connector") -> click.Command:
        def find(implementation: "Implementation[Any]", parameters: "Parameters", *, time: datetime | None) -> None:
            _print(connector.name, implementation, parameters, time)

        return connector_command(connector, find, _time_option, "positions", "at")


@click.group(cls=_PositionsGroup, invoke_without_command=True, subcommand_metavar="[CONNECTOR [OPTIONS]]")
@click.option("-c", "--config", metavar="FILE[:NAME]", help="The TOML file of the connector.")
@_time_option
@click.pass_context
def positions(ctx: click.Context, config: str | None, time: datetime | None) -> None:
    """Print where a time is in each stream of a source, as JSON for headrace positions. Changes nothing.

    The source must be able to find a time: it has the parameter start. A position is that before the first message that is not
    older.

    Give a configuration file, or the connector's name and options as for a run.

    \b
    Examples:
      headrace connector positions -c orders.toml --time 2026-11-24T02:00:00Z > orders.json
      headrace positions rewind app.py --all --positions orders.json --states keep --into checkpoints/orders-2
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
    """Prints the positions.

    Raises:
        Failure: The source cannot find a time, or its system does not answer.
    """
    if time is None:
        raise Failure("say at which time, with --time", EXIT_INVALID)
    if _START not in type(parameters).model_fields:
        raise Failure(
            f"{name} cannot find a time: use --time of headrace positions, which goes by the micro-batches of the checkpoint",
            EXIT_INVALID,
        )
    at = (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).isoformat()
    source: Any = built(implementation, type(parameters).model_validate({**parameters.model_dump(), _START: at}))
    try:
        found = asyncio.run(_positions(source))
    except TimeoutError:
        raise Failure(f"{name} did not answer within {_ANSWER_SECONDS:g} s: can it reach its system?") from None
    finally:
        source.close()
    if not found:
        raise Failure(f"{name} has no streams")
    print_json({"time": at, "source": source.name, "positions": {stream: _document(found[stream]) for stream in sorted(found)}})


async def _positions(source: "Source | AsyncSource") -> "dict[str, Position]":
    """Returns where the streams of a source begin."""
    from headrace.sdk import AsyncSource, HeadraceError

    async def answer(call: Callable[..., Any], *arguments: Any) -> Any:
        return await (call(*arguments) if isinstance(source, AsyncSource) else asyncio.to_thread(call, *arguments))

    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            partitions = await answer(source.partitions)
            starts = await answer(source.starts, partitions)
    except HeadraceError as error:
        raise Failure(str(error), error.exit_code) from None
    return {f"{source.name}/{partition}": position for partition, position in starts.items()}


def _document(position: "Position") -> dict[str, Any]:
    """Returns a position as the checkpoint has it."""
    cursor = {} if position.cursor is None else {"cursor": base64.b64encode(position.cursor).decode("ascii")}
    return {"epoch": 0, "sequence": position.sequence, **cursor}

"""`headrace connector`: lists, describes, checks and runs the bundled connectors."""

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import click

from headrace.connectors_cli.run import configuration, implementation_of, run
from headrace.terminal import EXIT_INVALID, Failure, ProgramGroup, as_typed, console, print_action, print_json

if TYPE_CHECKING:
    from headrace.connectors import Connector, Parameter

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


@click.group(cls=ProgramGroup)
def connector() -> None:
    """List, describe, check and run the bundled connectors.

    \b
    Examples:
      headrace connector list
      headrace connector describe file-sink
      headrace connector run file --path 'trades/*.csv' --source trades
      headrace connector check -c trades.toml
      headrace connector run -c trades.toml
    """


connector.add_command(run)


@connector.command("list")
@_json_option
def list_connectors(as_json: bool) -> None:
    """List the bundled connectors.

    \b
    Example:
      headrace connector list
    """
    from rich.table import Table

    from headrace.connectors import CONNECTORS

    if as_json:
        print_json({"connectors": [dataclasses.asdict(known) | {"guarantee": known.guarantee} for known in CONNECTORS]})
        return
    table = Table("connector", "kind", "replayable", "mode", "summary", box=None, pad_edge=False, header_style="bold")
    for known in CONNECTORS:
        replayable = "-" if known.replayable is None else _yes(known.replayable)
        table.add_row(known.name, known.kind, replayable, known.mode or "-", known.summary)
    console().print(table)


@connector.command()
@click.argument("name", metavar="CONNECTOR")
@_json_option
@click.option("--schema", is_flag=True, help="Print the JSON Schema of its configuration file, for editors.")
def describe(name: str, as_json: bool, schema: bool) -> None:
    """Describe a connector: its guarantee and its parameters.

    A parameter has the same name in a configuration file and on the command line, where - replaces _.

    \b
    Examples:
      headrace connector describe file-sink
      headrace connector describe file-sink --schema > file-sink.schema.json
    """
    known = _named(name)
    implementation = implementation_of(known)
    from headrace.connectors import declared

    parameters = declared(implementation.parameters)
    if schema:
        _print_schema([known])
    elif as_json:
        print_json(_document(known, parameters))
    else:
        _print(known, parameters)


@connector.command()
@click.option("-c", "--config", metavar="FILE[:NAME]", required=True, help="The TOML file to check.")
@click.option("--json", "as_json", is_flag=True, help="Print {command, ok, summary, result, error}.")
@click.pass_context
def check(ctx: click.Context, config: str, as_json: bool) -> None:
    """Check a connector's configuration file, and whether it can connect to its system. Changes nothing in that system.

    Exit codes: 0 valid, 1 cannot connect, 2 the file is invalid, 3 the client library is not installed.

    \b
    Examples:
      headrace connector check -c trades.toml
      headrace connector check -c deploy.toml:trades --json
    """
    try:
        name, found = _checked(config)
    except Failure as failure:
        if not as_json:
            raise
        print_action("connector check", f"{config} is invalid, or its connector cannot connect", error=failure.message)
        ctx.exit(failure.exit_code)
    if as_json:
        print_action("connector check", f"{config} is valid", {"connector": name, "found": found})
    else:
        click.echo(f"{config} is valid: {name}{f', {found}' if found else ''}")


@connector.command()
def schema() -> None:
    """Print one JSON Schema for the configuration files of all connectors, for editors.

    \b
    Example:
      headrace connector schema > headrace-connector.schema.json
    """
    from headrace.connectors import CONNECTORS

    for known in CONNECTORS:
        implementation_of(known)
    _print_schema(CONNECTORS)


def _checked(config: str) -> tuple[str, str | None]:
    """Returns the connector that a file configures, and the result of its check.

    Raises:
        Failure: The file is invalid, or the connector cannot connect.
    """
    configured = configuration(config)
    from headrace.sdk import HeadraceError

    look = configured.implementation.check
    try:
        return configured.connector.name, look(configured.parameters) if look is not None else None
    except HeadraceError as error:
        raise Failure(f"{config}: {error}", error.exit_code) from None


def _named(name: str) -> "Connector":
    from headrace.configuration import nearest
    from headrace.connectors import CONNECTORS

    known = {connector.name: connector for connector in CONNECTORS}
    if name not in known:
        advice = nearest(name, list(known)) or as_typed("; headrace connector list shows all connectors")
        raise Failure(f"there is no connector {name}{advice}", EXIT_INVALID)
    return known[name]


def _print_schema(connectors: "tuple[Connector, ...] | list[Connector]") -> None:
    from headrace.connectors.configuration import connector_schema

    click.echo(json.dumps(connector_schema(connectors), indent=2))


def _document(known: "Connector", parameters: "tuple[Parameter, ...]") -> dict[str, Any]:
    from headrace.connectors_cli.options import example_of

    return {
        "connector": known.name,
        "kind": known.kind,
        "replayable": known.replayable,
        "mode": known.mode,
        "guarantee": known.guarantee,
        "summary": known.summary,
        "extra": known.extra,
        "example": example_of(known, parameters),
        "parameters": [dataclasses.asdict(parameter) for parameter in parameters],
    }


def _print(known: "Connector", parameters: "tuple[Parameter, ...]") -> None:
    from rich.table import Table

    from headrace.connectors_cli.options import example_of

    click.echo(f"{known.name} ({known.kind}): {known.summary}")
    click.echo(f"guarantee: {known.guarantee}")
    if known.extra is not None:
        click.echo(f"needs: pip install 'headrace-connectors[{known.extra}]'")
    click.echo(f"example: {example_of(known, parameters)}\n")
    table = Table(
        "parameter", "type", "default", "required", "secret", "description", box=None, pad_edge=False, header_style="bold"
    )
    for parameter in parameters:
        required, secret = _yes(parameter.required), _yes(parameter.secret)
        table.add_row(parameter.name, parameter.type, parameter.default_text or "-", required, secret, parameter.description)
    console().print(table)


def _yes(whether: bool) -> str:
    return "yes" if whether else "no"

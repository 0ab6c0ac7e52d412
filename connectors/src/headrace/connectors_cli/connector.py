"""`headrace connector`: lists, describes, checks and runs connectors."""

import dataclasses
import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from headrace.connectors_cli.check import check
from headrace.connectors_cli.loading import connector_of, implementation_of
from headrace.connectors_cli.positions import positions
from headrace.connectors_cli.run import run
from headrace.terminal import (
    EXIT_INVALID,
    Failure,
    ProgramGroup,
    as_typed,
    console,
    counted,
    json_option,
    print_line,
    print_result,
)

if TYPE_CHECKING:
    from headrace.connectors import Catalog, Connector, Parameter

_json_option = json_option()


@click.group(cls=ProgramGroup)
def connector() -> None:
    """List, describe, check and run connectors.

    \b
    Examples:
      headrace connector list
      headrace connector describe file-sink
      headrace connector run file --path 'trades/*.csv' --source trades
      headrace connector check -c trades.toml
      headrace connector run -c trades.toml
    """


connector.add_command(check)
connector.add_command(positions)
connector.add_command(run)


@connector.command("list")
@_json_option
def list_connectors(as_json: bool) -> None:
    """List bundled connectors and plugins, and say which of them this machine cannot use.

    \b
    Example:
      headrace connector list
    """
    from headrace.connectors import catalog

    found = catalog()
    if as_json:
        connectors = [_listed(known) for known in found.connectors]
        unavailable = [{"name": one.connector, "origin": one.origin, "error": one.reason} for one in found.unavailable]
        document = {"connectors": connectors, "unavailable": unavailable, "notes": found.notes}
        print_result(counted(len(connectors), "connector"), document)
    else:
        _print_list(found)


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
    if schema and as_json:
        raise Failure("--schema and --json exclude each other: the schema is JSON in a shape of its own", EXIT_INVALID)
    known = _connector(name)
    implementation = implementation_of(known)
    from headrace.connectors import declared

    parameters = declared(implementation.parameters)
    if schema:
        _print_schema([known])
    elif as_json:
        print_result(f"{known.name} ({known.kind}): {known.summary}", _document(known, parameters))
    else:
        _print(known, parameters)


@connector.command()
def schema() -> None:
    """Print one JSON Schema for the configuration files of all connectors, for editors.

    \b
    Example:
      headrace connector schema > headrace-connector.schema.json
    """
    from headrace.connectors import BUNDLED, ConnectorUnavailable, catalog

    found = catalog()
    left_out = list(found.unavailable)
    connectors = []
    for known in found.connectors:
        if known.distribution == BUNDLED:
            implementation_of(known)
        else:
            try:
                known.load()
            except ConnectorUnavailable as error:
                left_out.append(error)
                continue
        connectors.append(known)
    for problem in (*left_out, *found.notes):
        print_line(f"left out: {problem}", err=True)
    _print_schema(connectors)


def _connector(name: str) -> "Connector":
    from headrace.configuration import nearest
    from headrace.connectors import connector_names

    known = connector_of(name)
    if known is None:
        advice = nearest(name, connector_names()) or as_typed("; headrace connector list shows all connectors")
        raise Failure(f"there is no connector {name}{advice}", EXIT_INVALID)
    return known


def _print_list(catalog: "Catalog") -> None:
    from headrace.terminal.tables import plain_table

    table = plain_table("connector", "kind", "replayable", "mode", "origin", "summary", prose=True)
    for known in catalog.connectors:
        replayable = "-" if known.replayable is None else _yes(known.replayable)
        table.add_row(known.name, known.kind, replayable, known.mode or "-", known.origin, known.summary)
    console().print(table)
    if catalog.unavailable:
        print_line()
        faulty = plain_table("cannot be used", "origin", "why", prose=True)
        for one in catalog.unavailable:
            faulty.add_row(one.connector, one.origin, one.reason)
        console().print(faulty)
    for note in catalog.notes:
        print_line(f"note: {note}", err=True)


def _print_schema(connectors: "list[Connector]") -> None:
    from headrace.connectors.configuration import connector_schema

    print_line(json.dumps(connector_schema(connectors), indent=2))


def _listed(connector: "Connector") -> dict[str, Any]:
    from headrace.connectors import Connector

    declared = {field.name: getattr(connector, field.name) for field in dataclasses.fields(Connector)}
    return {**declared, "module": connector.module or None, **_about(connector), "guarantee": connector.guarantee}


def _about(connector: "Connector") -> dict[str, Any]:
    """Returns where a connector comes from, and what it says about its program."""
    return {"origin": connector.origin, "distribution": connector.distribution or None, "program": connector.program}


def _document(connector: "Connector", parameters: "tuple[Parameter, ...]") -> dict[str, Any]:
    from headrace.connectors_cli.options import example_of

    return {
        "connector": connector.name,
        "kind": connector.kind,
        "replayable": connector.replayable,
        "mode": connector.mode,
        "guarantee": connector.guarantee,
        "summary": connector.summary,
        "extra": connector.extra,
        **_about(connector),
        "example": example_of(connector, parameters),
        "parameters": [dataclasses.asdict(parameter) for parameter in parameters],
    }


def _print(connector: "Connector", parameters: "tuple[Parameter, ...]") -> None:
    from headrace.connectors_cli.options import example_of
    from headrace.terminal.examples import broken
    from headrace.terminal.tables import plain_table

    print_line(f"{connector.name} ({connector.kind}): {connector.summary}")
    print_line(f"guarantee: {connector.guarantee}")
    if connector.origin != "bundled":
        print_line(f"from: {connector.origin}")
    for name, value in (connector.program or {}).items():
        if value:
            print_line(f"{name}: {value if isinstance(value, str) else shlex.join(value)}")
    if connector.extra is not None:
        print_line(f"needs: pip install '{connector.distribution}[{connector.extra}]'")
    print_line("\n".join(broken(f"example: {example_of(connector, parameters)}")) + "\n")
    names = ("parameter", "type", "default", "required", "secret", "description")
    table = plain_table(*names, prose=True)
    for parameter in parameters:
        required, secret = _yes(parameter.required), _yes(parameter.secret)
        table.add_row(parameter.name, parameter.type, parameter.default_text or "-", required, secret, parameter.description)
    console().print(table)


def _yes(whether: bool) -> str:
    return "yes" if whether else "no"

"""`headrace run deploy.toml`: a gateway, connectors and an application together."""

import contextlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from headrace.connectors_cli.loading import quiet_grpc
from headrace.contract.errors import HeadraceError
from headrace.logs.output import configure_logging
from headrace.terminal import EXIT_INVALID, Connection, Failure, console, counted, print_line, print_result

if TYPE_CHECKING:
    from headrace.deploy import ApplicationGraph, Deployment, Ending, GatewayProbe, IsStopped, Plan, Signals, Status

log = logging.getLogger("headrace.deploy")

_TOLD_WITHIN_S = 5.0
"""How long the last lines may take whose reader pauses."""
_PLACES = {"gateway": "in the table [gateway] of", "log_format": "at the top of"}
"""Where the file has options that are not in its table [pipeline]."""
_OWN = ("app", "dry_run", "as_json", "token", "token_file", "tls", "tls_ca", "tls_cert", "tls_key")


def run_deployment(path: Path, connection: Connection, *, dry_run: bool, as_json: bool) -> None:
    """Runs a deployment and exits with its code.

    Raises:
        Failure: The deployment cannot be run.
    """
    quiet_grpc()
    _refuse_options(path)
    from headrace.deploy import Ending, Signals, Stopped, load_deployment, missing, plan, read_graphs

    signals = Signals()
    try:
        deployment = load_deployment(path)
        say = _log_or_print(deployment)
        with signals.noted():
            graphs = read_graphs(deployment, signals.is_stopped)
            planned = plan(deployment, graphs)
            notes = [note for graph in graphs.values() for note in missing(deployment, graph)]
            if dry_run:
                _print_plan(planned, graphs, notes, as_json)
                return
            for note in notes:
                say(f"note: {note}")
            ending = _supervise(deployment, planned, _with_token(connection, deployment), as_json, say, signals)
    except Stopped:
        # Nothing has started yet. A dry run that was stopped has checked nothing.
        ending = Ending(128 + signals.stops[0] if dry_run else 0, "stopped while its applications were imported")
    except HeadraceError as error:
        result = {"deployment": path.name}
        raise Failure(str(error), error.exit_code, summary="failed", result=result) from None
    if as_json:
        failure = ending.summary if ending.exit_code else None
        print_result(ending.summary, {"deployment": path.name}, failure)
    else:
        say(f"{path.name} {ending.summary}")
    click.get_current_context().exit(ending.exit_code)


def _with_token(connection: Connection, deployment: "Deployment") -> Connection:
    """The connection of the supervisor: the file of variables may contain its token, as it contains other processes' tokens."""
    given = connection.token is not None or connection.token_file is not None
    return connection if given else replace(connection, token=deployment.variables.get("HEADRACE_TOKEN"))


def _log_or_print(deployment: "Deployment") -> Callable[[str], None]:
    """Returns what writes a line to standard error, in the format of the deployment's logs."""
    if not deployment.logs_json:
        return lambda line: print_line(line, err=True)
    configure_logging("json", logging.INFO)
    return lambda line: log.info("%s", line)


def _supervise(
    deployment: "Deployment",
    planned: "Plan",
    connection: Connection,
    as_json: bool,
    say: Callable[[str], None],
    signals: "Signals",
) -> "Ending":
    from headrace.deploy import (
        Aside,
        JsonView,
        LastKnown,
        LinesView,
        LiveView,
        NoProbe,
        PatientDisk,
        Reached,
        StatusProbe,
        Supervisor,
        may_read_status,
        may_supervise,
    )

    # The files of the token and of the gateway may be on a disk that hangs.
    disk = PatientDisk()
    metadata = LastKnown(lambda: connection.metadata, disk)
    may_register = LastKnown(lambda: may_supervise(deployment, connection.secret), disk)
    may_ask = LastKnown(lambda: may_read_status(deployment, connection.secret), disk)

    def reach(address: str) -> Reached | None:
        if deployment.speaks_tls and not connection.encrypted:
            return None
        at = replace(connection, gateway=address)
        return Reached(at.channel, metadata, may_register)

    def connect(address: str) -> "GatewayProbe":
        reached = reach(address)
        if reached is None:
            return NoProbe()
        return StatusProbe(reached.dial, reached.metadata, may_ask)

    def replan(is_stopped: "IsStopped") -> "Plan":
        from headrace.deploy import load_deployment, plan, read_graphs

        again = load_deployment(deployment.path)
        return plan(again, read_graphs(again, is_stopped))

    def check() -> Sequence[Path]:
        from headrace.deploy import load_deployment

        again = load_deployment(deployment.path)
        return [*again.files, *again.programs]

    with contextlib.ExitStack() as stack:
        stack.callback(disk.close)
        show: Callable[[Status], None]
        tell = Aside(say)
        stack.callback(tell.close, _TOLD_WITHIN_S)
        if as_json:
            document = Aside(print_line)
            stack.callback(document.close, _TOLD_WITHIN_S)
            show = JsonView(document)
        elif sys.stdout.isatty():
            show = stack.enter_context(LiveView(console()))
        else:
            show = LinesView(tell, stamps=not planned.logs_json)
        return Supervisor(planned, connect, show, replan, reach, signals, check).run(tell)


def _refuse_options(path: Path) -> None:
    """Rejects options of the application: the file sets them."""
    ctx = click.get_current_context()
    for name in ctx.params:
        if name not in _OWN and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = next(parameter.opts[0] for parameter in ctx.command.params if parameter.name == name)
            place = _PLACES.get(name, "in the table [pipeline] of")
            raise Failure(f"{option} is not allowed with a deployment file; set it {place} {path}", EXIT_INVALID)


def _print_plan(planned: "Plan", graphs: "Mapping[str, ApplicationGraph]", notes: list[str], as_json: bool) -> None:
    roles = (planned.gateway, *planned.others)
    if as_json:
        processes = [{"name": role.name, "kind": role.kind, "what": role.what} for role in roles]
        document = {"deployment": planned.name, "processes": processes, "folder": str(planned.folder), "notes": notes}
        print_result(f"{counted(len(processes), 'process')} would run", document)
        return
    from headrace.terminal.tables import plain_table

    table = plain_table("process", "kind", "what", prose=True)
    for role in roles:
        table.add_row(role.name, role.kind, role.what or "-")
    console().print(table)
    for graph in graphs.values():
        for line in graph.steps:
            print_line(f"  {line}")
    for note in notes:
        print_line(f"note: {note}")

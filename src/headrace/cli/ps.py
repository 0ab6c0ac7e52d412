"""`headrace ps`: the processes of deployments, and the end of the log of one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from headrace.cli.place import asks_gateway, deployment_option, name_at_gateway
from headrace.contract.names import SUPERVISOR, nearest
from headrace.terminal import (
    CALL_TIMEOUT_S,
    EXIT_INVALID,
    Connection,
    Failure,
    ProgramCommand,
    ago_text,
    bytes_text,
    connection_options,
    console,
    counted,
    duration_text,
    json_option,
    print_line,
    print_result,
    print_text,
)

_MAX_LINES = 1_000


@click.command(cls=ProgramCommand)
@deployment_option("with --gateway or --context, only its name counts, and without --deployment all are shown")
@click.option(
    "--log", "process", metavar="NAME", help="Print the last lines of the log of this process, such as supervisor, instead."
)
@click.option(
    "--lines",
    type=click.IntRange(1, _MAX_LINES),
    metavar="N",
    default=100,
    show_default=True,
    help="How many of the last lines to print.",
)
@json_option()
@connection_options
def ps(deployment: Path, process: str | None, lines: int, as_json: bool, connection: Connection) -> None:
    """List the processes of deployments: state, restarts, since when, why, version and memory.

    With neither --gateway nor a context, or with --deployment alone, this asks the supervisor of a deployment on this
    machine, as the user that runs it. Otherwise it runs anywhere, and lists the processes of all deployments that are
    registered there: the token needs the right admin, and for a log the right control.

    \b
    Examples:
      headrace ps
      headrace ps --deployment /srv/orders/deploy.toml --log orders --lines 20
      headrace ps --log supervisor
      headrace ps --gateway gateway:7433 --token "$HEADRACE_TOKEN" --json

    Exit codes: 0 shown, 1 the deployment does not run, or the gateway refuses or is away, 2 there is no such process or file.
    """
    from headrace.configuration import ConfigurationError
    from headrace.deploy import DeploymentError

    by_gateway, only = asks_gateway(deployment, connection), name_at_gateway(deployment)
    try:
        if process is not None:
            found = _log_by_gateway(connection, only, process, lines) if by_gateway else _log_here(deployment, process, lines)
            _print_log(found, as_json)
            return
        listed = _by_gateway(connection, only) if by_gateway else _here(deployment)
    except (ConfigurationError, DeploymentError) as error:
        raise Failure(str(error), error.exit_code) from None
    if as_json:
        print_result(counted(len(listed), "deployment"), {"deployments": listed})
    else:
        _print(listed)


def _here(deployment: Path) -> list[dict[str, Any]]:
    from headrace.deploy import ask_deployment, folder_of

    return [{"deployment": deployment.name, **ask_deployment(folder_of(deployment), CALL_TIMEOUT_S)}]


def _by_gateway(connection: Connection, only: str) -> list[dict[str, Any]]:
    from headrace.gateway_status import status_document
    from headrace.protocol.v1.admin_pb2 import GetStatusRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    with connection.failures(), connection.channel() as channel:
        call = AdminServiceStub(channel).GetStatus
        status = call(GetStatusRequest(), timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    known = status_document(connection.gateway, status)["deployments"]
    if only and only not in {one["deployment"] for one in known}:
        names = ", ".join(one["deployment"] for one in known) or "none"
        near = nearest(only, [one["deployment"] for one in known])
        raise Failure(f"no deployment {only} is registered at {connection.gateway}; registered: {names}{near}", EXIT_INVALID)
    listed = [one for one in known if only in ("", one["deployment"])]
    return [
        {
            "deployment": one["deployment"],
            "processes": one["processes"],
            "gateway_fault": None,
            "file_fault": one["file_fault"],
            "file_fault_age_ms": one["file_fault_age_ms"],
        }
        for one in listed
    ]


def _log_here(deployment: Path, process: str, lines: int) -> dict[str, Any]:
    from headrace.deploy import ask_processes, folder_of, last_lines

    folder = folder_of(deployment)
    # That of a supervisor which has ended tells why.
    names = [SUPERVISOR] if process == SUPERVISOR else [one["name"] for one in ask_processes(folder, CALL_TIMEOUT_S)]
    if process not in names:
        text = f"the deployment has no process {process}; it has {', '.join(names)}{nearest(process, names)}"
        raise Failure(text, EXIT_INVALID)
    path = folder / f"{process}.log"
    try:
        found = last_lines(path, lines)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror or error}") from None
    return {"name": process, "deployment": deployment.name, "path": str(path), "lines": found}


def _log_by_gateway(connection: Connection, only: str, process: str, lines: int) -> dict[str, Any]:
    from headrace.protocol.v1.admin_pb2 import ReadLogRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    request = ReadLogRequest(process=process, deployment=only, lines=lines, timeout_ms=round(CALL_TIMEOUT_S * 1000))
    with connection.failures(of_request=True), connection.channel() as channel:
        call = AdminServiceStub(channel).ReadLog
        answer = call(request, timeout=2 * CALL_TIMEOUT_S, metadata=connection.metadata)
    return {"name": process, "deployment": answer.deployment, "path": answer.log.path, "lines": list(answer.log.lines)}


def _print_log(log: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_result(f"the last {counted(len(log['lines']), 'line')} of the log of {log['name']}", log)
        return
    for line in log["lines"]:
        print_line(line)


def _print(deployments: Sequence[Mapping[str, Any]]) -> None:
    from headrace.terminal.tables import plain_table

    if not deployments:
        print_text("no deployment is registered")
    for deployment in deployments:
        print_text(deployment["deployment"])
        table = plain_table("process", "kind", "state", "for", "#restarts", "#memory", "version")
        for one in deployment["processes"]:
            memory = "-" if one["memory_bytes"] is None else bytes_text(one["memory_bytes"])
            lasts = "-" if one["state_age_ms"] is None else duration_text(one["state_age_ms"])
            restarts = "-" if one["restarts"] is None else str(one["restarts"])
            table.add_row(one["name"], one["kind"], one["state"], lasts, restarts, memory, one["version"] or "-")
        console().print(table)
        if deployment["gateway_fault"]:
            print_text(deployment["gateway_fault"])
        if deployment["file_fault"]:
            age_ms = deployment["file_fault_age_ms"]
            how = "is invalid" if age_ms is None else f"has been invalid for {duration_text(age_ms)}"
            print_text(f"its file {how}, and the last valid one is in effect: {deployment['file_fault']}")
        for one in deployment["processes"]:
            if one["pipelines"] and one["pipelines"] != [one["name"]]:
                print_text(f"{one['name']}: runs {', '.join(map(str, one['pipelines']))}")
            if one["log_fault"]:
                print_text(f"{one['name']}: its log cannot be written: {one['log_fault']}")
            if one["reason"]:
                again = f"; starts again in {duration_text(one['next_start_ms'])}" if one["next_start_ms"] is not None else ""
                age_ms, runs = one["reason_age_ms"], one["state"] == "runs"
                when = "" if age_ms is None else f" {ago_text(age_ms)}{', is over' if runs else ''}:"
                print_text(f"{one['name']}:{when} {one['reason']}{again}")
            elif one["state"] == "starts" and one["kind"] != "gateway" and one["last_warning"]:
                # It runs, and is not connected: only its log knows why.
                print_text(f"{one['name']}: it says: {one['last_warning']}")

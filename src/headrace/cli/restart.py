"""`headrace restart`: restarts a connector, an application or a Spark program of a running deployment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from headrace.cli.place import asks_gateway, deployment_option, name_at_gateway
from headrace.terminal import (
    Connection,
    Failure,
    ProgramCommand,
    connection_options,
    json_option,
    print_result,
    print_text,
)

_ANSWERS_LATER_S = 5.0
"""How much longer than the gateway the command waits."""


@click.command(cls=ProgramCommand)
@click.argument("name")
@deployment_option("with --gateway or --context, only its name counts")
@click.option(
    "--timeout-seconds",
    "timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    default=60.0,
    show_default=True,
    help="How long to wait until it is connected to the gateway again.",
)
@json_option()
@connection_options
def restart(name: str, deployment: Path, timeout: float, as_json: bool, connection: Connection) -> None:
    """Restart a connector, an application or a Spark program of a running deployment.

    With neither --gateway nor a context, or with --deployment alone, this runs on the machine of the deployment, as the user
    that runs it. Otherwise it runs anywhere: the gateway passes the request on, and the token needs the right control.

    It stops as with SIGTERM: a source sends what it has read and waits for acknowledgements, a sink answers what it has received,
    a query ends its micro-batch. It then starts at once. No other process is restarted. To restart the gateway, send SIGTERM to
    its process, whose pid headrace ps --json shows.

    \b
    Examples:
      headrace restart orders
      headrace restart orders --deployment /srv/orders/deploy.toml --json
      headrace restart orders --gateway gateway:7433 --token "$HEADRACE_TOKEN"

    Exit codes: 0 it has restarted, 1 it has failed, has not restarted in time or the deployment does not run, 2 the deployment
    has no such process, or it is the gateway.
    """
    from headrace.configuration import ConfigurationError
    from headrace.deploy import DeploymentError, ask_restart, folder_of

    where = ""
    try:
        if asks_gateway(deployment, connection):
            where = f", by the gateway at {connection.gateway}"
            at, done = _ask_gateway(connection, name, name_at_gateway(deployment), timeout)
        else:
            at, done = deployment.name, ask_restart(folder_of(deployment), name, timeout)
    except (ConfigurationError, DeploymentError) as error:
        answer = str(error)
        # Only here it is not known whom the command has asked.
        text = f"the gateway at {connection.gateway}: {answer}" if where and connection.gateway not in answer else answer
        raise Failure(text, error.exit_code, summary=f"{name} is not restarted{where}") from None
    summary = f"{name} is restarted{_details(done)}, in {at}{where}"
    if as_json:
        print_result(summary, done)
    else:
        print_text(summary)


def _details(done: Mapping[str, Any]) -> str:
    """Returns what has happened for people; empty if the supervisor is of a version that does not tell."""
    if done["duration_ms"] is None:
        return ""
    if done["stopped_pid"] is None:
        before = "was not running"
    else:
        before = f"process {done['stopped_pid']} ended with exit code {done['stopped_exit_code']}"
    now = "runs" if done["state"] == "runs" else "has reached its end"
    return f": {before}, process {done['pid']} {now} ({done['duration_ms'] / 1000:.1f} s)"


def _ask_gateway(connection: Connection, name: str, deployment: str, timeout_s: float) -> tuple[str, dict[str, Any]]:
    """Restarts a connector by the gateway. Returns the name of its deployment, and the same as `ask_restart`.

    Raises:
        CannotRestart: It is not restarted.
    """
    import grpc

    from headrace.deploy import CannotRestart
    from headrace.protocol.v1.admin_pb2 import RestartConnectorRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    request = RestartConnectorRequest(connector=name, deployment=deployment, timeout_ms=max(1, round(timeout_s * 1000)))
    try:
        with connection.channel() as channel:
            call = AdminServiceStub(channel).RestartConnector
            answer = call(request, timeout=timeout_s + _ANSWERS_LATER_S, metadata=connection.metadata)
    except grpc.RpcError as error:
        failure = connection.failure_of_request(error)
        raise CannotRestart(failure.message, failure.exit_code) from None
    made = answer.restarted
    return answer.deployment, {
        "name": name,
        "state": "ended" if made.ended else "runs",
        "pid": made.pid,
        "stopped_pid": made.stopped_pid if made.HasField("stopped_pid") else None,
        "stopped_exit_code": made.stopped_exit_code if made.HasField("stopped_exit_code") else None,
        "duration_ms": made.duration_ms,
    }

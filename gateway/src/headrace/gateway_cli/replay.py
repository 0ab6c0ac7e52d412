"""`headrace dead-letters replay`: has a deployment replay the dead letters of a sink."""

import click

from headrace.terminal import Connection, ProgramCommand, connection_options, json_option, print_result, print_text

_ANSWERS_LATER_S = 5.0
"""How much longer than the gateway the command waits."""


@click.command(cls=ProgramCommand)
@click.argument("sink")
@click.option("--source", metavar="NAME", required=True, help="Streams are named NAME/<file name>; a pipeline must read them.")
@click.option("--refused-by", metavar="NAME", default="", help="Only what this sink, or this step (application/step), refused.")
@click.option("--deployment", metavar="NAME", default="", help="The deployment, such as deploy.toml, if several have the sink.")
@click.option(
    "--timeout-seconds",
    "timeout",
    type=click.FloatRange(min=0, min_open=True, max=300),
    metavar="N",
    default=60.0,
    show_default=True,
    help="Time until all is acknowledged. The replay continues afterwards.",
)
@json_option()
@connection_options
def replay(
    sink: str, source: str, refused_by: str, deployment: str, timeout: float, as_json: bool, connection: Connection
) -> None:
    """Replay the dead letters of SINK, and wait until all are acknowledged.

    The gateway passes the request to the deployment whose file sink has written them, which runs
    headrace dead-letters replay-files: it continues after what an earlier replay with the same source has sent. This needs the
    right control.

    \b
    Examples:
      headrace dead-letters replay errors --source again
      headrace dead-letters replay errors --source again --refused-by totals --json

    Exit codes: 0 all is acknowledged, 1 it failed, is refused or continues, 2 no deployment can replay the sink's dead letters.
    """
    from headrace.protocol.v1.admin_pb2 import ReplayDeadLettersRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    timeout_ms = max(1, round(timeout * 1000))
    request = ReplayDeadLettersRequest(
        sink=sink, source=source, refused_by=refused_by, deployment=deployment, timeout_ms=timeout_ms
    )
    with connection.failures(f"dead letters of {sink} are not replayed", of_request=True), connection.channel() as channel:
        call = AdminServiceStub(channel).ReplayDeadLetters
        answer = call(request, timeout=timeout + _ANSWERS_LATER_S, metadata=connection.metadata)
    seconds = round(answer.replayed.duration_ms / 1000, 1)
    where = f"{answer.connector} of {answer.deployment}"
    summary = f"dead letters of {sink} are replayed as source {source}, and acknowledged: {where} ({seconds} s)"
    if as_json:
        result = {"sink": sink, "source": source, "deployment": answer.deployment, "connector": answer.connector}
        print_result(summary, {**result, "pid": answer.replayed.pid, "duration_ms": answer.replayed.duration_ms})
    else:
        print_text(summary)

"""`headrace timeline`: when the last micro-batches of a pipeline reached each stage."""

from typing import TYPE_CHECKING

import click

from headrace.contract.limits import MAX_BATCHES
from headrace.gateway_cli.watching import interval_option, watch_json, watch_option, watch_view
from headrace.terminal import (
    CALL_TIMEOUT_S,
    EXIT_INVALID,
    Connection,
    Failure,
    ProgramCommand,
    connection_options,
    console,
    counted,
    json_option,
    print_result,
)

if TYPE_CHECKING:
    import grpc
    from rich.console import RenderableType

    from headrace.gateway_status import TimelineDocument

_MAX_NAMES = 10
"""How many pipelines a failure names."""


@click.command(cls=ProgramCommand)
@click.argument("pipeline", required=False)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_BATCHES),
    metavar="N",
    default=20,
    show_default=True,
    help="How many of the last micro-batches to show.",
)
@click.option(
    "--batch", type=click.IntRange(min=0), metavar="N", help="Show one micro-batch with its streams, among the last 500."
)
@json_option("with --watch, bare documents, one per line")
@watch_option
@interval_option
@connection_options
def timeline(
    pipeline: str | None, limit: int, batch: int | None, as_json: bool, watch: bool, interval: float, connection: Connection
) -> None:
    """Show when the last micro-batches of a pipeline were planned, read, processed, staged, committed and acknowledged.

    Each stage shows the time since the stage before it. The rows min, avg and max count from `planned`. A stage that a
    micro-batch has yet to reach, or does not need, is a dash. A gateway keeps the last 500 micro-batches. PIPELINE may be
    omitted if the gateway knows only one.

    \b
    Examples:
      headrace timeline
      headrace timeline market-spread
      headrace timeline market-spread --limit 100 --watch
      headrace timeline market-spread --batch 41
      headrace timeline market-spread --json | jq '.result.summary.acknowledged.max_ms'

    Exit codes: 0 shown, 1 the gateway does not know the pipeline or the micro-batch, refuses or is away, 2 you must name one of
    several pipelines.
    """
    with connection.channel() as channel:
        name = _only_pipeline(channel, connection) if pipeline is None else pipeline

        def fetch() -> "TimelineDocument":
            found = fetch_timeline(channel, connection, name, MAX_BATCHES if batch is not None else limit)
            return found if batch is None else _only(found, batch)

        def view() -> "RenderableType":
            from headrace.gateway_cli.timeline_tables import batch_table, timeline_table

            return timeline_table(fetch()) if batch is None else batch_table(fetch())

        if watch:
            watch_json(fetch, interval) if as_json else watch_view(view, interval)
        elif as_json:
            found = fetch()
            print_result(f"{counted(len(found['batches']), 'micro-batch')} of pipeline {name}", found)
        else:
            console().print(view())


def _only_pipeline(channel: "grpc.Channel", connection: Connection) -> str:
    """Returns the name of the only pipeline that the gateway knows.

    Raises:
        Failure: there is none, or there are several; or the call failed.
    """
    from headrace.protocol.v1.admin_pb2 import GetStatusRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    with connection.failures():
        status = AdminServiceStub(channel).GetStatus(GetStatusRequest(), timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    names = sorted(one.pipeline for one in status.pipelines)
    if not names:
        raise Failure("the gateway knows no pipeline yet: start its query")
    if len(names) > 1:
        more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
        known = ", ".join(names[:_MAX_NAMES])
        raise Failure(f"the gateway knows {counted(len(names), 'pipeline')}, name one of them: {known}{more}", EXIT_INVALID)
    return names[0]


def fetch_timeline(channel: "grpc.Channel", connection: Connection, pipeline: str, limit: int) -> "TimelineDocument":
    """Fetches the last micro-batches of a pipeline, newest first.

    Raises:
        Failure: the call failed.
    """
    from headrace.gateway_status import timeline_document
    from headrace.protocol.v1.admin_pb2 import ListBatchesRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    request = ListBatchesRequest(pipeline=pipeline, limit=limit)
    with connection.failures():
        answer = AdminServiceStub(channel).ListBatches(request, timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    return timeline_document(answer)


def _only(timeline: "TimelineDocument", number: int) -> "TimelineDocument":
    """Returns a timeline with one micro-batch.

    Raises:
        Failure: the gateway does not keep it.
    """
    batches = [batch for batch in timeline["batches"] if batch["batch"] == number]
    if not batches:
        known = sorted(batch["batch"] for batch in timeline["batches"] if batch["batch"] is not None)
        kept = f"it keeps {known[0]} to {known[-1]}" if known else "it knows no numbers yet"
        raise Failure(f"the gateway has no micro-batch {number} of pipeline {timeline['pipeline']}: {kept}")
    return {**timeline, "batches": batches}

"""`headrace status`."""

from typing import TYPE_CHECKING

import click

from headrace.gateway_cli.watching import interval_option, watch_json, watch_option, watch_view
from headrace.terminal import (
    CALL_TIMEOUT_S,
    EXIT_FAILED,
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

    from headrace.gateway_status import StatusDocument


@click.command(cls=ProgramCommand)
@json_option("with --watch, bare documents, one per line")
@watch_option
@click.option("--check", is_flag=True, help="Exit with 1 if something is wrong; a pause or a start does not count.")
@interval_option
@connection_options
@click.pass_context
def status(ctx: click.Context, as_json: bool, watch: bool, check: bool, interval: float, connection: Connection) -> None:
    """Show what is wrong, and a gateway's streams, sessions, pipelines and sinks: positions, lag, credit, age.

    --watch keeps the last tables while the gateway is away, and ends with Ctrl-C.

    \b
    Examples:
      headrace status
      headrace status --watch --interval-seconds 0.5
      headrace status --check
      headrace status --json | jq '.result.streams[] | select(.lag_messages > 0)'

    \b
    The result with --json. Names and types are stable; sizes are in bytes,
    times in milliseconds:
      problems   [part, kind, cause, root, since, remedy], as /readyz lists
                 them
      problems_in_all  how many there are; the list has at most 1,000
      gateway    address, version, uptime_ms, buffered_bytes,
                 buffer_limit_bytes, draining, rejected_sessions {status name:
                 count}, received_frames, received_messages, received_bytes,
                 acknowledged_messages, duplicate_messages, losses,
                 buffered_messages
      streams    [stream, condition, state (parked, live, detached, ended,
                 lost), detail, state_age_ms, instance, last_instance,
                 readers, replayable, received, acknowledged,
                 received_messages, received_bytes, acknowledged_messages,
                 duplicate_messages, losses, lag_messages, lag_bytes,
                 oldest_unacknowledged_ms, stalled_ms or null, last_error,
                 last_error_age_ms, holders [pipeline, state (attached, away,
                 detached, awaited), committed, held_ms], paused]
      sessions   [session, connector, connector_version, instance, condition,
                 peer, age_ms, streams, credit_bytes, credit_messages,
                 outstanding_bytes, outstanding_messages, linger_ms, paused,
                 sdk, state, state_age_ms, reason, errors, last_error,
                 last_error_age_ms]
      pipelines  [pipeline, run, attached, condition, state, away_ms,
                 patterns, committed {stream: position}, idle_ms,
                 planned_batches, batch_ms, lag_messages, lag_bytes,
                 last_error, last_error_age_ms, paused, steps [step, received,
                 sent, failed, late, violated, further, keys, time_ms]]
      sinks      [sink, condition, mode (two-phase, batch-idempotent,
                 at-least-once), instances, away, absent_ms, writers,
                 committed_transactions, aborted_transactions, failures,
                 failure, failure_age_ms, last_error, last_error_age_ms,
                 open_parts, pending_transactions, staged_messages,
                 refused_messages, dead_letters, committed {pipeline: batch},
                 lost [instance, pipeline, batch], losses, paused, outstanding,
                 outstanding_ms]
      sink_sessions  [session, sink, condition, connector, connector_version,
                 instance, peer, age_ms, sdk, state, state_age_ms, reason,
                 errors, last_error, last_error_age_ms]
      deployments  [deployment, run, peer, age_ms, connectors [name, instance,
                 replays, failure, failing_ms], restarting, replaying,
                 processes, as `headrace ps --json` lists them, file_fault,
                 file_fault_age_ms]
      condition is a word for what a part does, as `headrace top --help`
      explains.
      last_error is null or {message, at (UTC), is_over: nothing is wrong with
      the part now}.
      What a connector has reported: sdk {name, version, language} or null,
      state (connecting, running, degraded, waiting) or null, errors [message,
      age_ms, stream], oldest first.
      paused is null or {part, by, age_ms}.
      A position is null or {epoch, sequence, moves, cursor (base64 or null)}.
    """
    if watch and check:
        raise Failure("--check and --watch exclude each other: --check asks once", EXIT_INVALID)
    with connection.channel() as channel:
        if watch:
            if as_json:
                watch_json(lambda: fetch_status(channel, connection), interval)
            else:
                watch_view(lambda: _view(channel, connection), interval)
            return
        document = fetch_status(channel, connection)
    if as_json:
        print_result(_summary(document), document)
    else:
        from headrace.gateway_cli.status_tables import status_tables

        console().print(status_tables(document))
    if check:
        from headrace.gateway_status.document import NO_FAULTS

        ctx.exit(EXIT_FAILED if any(problem["kind"] not in NO_FAULTS for problem in document["problems"]) else 0)


def fetch_status(channel: "grpc.Channel", connection: Connection) -> "StatusDocument":
    """Fetches the status once.

    Raises:
        Failure: the call failed.
    """
    from headrace.gateway_status import status_document
    from headrace.protocol.v1.admin_pb2 import GetStatusRequest
    from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

    with connection.failures():
        answer = AdminServiceStub(channel).GetStatus(GetStatusRequest(), timeout=CALL_TIMEOUT_S, metadata=connection.metadata)
    return status_document(connection.gateway, answer)


def _summary(document: "StatusDocument") -> str:
    """Returns one line that says whether all is well."""
    return counted(document["problems_in_all"], "problem") if document["problems"] else "all is well"


def _view(channel: "grpc.Channel", connection: Connection) -> "RenderableType":
    from headrace.gateway_cli.status_tables import status_tables

    return status_tables(fetch_status(channel, connection))

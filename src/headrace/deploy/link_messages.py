"""The messages that a deployment sends its gateway."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.deploy.file_watch import FileFault
from headrace.deploy.plan import Listed
from headrace.deploy.reports import ProcessReport
from headrace.protocol.v1 import admin_pb2 as pb

MAX_FAILURE = 300
"""How much of a connector's failure is sent: the gateway shows no more."""


def processes_message(reports: Sequence[ProcessReport], file: FileFault | None = None) -> pb.SupervisedProcesses:
    """Returns processes as they are now, and why the deployment's file is invalid; None if it is valid."""
    now = time.monotonic()
    message = pb.SupervisedProcesses(processes=[one.message(now) for one in reports])
    if file is not None:
        message.file_fault, message.file_fault_age_ms = file.cause, round((now - file.since) * 1000)
    return message


def pids(connected: pb.ConnectedProcesses) -> Mapping[str, int]:
    """Returns the process ids of connected processes, by name."""
    return {one.name: one.pid for one in connected.processes}


def connectors_message(connectors: Mapping[str, Listed]) -> pb.SupervisedConnectors:
    """Returns connectors by their names."""
    return pb.SupervisedConnectors(
        connectors=[
            pb.SupervisedConnector(
                name=name,
                instance=one.instance,
                replays=one.replays,
                source=one.source,
                sink=one.sink,
                failure=one.failure[:MAX_FAILURE],
            )
            for name, one in connectors.items()
        ]
    )


def outcome_message(number: int, document: Mapping[str, Any], *, is_restart: bool) -> pb.OrderOutcome:
    """Returns the outcome of an order, given the answer of `Restarts` or `Replays`.

    Args:
        number: The number that the gateway has given the order.
        document: The answer.
        is_restart: Whether the order was a restart, not a replay.
    """
    if not document["ok"]:
        if document["done"]:
            kind = pb.ORDER_FAILURE_KIND_FAILED
        elif document["invalid"]:
            kind = pb.ORDER_FAILURE_KIND_UNKNOWN_CONNECTOR
        else:
            kind = pb.ORDER_FAILURE_KIND_REFUSED
        return pb.OrderOutcome(id=number, failure=pb.OrderFailure(kind=kind, error=document["error"]))
    result = document["result"]
    duration_ms = result["duration_ms"]
    if not is_restart:
        return pb.OrderOutcome(id=number, replayed=pb.ReplayedDeadLetters(pid=result["pid"], duration_ms=duration_ms))
    restarted = pb.RestartedConnector(
        pid=result["pid"],
        stopped_pid=result["stopped_pid"],
        stopped_exit_code=result["stopped_exit_code"],
        duration_ms=duration_ms,
        ended=result["state"] == "ended",
    )
    return pb.OrderOutcome(id=number, restarted=restarted)

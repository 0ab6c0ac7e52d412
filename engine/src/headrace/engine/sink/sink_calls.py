"""Calls that concern a sink: how they are repeated, and the error for one that failed."""

import grpc

from headrace.contract.errors import HeadraceError
from headrace.engine._errors import NotAtOnce, OlderCheckpoint, SinkAway, SinkFailed, SinkLost
from headrace.engine.checkpoint.votes import WHAT_TO_DO
from headrace.engine.sink.options import SinkOptions
from headrace.engine.wire.connection import Connection, has_reason, to_error
from headrace.engine.wire.retry import Retry
from headrace.protocol.v1 import sink_pb2

MAX_PAUSE_S = 1.0


class VoteGivenUp(HeadraceError):
    """The query was stopped while it waited for a sink."""


def sink_retry(options: SinkOptions, transaction: sink_pb2.Transaction) -> Retry:
    """Returns how a call about a transaction is repeated; log lines about it name the transaction."""
    fields: dict[str, object] = {"pipeline": transaction.pipeline, "batch": transaction.batch, "sink": options.sink}
    return Retry(options.gateway_timeout_s, MAX_PAUSE_S, fields=fields)


def sink_error(error: grpc.RpcError, connection: Connection, sink: str, batch: int) -> HeadraceError:
    """The error for a failed call that concerns a sink."""
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    details = (error.details() if isinstance(error, grpc.Call) else None) or code.name
    if has_reason(error, "sink-mode"):
        return NotAtOnce(details)
    if has_reason(error, "stopped"):
        return VoteGivenUp(
            f"the query was stopped before sink {sink} had voted for batch {batch}; its next start runs the batch again"
        )
    if has_reason(error, "older-checkpoint"):
        return OlderCheckpoint(
            f"sink {sink} has already committed batch {batch}, which is not in the checkpoint: {details}. The checkpoint must be "
            "an older one; restore the newer one, or set onOlderCheckpoint to accept to write the batch again"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return SinkAway(
            f"{details}. Start the connector of sink {sink} and restart the query; sinkTimeout sets how long tasks wait"
        )
    if code is grpc.StatusCode.DATA_LOSS:
        return SinkLost(f"{details}. {WHAT_TO_DO}")
    if code is grpc.StatusCode.ABORTED and not has_reason(error, "superseded"):
        return SinkFailed(f"sink {sink} cannot write batch {batch}: {details}; restart the query to run the batch again")
    return to_error(error, connection)

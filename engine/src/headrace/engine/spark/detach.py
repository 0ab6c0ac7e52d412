"""Detaches a run that has ended from its gateways."""

import logging

import grpc

from headrace.engine.checkpoint.position import Offset, to_stream_positions
from headrace.engine.source.fetch import PipelineRun
from headrace.engine.source.options import Options
from headrace.engine.spark.execution import Execution
from headrace.engine.spark.reporting import ReportedRun
from headrace.engine.wire.connection import Connection, to_error
from headrace.protocol.v1 import engine_pb2 as pb

log = logging.getLogger("headrace.engine")

DETACH_TIMEOUT_S = 2.0


def options_of(sources: tuple[Options, ...], offset: Offset) -> Options | None:
    """The options of the source that an offset is of; None if more than one could be it."""
    named = [s for s in sources if s.pipeline == offset.pipeline]
    unnamed = {s for s in sources if s.pipeline is None}
    candidates = named or (list(unnamed) if len(unnamed) == 1 else [])
    return candidates[0] if candidates else None


def detach(execution: Execution, reported: ReportedRun, sources: tuple[Options, ...]) -> None:
    """Detaches a run that has ended from its gateways, unless another one has taken over its checkpoint."""
    last = execution.last_committed()
    offsets = () if last is None else tuple(execution.offsets(last))
    # In this order: an offset that a newer run has committed names that run, whose file in the run log is older.
    if reported.is_replaced():
        return
    for offset in offsets:
        _detach(sources, offset)


def _detach(sources: tuple[Options, ...], offset: Offset) -> None:
    options = options_of(sources, offset)
    if offset.run_number is None or options is None:
        return
    connection = Connection.of(options)
    request = pb.DetachRequest(
        pipeline=PipelineRun(offset.pipeline, offset.run_number, offset.run_id, offset.checkpoint).to_proto(options),
        committed=to_stream_positions(offset.streams),
    )
    try:
        connection.stub().Detach(request, timeout=DETACH_TIMEOUT_S, metadata=connection.metadata)
    except grpc.RpcError as error:
        fields = {"pipeline": offset.pipeline}
        log.info("could not send the last commit to the gateway: %s", to_error(error, connection), extra=fields)

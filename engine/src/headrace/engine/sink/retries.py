"""How a call that concerns a sink is repeated."""

from headrace.engine.sink.options import SinkOptions
from headrace.protocol.v1 import sink_pb2

MAX_PAUSE_S = 1.0


def fields_of(options: SinkOptions, transaction: sink_pb2.Transaction) -> dict[str, object]:
    """The fields of log lines about a transaction."""
    return {"pipeline": transaction.pipeline, "batch": transaction.batch, "sink": options.sink}

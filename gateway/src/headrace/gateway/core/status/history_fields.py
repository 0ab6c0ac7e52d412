"""The fields of the history, by kind of part. The console's types are made from them: scripts/generate_history_fields.py."""

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

GatewayField: TypeAlias = Literal[
    "received_messages_per_s",
    "received_bytes_per_s",
    "acknowledged_messages_per_s",
    "lag_messages",
    "oldest_unacknowledged_ms",
    "buffered_bytes",
    "faults",
]
StreamField: TypeAlias = Literal[
    "received_messages_per_s",
    "received_bytes_per_s",
    "acknowledged_messages_per_s",
    "lag_messages",
    "oldest_unacknowledged_ms",
    "commit_latency_ms",
    "buffered_bytes",
]
PipelineField: TypeAlias = Literal[
    "batches_per_s",
    "lag_messages",
    "batch_duration_ms",
    "batch_running_ms",
    "commit_latency_ms",
    "acknowledgement_latency_ms",
]
SinkField: TypeAlias = Literal[
    "staged_messages_per_s",
    "committed_transactions_per_s",
    "failures_per_s",
    "outstanding_ms",
    "pending_transactions",
]

FIELDS: Mapping[str, tuple[str, ...]] = {
    "gateway": get_args(GatewayField),
    "stream": get_args(StreamField),
    "pipeline": get_args(PipelineField),
    "sink": get_args(SinkField),
}
"""The fields of each kind of part. Their names end with their units."""

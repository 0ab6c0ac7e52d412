/** The fields of the history, by kind of part. Made by scripts/generate_console_words.py. */

export interface HistoryFields {
  gateway:
    | "received_messages_per_s"
    | "received_bytes_per_s"
    | "acknowledged_messages_per_s"
    | "lag_messages"
    | "oldest_unacknowledged_ms"
    | "buffered_bytes"
    | "faults";
  stream:
    | "received_messages_per_s"
    | "received_bytes_per_s"
    | "acknowledged_messages_per_s"
    | "lag_messages"
    | "oldest_unacknowledged_ms"
    | "commit_latency_ms"
    | "buffered_bytes";
  pipeline:
    | "batches_per_s"
    | "lag_messages"
    | "batch_duration_ms"
    | "batch_running_ms"
    | "commit_latency_ms"
    | "acknowledgement_latency_ms";
  sink:
    | "staged_messages_per_s"
    | "committed_transactions_per_s"
    | "failures_per_s"
    | "outstanding_ms"
    | "pending_transactions";
}

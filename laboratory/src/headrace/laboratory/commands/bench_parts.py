"""The names of the parts of each benchmark."""

from headrace.contract.languages import LANGUAGES

CORE_PARTS = ("throughput", "latency", "stalled", "sessions", "curves")
SINK_PARTS = ("throughput", "latency", "recovery", "restart")
LATENCY_PARTS = ("stateful", "real-time", "real-time-rates", "real-time-workers", "stateless", "curves")
PROFILE_PARTS = ("large_frames", "small_frames", "file_sink", "spark_files", "application")
PIPELINES_PARTS = (
    "market_spread_end_to_end",
    "market_spread_columnar",
    "market_spread_spark_part",
    "word_count_200k_end_to_end",
    "word_count_200k_spark_part",
    "vs_transform_with_state_350",
    "vs_transform_with_state_200k",
    "computed_key",
    "without_shuffle",
    "join_as_of",
    "interval_join",
    "hot_key",
    "map_async",
    "top_n",
    "quantile",
    "latency",
    "restart_1m_keys_s",
    "small_batch_on_10m_keys",
    "memory_per_key_bytes",
    "curves",
)
PIPELINES_LONG_PARTS = ("restart_1m_keys_s", "small_batch_on_10m_keys", "memory_per_key_bytes", "curves")
"""The parts that cannot be short, since they need the states of millions of keys, or many sizes."""
CONNECTORS_PARTS = (
    "rabbitmq_drain",
    "nats_drain",
    "kafka_drain",
    "kafka_sink",
    "kafka_librdkafka_drain",
    "kafka_librdkafka_sink",
    "kafka_vs_spark_source",
    "kafka_real_time",
    "kafka_librdkafka_real_time",
    "rabbitmq_latency",
    "nats_latency",
    "kafka_latency",
)
LIBRDKAFKA_PARTS = ("kafka_librdkafka_drain", "kafka_librdkafka_sink", "kafka_librdkafka_real_time")
"""The parts that need the extra kafka-librdkafka, and without it only run if --only names them, to say what to install."""
SDKS_PARTS = (*LANGUAGES, "core_baseline")
DATA_PARTS = (
    "json_decode",
    "avro_decode",
    "avro_objects",
    "avro_class_columns",
    "lake_parquet",
    "lake_delta",
    "lake_iceberg",
    "history",
    "state_query",
    "spill",
)
BRIDGE_PARTS = ("debezium_snapshot", "debezium_stream", "bridge_rss_mb", "change_to_commit")
CLUSTER_PARTS = ("cluster_over_local", "worker_lost_pause_s", "submit_to_first_result_s")


def pipelines_parts(long: bool) -> tuple[str, ...]:
    """Returns the parts that `headrace bench pipelines` runs without --only."""
    return PIPELINES_PARTS if long else tuple(part for part in PIPELINES_PARTS if part not in PIPELINES_LONG_PARTS)

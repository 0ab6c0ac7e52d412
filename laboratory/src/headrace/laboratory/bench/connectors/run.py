"""The parts of the benchmark, each with the system that it measures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.laboratory.bench.connectors import brokers, client
from headrace.laboratory.bench.connectors.chain import RATE, latency
from headrace.laboratory.bench.connectors.drain import drain
from headrace.laboratory.bench.connectors.real_time import RATE as REAL_TIME_RATE
from headrace.laboratory.bench.connectors.real_time import kafka_real_time
from headrace.laboratory.bench.connectors.spark_source import COORDINATES, kafka_vs_spark_source
from headrace.laboratory.bench.connectors.system import BODY, System
from headrace.laboratory.bench.connectors.written import written
from headrace.laboratory.bench.figures import Figure, Progress
from headrace.laboratory.bench.parts import Part, Say, run_parts
from headrace.laboratory.bench.sources import MESSAGE_BYTES

Measure = Callable[[System, SparkSession, Say, bool], Iterator[Figure]]

PARTS: dict[str, tuple[str, Measure]] = {
    "rabbitmq_drain": ("rabbitmq", drain),
    "nats_drain": ("nats", drain),
    "kafka_drain": ("kafka", drain),
    "kafka_sink": ("kafka", written),
    "kafka_librdkafka_drain": ("kafka_librdkafka", drain),
    "kafka_librdkafka_sink": ("kafka_librdkafka", written),
    "kafka_vs_spark_source": ("kafka", kafka_vs_spark_source),
    "kafka_real_time": ("kafka", kafka_real_time),
    "kafka_librdkafka_real_time": ("kafka_librdkafka", kafka_real_time),
    "rabbitmq_latency": ("rabbitmq", latency),
    "nats_latency": ("nats", latency),
    "kafka_latency": ("kafka", latency),
}
_WITH_JARS = {"kafka_vs_spark_source", "kafka_real_time", "kafka_librdkafka_real_time"}
"""The parts that need Spark's own connector for Kafka."""
_BROKERS = {"kafka_librdkafka": "kafka"}
"""The brokers of systems whose names are not theirs."""


def run(
    parts: Sequence[str], quick: bool, say: Progress, *, given: Mapping[str, str], kafka_jars: Path | None
) -> tuple[list[Figure], dict[str, Any]]:
    """Runs the named parts, one after the other. Returns their figures and the conditions.

    Args:
        parts: Their names.
        quick: Whether to only check that everything works.
        say: Called with lines of progress.
        given: Addresses of brokers by name; missing ones default to the brokers of the checkout.
        kafka_jars: A folder with the jars of Spark's Kafka source; None to download them.

    Raises:
        BrokersMissing: There is no broker to measure.
        InvalidAddress: An address is invalid.
        ClientMissing: A client library is not installed.
    """
    names = sorted({PARTS[part][0] for part in parts})
    broker_of = {name: _BROKERS.get(name, name) for name in names}
    with brokers.addresses(sorted({*broker_of.values()}), given) as urls:
        systems = {name: client.system(name, urls[broker_of[name]]) for name in names}
        needs_jars = bool(_WITH_JARS.intersection(parts))
        source = {"kafka_source": _named(kafka_jars)} if needs_jars else {}
        known: dict[str, Part] = {part: partial(PARTS[part][1], systems[PARTS[part][0]]) for part in parts}
        return run_parts(
            known,
            parts,
            quick,
            say,
            spark_conf=_spark_conf(kafka_jars) if needs_jars else {},
            quick_start=False,
            message_bytes=f"{len(BODY)}; for the latencies {MESSAGE_BYTES}",
            processes="broker, connector, gateway and Spark (local[*]) share all cores; so do broker and bare client",
            drain="Spark is warm, the query runs; from when the gateway knows the connector to the last commit, "
            "against from before the bare client connects to the last message; in turns, medians",
            sink="from the first quarter of the acknowledgements to the last, each of which follows the commit of a transaction, "
            "against from before the bare client connects to its last commit; in turns, medians",
            clients="; ".join(system.client for system in systems.values()),
            latency=f"{RATE} messages/s, from when one is due to be published to when it can be read in the file of file-sink",
            real_time=f"{REAL_TIME_RATE} messages/s, from when one is due to be published in a topic of one partition until "
            "a consumer of another topic reads it; values unchanged; Spark with trigger(realTime='5 seconds')",
            **source,
        )


def _spark_conf(jars: Path | None) -> dict[str, str]:
    """Returns the settings that make `format("kafka")` available in Spark."""
    if jars is None:
        return {"spark.jars.packages": COORDINATES}
    return {"spark.jars": ",".join(str(jar.resolve()) for jar in sorted(jars.glob("*.jar")))}


def _named(jars: Path | None) -> str:
    """Returns the name of Spark's source, for the conditions."""
    return COORDINATES if jars is None else ", ".join(jar.stem for jar in sorted(jars.glob("*.jar")))

"""`headrace bench`: measures the performance of Headrace on this machine."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from headrace.cli.spark_options import verbose_option
from headrace.laboratory.commands.work_folder import end_at_sigterm, say
from headrace.terminal import EXIT_ENVIRONMENT, EXIT_FAILED, Failure, console

CORE_PARTS = ("throughput", "latency", "stalled", "sessions", "curves")
SINK_PARTS = ("throughput", "latency", "recovery")
PIPELINES_PARTS = (
    "market_spread_end_to_end",
    "market_spread_columnar",
    "market_spread_spark_part",
    "word_count_200k_end_to_end",
    "word_count_200k_spark_part",
    "vs_transform_with_state_350",
    "vs_transform_with_state_200k",
    "computed_key",
    "small_batch_on_10m_keys",
    "latency",
    "restart_1m_keys_s",
    "memory_per_key_bytes",
    "curves",
)
CONNECTORS_PARTS = (
    "rabbitmq_drain",
    "nats_drain",
    "kafka_drain",
    "kafka_vs_spark_source",
    "rabbitmq_latency",
    "nats_latency",
    "kafka_latency",
)
CLUSTER_PARTS = ("cluster_over_local", "worker_lost_pause_s", "submit_to_first_result_s")


@click.group()
def bench() -> None:
    """Measure Headrace on this machine. Each figure has a baseline from the same run.

    \b
    Examples:
      headrace bench core --json > core.json
      headrace bench sink --only latency
      headrace bench pipelines --only market_spread_spark_part
      headrace bench connectors --only kafka_drain
      headrace bench cluster
    """


def _benchmark(parts: tuple[str, ...]) -> Callable[[Callable[..., None]], click.Command]:
    """A decorator that makes the command of a benchmark with these parts."""

    def decorate(function: Callable[..., None]) -> click.Command:
        options = (
            click.option("--only", "parts", multiple=True, type=click.Choice(parts), help="Run only this part; can be repeated."),
            click.option(
                "--quick", is_flag=True, help="Shorter runs, to check that everything works; do not quote their figures."
            ),
            click.option("--json", "as_json", is_flag=True, help='Print {"figures": [...], "conditions": {...}}.'),
            click.option("--fail", is_flag=True, help="Exit with code 1 if a target is missed."),
            verbose_option,
        )
        for option in reversed(options):
            function = option(function)
        return bench.command()(function)

    return decorate


@_benchmark(CORE_PARTS)
def core(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool) -> None:
    """Measure the path from a connector through the gateway to Spark, and back.

    Takes about five minutes, less with --quick. Progress goes to standard error.

    \b
    Example:
      headrace bench core --only throughput --only latency
    """
    from headrace.laboratory.bench.core import run

    _report("headrace bench core", run, parts or CORE_PARTS, quick, as_json, fail)


@_benchmark(SINK_PARTS)
def sink(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool) -> None:
    """Measure the path from a connector through Spark to a two-phase file sink.

    Takes about five minutes. Progress goes to standard error.

    \b
    Example:
      headrace bench sink --only throughput
    """
    from headrace.laboratory.bench.sink import run

    _report("headrace bench sink", run, parts or SINK_PARTS, quick, as_json, fail)


@click.option("--peers", is_flag=True, help="Also run installed peers: Bytewax.")
@_benchmark(PIPELINES_PARTS)
def pipelines(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool, peers: bool) -> None:
    """Measure applications with keyed state, compared to a plain loop and to Spark's own operators.

    Takes about forty minutes. Progress goes to standard error.

    \b
    Example:
      headrace bench pipelines --only market_spread_end_to_end --only latency
    """
    from headrace.laboratory.bench.pipelines.run import run

    measure = partial(run, with_peers=peers)
    _report("headrace bench pipelines", measure, parts or PIPELINES_PARTS, quick, as_json, fail)


@click.option(
    "--kafka-jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with the jars of Spark's Kafka source.  [default: fetched from Maven Central]",
)
@click.option("--kafka", metavar="HOST:PORT", help="A running Kafka.  [default: that of `make brokers`]")
@click.option("--nats", metavar="URL", help="A running NATS with JetStream.  [default: that of `make brokers`]")
@click.option("--rabbitmq", metavar="URL", help="A running RabbitMQ.  [default: that of `make brokers`]")
@_benchmark(CONNECTORS_PARTS)
def connectors(
    parts: tuple[str, ...],
    quick: bool,
    as_json: bool,
    fail: bool,
    rabbitmq: str | None,
    nats: str | None,
    kafka: str | None,
    kafka_jars: Path | None,
) -> None:
    """Measure the path from real brokers to Spark, compared to the brokers' clients and Spark's Kafka source.

    In a checkout, it uses the brokers of `make brokers`, and starts them if necessary. It creates queues, streams and topics
    named headrace-bench-..., and removes them. Takes about ten minutes. Progress goes to standard error.

    \b
    Examples:
      headrace bench connectors --only rabbitmq_drain
      headrace bench connectors --only kafka_drain --kafka 127.0.0.1:9092
    """
    from headrace.laboratory.bench.connectors.brokers import BrokersMissing
    from headrace.laboratory.bench.connectors.run import run
    from headrace.laboratory.bench.connectors.system import InvalidAddress

    addresses = {"rabbitmq": rabbitmq, "nats": nats, "kafka": kafka}
    given = {name: address for name, address in addresses.items() if address is not None}
    measure = partial(run, given=given, kafka_jars=kafka_jars)
    try:
        _report("headrace bench connectors", measure, parts or CONNECTORS_PARTS, quick, as_json, fail)
    except BrokersMissing as error:
        raise Failure(str(error), EXIT_ENVIRONMENT) from error
    except InvalidAddress as error:
        raise click.UsageError(str(error)) from error


@_benchmark(CLUSTER_PARTS)
def cluster(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool) -> None:
    """Measure a Spark cluster compared to one JVM with as many cores, the loss of a worker, and a submission.

    It starts a standalone master and two workers of one core each on this machine. Takes about ten minutes. Progress goes to
    standard error.

    \b
    Example:
      headrace bench cluster --only worker_lost_pause_s
    """
    from headrace.laboratory.bench.cluster.run import run

    _report("headrace bench cluster", run, parts or CLUSTER_PARTS, quick, as_json, fail)


def _report(title: str, run: Any, parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool) -> None:
    """Runs a benchmark and prints its figures."""
    from headrace.laboratory.bench.figures import document, table
    from headrace.processes import own_temporary_folder

    end_at_sigterm()
    with own_temporary_folder("bench"):
        figures, conditions = run(parts, quick, say)
    if as_json:
        click.echo(json.dumps(document(figures, conditions), indent=2))
    else:
        console().print(table(title, figures))
        console().print(f"conditions: {json.dumps(conditions)}")
    if fail and any(figure.met is False for figure in figures):
        sys.exit(EXIT_FAILED)

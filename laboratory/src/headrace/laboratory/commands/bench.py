"""`headrace bench`: measures the performance of Headrace on this machine."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from headrace.cli.spark_options import verbose_option
from headrace.laboratory.bench import operate_names
from headrace.laboratory.commands.bench_parts import (
    BRIDGE_PARTS,
    CLUSTER_PARTS,
    CONNECTORS_PARTS,
    CORE_PARTS,
    DATA_PARTS,
    LATENCY_PARTS,
    LIBRDKAFKA_PARTS,
    PIPELINES_PARTS,
    PROFILE_PARTS,
    SDKS_PARTS,
    SINK_PARTS,
    pipelines_parts,
)
from headrace.laboratory.commands.bench_report import report
from headrace.terminal import EXIT_ENVIRONMENT, Failure, ProgramGroup, console, json_option, print_line, print_result


@click.group(cls=ProgramGroup)
def bench() -> None:
    """Measure Headrace on this machine. Each figure has a baseline from the same run.

    \b
    Examples:
      headrace bench core --json > core.json
      headrace bench sink --only throughput
      headrace bench latency --plot latency.svg
      headrace bench pipelines --only market_spread_spark_part
      headrace bench connectors --only kafka_drain
      headrace bench cluster
      headrace bench data
      headrace bench bridge
      headrace bench operate
      headrace bench sdks
      headrace bench profile
    """


_kafka = click.option("--kafka", metavar="HOST:PORT", help="A running Kafka.  [default: the one of `make brokers`]")


def _benchmark(parts: tuple[str, ...]) -> Callable[[Callable[..., None]], click.Command]:
    """A decorator that makes the command of a benchmark with these parts."""

    def decorate(function: Callable[..., None]) -> click.Command:
        options = (
            click.option(
                "--only",
                "parts",
                metavar="PART",
                multiple=True,
                type=click.Choice(parts),
                help=f"Run only this part, one of {', '.join(parts)}. Repeatable.",
            ),
            click.option(
                "--quick", is_flag=True, help="Shorter runs, to check that everything works; do not quote their figures."
            ),
            json_option(),
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

    report("headrace bench core", run, parts or CORE_PARTS, quick, as_json, fail, whole=not parts)


@_benchmark(SINK_PARTS)
def sink(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool) -> None:
    """Measure the path from a connector through Spark to a two-phase file sink.

    Takes about five minutes. Progress goes to standard error.

    \b
    Example:
      headrace bench sink --only throughput
    """
    from headrace.laboratory.bench.sink import run

    report("headrace bench sink", run, parts or SINK_PARTS, quick, as_json, fail, whole=not parts)


@click.option(
    "--plot",
    metavar="FILE.svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a plot of the latencies by percentile, as an SVG.",
)
@_benchmark(LATENCY_PARTS)
def latency(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool, plot: Path | None) -> None:
    """Measure how long a message takes from its source through Spark to a two-phase file sink.

    The time counts from when a message is due, at 10,000 messages/s, until it can be read in the file. An application with 350
    keys of state is compared to a nearly empty micro-batch of Spark's own in the same session. Takes about six minutes.
    Progress goes to standard error.

    \b
    Examples:
      headrace bench latency --only stateful
      headrace bench latency --plot latency.svg
    """
    from headrace.laboratory.bench.latency.run import run

    if plot is not None and (plot.suffix != ".svg" or not plot.parent.is_dir()):
        raise click.BadParameter(f"{plot} must be a file named *.svg in a folder that exists", param_hint="--plot")
    report("headrace bench latency", partial(run, plot=plot), parts or LATENCY_PARTS, quick, as_json, fail, whole=not parts)


@click.option("--peers", is_flag=True, help="Also run installed peers: Bytewax.")
@click.option("--long", is_flag=True, help="Run all parts, at full size. Takes about forty minutes.")
@_benchmark(PIPELINES_PARTS)
def pipelines(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool, long: bool, peers: bool) -> None:
    """Measure applications with keyed state, compared to a plain loop and to Spark's own operators.

    Takes about five minutes. Without --long, large micro-batches and whole runs are fewer or smaller, and parts that need the
    states of millions of keys only run if --only names them, at full size. The conditions contain all sizes. Progress goes to
    standard error.

    \b
    Examples:
      headrace bench pipelines --only market_spread_end_to_end --only latency
      headrace bench pipelines --long
    """
    from headrace.laboratory.bench.pipelines.run import run

    measure = partial(run, whole=not parts, long=long, with_peers=peers)
    names, whole = parts or pipelines_parts(long), not parts and not long
    report("headrace bench pipelines", measure, names, quick, as_json, fail, whole=whole)


@click.option(
    "--kafka-jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with the jars of Spark's Kafka source.  [default: fetched from Maven Central]",
)
@_kafka
@click.option("--nats", metavar="URL", help="A running NATS with JetStream.  [default: the one of `make brokers`]")
@click.option("--rabbitmq", metavar="URL", help="A running RabbitMQ.  [default: the one of `make brokers`]")
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
    named headrace-bench-..., and removes them. The parts kafka_librdkafka_... need the extra kafka-librdkafka, and are left out
    without it. Takes about ten minutes. Progress goes to standard error.

    \b
    Examples:
      headrace bench connectors --only rabbitmq_drain
      headrace bench connectors --only kafka_drain --kafka 127.0.0.1:9092
    """
    from headrace.laboratory.bench.connectors.brokers import BrokersMissing
    from headrace.laboratory.bench.connectors.kafka_librdkafka import ClientMissing, is_installed
    from headrace.laboratory.bench.connectors.run import run
    from headrace.laboratory.bench.connectors.system import InvalidAddress

    addresses = {"rabbitmq": rabbitmq, "nats": nats, "kafka": kafka}
    given = {name: address for name, address in addresses.items() if address is not None}
    measure = partial(run, given=given, kafka_jars=kafka_jars)
    known = [part for part in CONNECTORS_PARTS if is_installed() or part not in LIBRDKAFKA_PARTS]
    try:
        report("headrace bench connectors", measure, parts or tuple(known), quick, as_json, fail, whole=not parts)
    except (BrokersMissing, ClientMissing) as error:
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

    report("headrace bench cluster", run, parts or CLUSTER_PARTS, quick, as_json, fail, whole=not parts)


@_benchmark(DATA_PARTS)
@click.option("--keys", type=click.IntRange(1), metavar="N", help="The number of keys of the part spill.  [default: 1000000]")
def data(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool, keys: int | None) -> None:
    """Measure blocks of JSON and Avro as columns, lakes, files of the past, and states beyond memory.

    The baselines: one value at a time, Spark's own files behind the same source, Spark's own reading of files, and states in
    memory. Figures are in processor time. Takes about ten minutes, without lakes and history less than two. Progress goes to
    standard error.

    \b
    Example:
      headrace bench data --only json_decode
    """
    from headrace.laboratory.bench.data.run import run

    report("headrace bench data", partial(run, keys=keys), parts or DATA_PARTS, quick, as_json, fail, whole=not parts)


@_benchmark(BRIDGE_PARTS)
@_kafka
def bridge(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool, kafka: str | None) -> None:
    """Measure Debezium in the bridge to Kafka Connect, compared to its own engine and to a worker of Connect.

    It builds the bridge of a checkout, and starts a PostgreSQL of its own. Debezium's engine gives its records to a consumer that
    only counts; a standalone worker writes them to Kafka, and is left out if there is none. The time from a change to its commit
    is compared to a nearly empty micro-batch of Spark's own. Takes less than ten minutes, the first time longer because of the
    build. Progress goes to standard error.

    \b
    Example:
      headrace bench bridge --only debezium_stream
    """
    from headrace.laboratory.bench.bridge.programs import ProgramsMissing
    from headrace.laboratory.bench.bridge.run import run

    try:
        report("headrace bench bridge", partial(run, kafka=kafka), parts or BRIDGE_PARTS, quick, as_json, fail, whole=not parts)
    except ProgramsMissing as error:
        raise Failure(str(error), EXIT_ENVIRONMENT) from error


@click.option("--list", "lists", is_flag=True, help="Print the names for --only, and run nothing.")
@_benchmark((*operate_names.PARTS, *operate_names.FAULTS))
def operate(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool, lists: bool) -> None:
    """Measure the cost of observing a gateway: by reading metrics each second, by exporting spans, and by pages of the console.

    The parts console_update and console_overhead have ten clients of the events, for a site of 1,000 streams in 200 sessions.

    Four parts only run if --only names them. The part capacity measures what a gateway needs for each session, stream and
    buffered byte. The others need Playwright, and open the console in Chromium: console_page one page at a time beside nine
    clients, console_pages ten pages at once, and console_history the overview and the streams of a gateway that has an hour of
    history.

    The part readyz_names_cause injects faults, and measures how long it takes until /readyz names the first cause of each, and is
    clear after its repair. --only also takes names of faults: it then runs this part with these faults, and fails with code 3 if
    this machine cannot make one of them. If --only names the part, such a fault is left out, and named with what the machine
    lacks. Without --only, the part only runs with --quick, which injects one fault. The part false_alarms counts what /readyz
    lists while a deployment starts, and while its connectors are restarted.

    The part readyz_names_cause takes up to thirteen minutes, beside other work. Progress goes to standard error.

    \b
    Examples:
      headrace bench operate --list
      headrace bench operate --only metrics_overhead
      headrace bench operate --only capacity
      headrace bench operate --only readyz_names_cause --json
      headrace bench operate --only broker_stopped --only wrong_password
      headrace bench operate --only console_page
      headrace bench operate --only console_history
    """
    if lists:
        _list(as_json)
        return
    from headrace.laboratory.bench.operate import run
    from headrace.laboratory.bench.pages import BrowserMissing

    faults = () if operate_names.FAULTS_PART in parts else tuple(part for part in parts if part in operate_names.FAULTS)
    chosen = tuple(part for part in operate_names.PARTS if part in parts or (faults and part == operate_names.FAULTS_PART))

    def left_out(conditions: dict[str, Any]) -> str:
        return "; ".join(f"{name} was left out: {why}" for name, why in conditions["left_out"].items()) if faults else ""

    try:
        names = chosen or operate_names.usual(quick)
        report("headrace bench operate", partial(run, faults=faults), names, quick, as_json, fail, left_out, whole=not chosen)
    except BrowserMissing as error:
        raise Failure(str(error), EXIT_ENVIRONMENT) from error


def _list(as_json: bool) -> None:
    """Prints the names of the parts and of the faults."""
    names, faults = operate_names.PARTS, operate_names.FAULTS
    if as_json:
        listed = [{"name": name, "fault": what} for name, what in faults.items()]
        print_result(f"{len(names)} parts, {len(faults)} faults", {"parts": names, "faults": listed})
        return
    from headrace.terminal.tables import plain_table

    print_line("Parts:")
    for part in names:
        print_line(f"  {part}")
    print_line()
    table = plain_table("fault", "what happens", prose=True)
    for name, what in faults.items():
        table.add_row(name, what)
    console().print(table)


@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MINUTES",
    help="Instead of the speed, measure for this long whether memory grows at a steady rate.",
)
@_benchmark(SDKS_PARTS)
def sdks(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool, minutes: float | None) -> None:
    """Measure single messages from plain code in each language, compared to Python.

    A part is a language, or the baseline of `headrace bench core`. In a checkout, it builds the programs with the tools of each
    language, and leaves out languages whose tools are not installed; with CI=true, it fails instead. A program sends to a
    gateway; at the far end, a process reads and acknowledges without Spark. Takes about ten minutes, the first time longer
    because of the builds, and prints each figure after each round. Progress goes to standard error.

    \b
    Examples:
      headrace bench sdks --only python --only go
      headrace bench sdks --only java --minutes 10
    """
    from headrace.laboratory.bench.sdks.programs import ProgramsMissing
    from headrace.laboratory.bench.sdks.run import run

    try:
        report("headrace bench sdks", partial(run, minutes=minutes), parts or SDKS_PARTS, quick, as_json, fail, whole=not parts)
    except ProgramsMissing as error:
        raise Failure(str(error), EXIT_ENVIRONMENT) from error


@click.option(
    "--flame",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a flame graph of each part into this folder, as an SVG.",
)
@_benchmark(PROFILE_PARTS)
def profile(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool, flame: Path | None) -> None:
    """Measure where the processor time of a message goes: SDK, gateway, planning, fetching, decoding, stages, sink, Spark.

    All processes sample themselves by the clocks of their threads. Each part runs twice: the second column has the same again, so
    that you see how exact the first one is. With --json, `conditions.profile` has each figure for a frame, too. Takes about four
    minutes. Progress goes to standard error. Needs Linux.

    \b
    Examples:
      headrace bench profile --only small_frames
      headrace bench profile --flame flames --json
    """
    from headrace.laboratory.bench.profile.run import run, tables

    if flame is not None and not flame.parent.is_dir():
        raise click.BadParameter(f"{flame.parent} is no folder", param_hint="--flame")
    measure, names = partial(run, flame=flame), parts or PROFILE_PARTS
    report("headrace bench profile", measure, names, quick, as_json, fail, detail="profile", tables=tables, whole=not parts)

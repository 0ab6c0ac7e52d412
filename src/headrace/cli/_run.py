"""`headrace run`: runs an application on Spark."""

import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli._application import Application, load
from headrace.cli._spark_options import SparkOptions, pairs, require_java, spark_options
from headrace.terminal import EXIT_INVALID, Connection, Failure, connection_options, print_action, print_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_SHOWS_EVERY_S = 5.0
_LOOKS_EVERY_S = 0.2


def _a_duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuses what is no duration, before a JVM is started for it."""
    if value is not None:
        from headrace.engine._units import parse_duration

        try:
            parse_duration(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return value


@click.command()
@click.argument("app", metavar="APP.PY[:NAME]|DEPLOY.TOML")
@click.option("--checkpoint", metavar="DIR", help="Where positions and states are kept.  [default: checkpoints/<name>]")
@click.option("--shared-checkpoint", is_flag=True, help="The folder is on a mount that all machines of a cluster have there.")
@click.option("--dry-run", is_flag=True, help="Check it, print what there is, and run nothing.")
@click.option("--parallelism", type=click.IntRange(1), metavar="N", help="In how many parts a new checkpoint divides the keys.")
@click.option("--available-now", is_flag=True, help="End once everything is processed that exists now.")
@click.option(
    "--trigger-interval",
    metavar="DURATION",
    callback=_a_duration,
    help="Begin micro-batches so far apart: 500ms, 5s, 1m. Acknowledgements wait as long.  [default: at once]",
)
@click.option(
    "--option", "given", metavar="NAME=VALUE", multiple=True, help="An option of the source: maxMessagesPerTrigger=100000."
)
@click.option("--worker-memory", default="1gb", show_default=True, help="What each Python worker may hold of states.")
@click.option("--finish/--no-finish", default=None, help="Close all windows once all streams end.  [yes with --available-now]")
@click.option("--drop-states", metavar="STEP", multiple=True, help="Drop what the checkpoint has of a step that is gone.")
@click.option(
    "--migrate-states", metavar="STEP", multiple=True, help="Have a step that has changed take its states on as they are."
)
@click.option("--json", "as_json", is_flag=True, help="Print progress, and the end, as JSON, a line each.")
@spark_options
@connection_options
def run(
    app: str,
    checkpoint: str | None,
    shared_checkpoint: bool,
    dry_run: bool,
    parallelism: int | None,
    available_now: bool,
    trigger_interval: str | None,
    given: tuple[str, ...],
    worker_memory: str,
    finish: bool | None,
    drop_states: tuple[str, ...],
    migrate_states: tuple[str, ...],
    as_json: bool,
    on: SparkOptions,
    connection: Connection,
) -> None:
    """Run an application: a pipeline of per-event Python functions, on Spark, between the gateway's streams and sinks.

    It goes on until it is stopped; SIGTERM and Ctrl-C stop it in good order. Started again with the same checkpoint, it goes on
    where it was. Progress goes to standard error.

    With a TOML file: run a whole deployment on this machine, a gateway, connectors and an application, and keep it running. What
    concerns the application stands in the file then.

    \b
    Examples:
      headrace run app.py --dry-run
      headrace run app.py --checkpoint /data/checkpoints/orders
      headrace run app.py --master 'local-cluster[2,1,1024]' --available-now
      headrace run app.py --trigger-interval 5s
      headrace run deploy.toml
    """
    if available_now and trigger_interval is not None:
        raise click.UsageError(
            "--available-now and --trigger-interval do not go together: a bounded run begins each micro-batch at once"
        )
    if app.endswith(".toml"):
        from headrace.cli._deploy import run_deployment

        run_deployment(Path(app), connection, dry_run=dry_run, as_json=as_json)
        return
    application = load(app)
    graph = application.pipeline.graph
    if dry_run and as_json:
        steps = graph.describe().splitlines()
        print_json({"pipeline": graph.name, "streams": graph.streams, "sinks": graph.sinks, "steps": steps}, compact=True)
        return
    if dry_run:
        click.echo(graph.describe())
        return
    stop = threading.Event()
    # No exception from the handler: it would cut a call to the JVM in two, and stopping needs that connection.
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    conf = dict(on.conf)
    options = {**_connection_options(connection), **pairs("--option", given)}
    if shared_checkpoint:
        options["sharedCheckpoint"] = "true"
    require_java()
    from headrace.engine import CheckpointError, OptionError, build_session, start
    from headrace.pipelines import StateError
    from headrace.processes import first_cause

    if parallelism is not None:
        conf["spark.sql.shuffle.partitions"] = str(parallelism)
    spark = build_session(f"headrace {graph.name}", on.master, conf, quick_start=True)
    failure: str | None = None
    try:
        folder = checkpoint or str(Path("checkpoints", graph.name).absolute())
        query = start(
            application.pipeline,
            spark,
            folder,
            options=options,
            available_now=available_now,
            trigger_interval=trigger_interval,
            worker_memory=worker_memory,
            drop_states=drop_states,
            migrate_states=migrate_states,
            finish=finish,
            folder=application.folder,
        )
        _watch(query, application, connection, stop, as_json)
        query.stop()
        failure = first_cause(str(query.exception())) if query.exception() else None
    except (OptionError, CheckpointError, StateError) as error:
        raise Failure(str(error), EXIT_INVALID) from None
    finally:
        spark.stop()
    if as_json:
        print_action("run", "stopped" if failure is None else "failed", {"pipeline": graph.name, "checkpoint": folder}, failure)
    if failure is not None:
        if as_json:
            sys.exit(1)
        raise Failure(failure)


def _watch(
    query: "StreamingQuery", application: Application, connection: Connection, stop: threading.Event, as_json: bool
) -> None:
    """Shows how it goes, until the query ends or is to be stopped."""
    started = shown = time.monotonic()
    before: int | None = None
    streams = application.pipeline.graph.streams
    while query.isActive and not stop.wait(_LOOKS_EVERY_S):
        now = time.monotonic()
        if now - shown < _SHOWS_EVERY_S:
            continue
        figures = _figures(connection, streams)
        last = query.lastProgress
        if figures is None or last is None:
            continue
        acknowledged, lag = figures
        rate = 0.0 if before is None else max(0, acknowledged - before) / (now - shown)
        before, shown = acknowledged, now
        batch_ms = last.durationMs.get("triggerExecution", 0)
        if as_json:
            document = {
                "batch": last.batchId,
                "acknowledged": acknowledged,
                "rate": round(rate),
                "lag": lag,
                "batch_ms": batch_ms,
            }
            print_json({"seconds": round(now - started, 1), **document}, compact=True)
        else:
            click.echo(
                f"{time.strftime('%H:%M:%S')}  micro-batch {last.batchId}, {batch_ms} ms  "
                f"{acknowledged:,} messages acknowledged, {rate:,.0f} a second  lag {lag:,}",
                err=True,
            )


def _figures(connection: Connection, patterns: list[str]) -> tuple[int, int] | None:
    """How many messages the gateway has acknowledged, and how many wait; None where it does not answer."""
    import grpc

    from headrace.pipelines.runtime import matches
    from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc

    try:
        with connection.channel() as channel:
            stub = admin_pb2_grpc.AdminServiceStub(channel)
            status = stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=2, metadata=connection.metadata)
    except grpc.RpcError:
        return None
    own = [stream for stream in status.streams if any(matches(pattern, stream.stream) for pattern in patterns)]
    return sum(s.acknowledged_messages for s in own), sum(s.lag_messages for s in own)


def _connection_options(connection: Connection) -> dict[str, str]:
    """The same connection, as options of the source and of the sink."""
    if connection.tls and not (connection.tls_ca or connection.tls_cert):
        raise Failure("--tls alone is not enough for Spark's workers: give --tls-ca", EXIT_INVALID)
    named = {
        "gateway": connection.gateway,
        "token": connection.token,
        "tlsCa": connection.tls_ca,
        "tlsCert": connection.tls_cert,
        "tlsKey": connection.tls_key,
    }
    return {name: str(value) for name, value in named.items() if value is not None}

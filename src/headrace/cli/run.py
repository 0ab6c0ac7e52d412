"""`headrace run`: runs an application on Spark."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.application import Application, load
from headrace.cli.prepare import Archives
from headrace.cli.run_output import Aside, Figures, Output, Progress
from headrace.cli.spark_options import SparkOptions, log_format_option, pairs, require_java, spark_options
from headrace.cli.stopping import stopped_while_starting
from headrace.cli.stored import checkpoint_of
from headrace.contract.errors import HeadraceError
from headrace.contract.settings import OF_RUN, clash
from headrace.contract.units import UnitError, parse_duration, parse_size
from headrace.logs.output import FORMAT_VARIABLE, configure_logging, is_verbose
from headrace.terminal import (
    EXIT_FAILED,
    EXIT_INVALID,
    Connection,
    Failure,
    ProgramCommand,
    json_option,
    own_connection_options,
    print_line,
    print_result,
    setting_option,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.engine import History

_SHOWS_EVERY_S = 5.0
_LOOKS_EVERY_S = 0.2


def _checked_by(parse: Callable[[str], object]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Returns a click callback that rejects an invalid size or duration before a JVM is started."""

    def check(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        try:
            if value is not None:
                parse(value)
        except UnitError as error:
            raise click.BadParameter(str(error)) from None
        return value

    return check


@click.command(cls=ProgramCommand)
@click.argument("app", metavar="APP.PY[:NAME]|DEPLOY.TOML")
@setting_option(OF_RUN["checkpoint"], metavar="DIR")
@setting_option(OF_RUN["shared_checkpoint"])
@click.option("--dry-run", is_flag=True, help="Check and print the application without running it.")
@setting_option(OF_RUN["parallelism"], type=click.IntRange(1), metavar="N")
@setting_option(OF_RUN["available_now"])
@setting_option(OF_RUN["trigger_interval"], metavar="DURATION", callback=_checked_by(partial(parse_duration, unit_required=True)))
@setting_option(OF_RUN["options"])
@setting_option(OF_RUN["worker_memory"], metavar="SIZE", default="1gb", callback=_checked_by(parse_size))
@setting_option(OF_RUN["finish"])
@setting_option(OF_RUN["real_time"])
@setting_option(OF_RUN["real_time_workers"], type=click.IntRange(1), default=1, metavar="N")
@setting_option(OF_RUN["history"], metavar="PATH")
@setting_option(OF_RUN["history_columns"])
@setting_option(OF_RUN["until"], metavar="TIME")
@setting_option(OF_RUN["then_live"])
@setting_option(OF_RUN["drop_states"], metavar="STEP")
@setting_option(OF_RUN["migrate_states"], metavar="STEP")
@click.option("--figures/--no-figures", default=True, hidden=True, help="Ask the gateway for the figures that progress shows.")
@json_option("progress before it, one object per line")
@log_format_option
@spark_options
@own_connection_options
def run(
    app: str,
    checkpoint: str | None,
    shared_checkpoint: bool,
    dry_run: bool,
    parallelism: int | None,
    available_now: bool,
    trigger_interval: str | None,
    options: tuple[str, ...],
    worker_memory: str,
    finish: bool | None,
    real_time: bool,
    real_time_workers: int,
    history: tuple[str, ...],
    history_columns: tuple[str, ...],
    until: str | None,
    then_live: bool,
    drop_states: tuple[str, ...],
    migrate_states: tuple[str, ...],
    figures: bool,
    as_json: bool,
    log_format: str,
    on: SparkOptions,
    connection: Connection,
) -> None:
    """Run an application: a pipeline of Python functions, on Spark, between the gateway's streams and sinks.

    It runs until you stop it; SIGTERM and Ctrl-C stop it cleanly. When restarted with the same checkpoint, it resumes where it
    stopped. Progress is printed to standard error.

    With a TOML file, run a complete deployment on this machine (a gateway, connectors and applications), and keep it running.
    The file then sets the options of the applications.

    \b
    Examples:
      headrace run app.py --dry-run
      headrace run app.py --checkpoint /data/checkpoints/orders
      headrace run app.py --master 'local-cluster[2,1,1024]' --available-now
      headrace run app.py --trigger-interval 5s
      headrace run app.py --history /data/orders/2025 --then-live
      headrace run app.py --real-time
      headrace run app.py --real-time --real-time-workers 4
      headrace run deploy.toml
    """
    clashes = clash(
        available_now=available_now,
        trigger_interval=trigger_interval,
        real_time=real_time,
        real_time_workers=real_time_workers,
        history=bool(history),
        until=until,
        then_live=then_live,
        written=lambda setting: setting.option,
    )
    if clashes is not None:
        raise click.UsageError(clashes)
    if app.endswith(".toml"):
        from headrace.cli.deploy import run_deployment

        run_deployment(Path(app), connection, dry_run=dry_run, as_json=as_json)
        return
    application = load(app)
    graph = application.pipeline.graph
    if dry_run and as_json:
        steps = graph.describe().splitlines()
        document = {"pipeline": graph.name, "streams": graph.streams, "sinks": graph.sinks, "steps": steps}
        # On one line, after what the application itself may have printed.
        print_result(f"pipeline {graph.name} can run", document, compact=True)
        return
    if dry_run:
        print_line(graph.describe())
        return
    os.environ[FORMAT_VARIABLE] = log_format
    configure_logging(log_format, logging.INFO if is_verbose() else logging.WARNING)
    # These say nothing about the application.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    output = Output(graph.name, logs_json=log_format == "json", prints_json=as_json)
    stop = threading.Event()
    # No exception from the handler: it would cut a call to the JVM in two, and stopping needs that connection.
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    conf = {f"spark.executorEnv.{FORMAT_VARIABLE}": log_format, **on.conf}
    given = {**_connection_options(connection), **pairs("--option", options)}
    if shared_checkpoint:
        given["sharedCheckpoint"] = "true"
    require_java()
    from headrace.engine import CheckpointError, HistoryError, OptionError, build_session, discard_output, start
    from headrace.engine.spark.run_faults import full_storage, local_folders
    from headrace.machine.traces import first_cause, first_traceback
    from headrace.pipelines import StateError

    if parallelism is not None:
        conf["spark.sql.shuffle.partitions"] = str(parallelism)
    try:
        spark = build_session(f"headrace {graph.name}", on.master, conf, quick_start=True, quiet=True)
    except HeadraceError as refused:
        output.end(str(refused), EXIT_INVALID if isinstance(refused, OptionError) else EXIT_FAILED)
    failure: str | None = None
    try:
        folder = checkpoint_of(graph.name, checkpoint)
        with stopped_while_starting(stop):
            query = start(
                application.pipeline,
                spark,
                folder,
                options=given,
                available_now=available_now,
                trigger_interval=trigger_interval,
                worker_memory=worker_memory,
                drop_states=drop_states,
                migrate_states=migrate_states,
                finish=finish,
                folder=application.folder,
                real_time=real_time,
                real_time_workers=real_time_workers,
                history=_history(history, history_columns, until, then_live=then_live),
            )
        archives = Archives(str(spark.sparkContext.master))
        watch(query, application, connection if figures else None, stop, output, archives)
        discard_output(spark)
        query.stop()
        error = query.exception()
        if error is not None:
            failure = full_storage(str(error), folder, local_folders(spark)) or first_cause(str(error))
        if error is not None and not is_verbose():
            # Spark logs it too, but that log is shown with --verbose only.
            output.traceback(first_traceback(str(error)), str(query.id))
    except (OptionError, CheckpointError, HistoryError, StateError) as refusal:
        output.end(str(refusal), EXIT_INVALID)
    finally:
        spark.stop()
    result = {"pipeline": graph.name, "checkpoint": folder}
    if failure is not None:
        output.end(failure, EXIT_FAILED, result)
    if as_json:
        print_result("stopped", result, compact=True)


def watch(
    query: "StreamingQuery",
    application: Application,
    connection: Connection | None,
    stop: threading.Event,
    output: Output,
    archives: Archives,
) -> None:
    """Prints progress until the query ends or `stop` is set; none without a connection. What fails in it ends no query."""
    started = shown = time.monotonic()
    before: int | None = None
    figures = None if connection is None else Figures(connection, application.pipeline.graph.streams)
    archiving, showing = Aside("archive Spark's classes"), Aside("show the progress")
    while query.isActive and not stop.wait(_LOOKS_EVERY_S):
        now = time.monotonic()
        with archiving:
            archives.look(query)
        if figures is None or now - shown < _SHOWS_EVERY_S:
            continue
        with showing:
            found = figures.ask(now)
            last = query.lastProgress
            if found is None or last is None:
                continue
            acknowledged, lag = found
            rate = 0.0 if before is None else max(0, acknowledged - before) / (now - shown)
            before, shown = acknowledged, now
            progress = Progress(last.batchId, last.durationMs.get("triggerExecution", 0), acknowledged, rate, lag)
            output.show(progress, str(query.id), now - started)


def _history(paths: tuple[str, ...], columns: tuple[str, ...], until: str | None, *, then_live: bool) -> "History | None":
    """The history that the options ask for; None without one."""
    from headrace.engine import History, parse_time

    if not paths:
        return None
    named = pairs(OF_RUN["history_columns"].option, columns)
    return History(paths, named, None if until is None else parse_time(until), then_live)


def _connection_options(connection: Connection) -> dict[str, str]:
    """Returns the connection as options of the source and the sink."""
    if connection.tls and not (connection.tls_ca or connection.tls_cert):
        raise Failure("--tls alone is not enough for Spark's workers: give --tls-ca", EXIT_INVALID)
    named = {
        "gateway": connection.gateway,
        "token": connection.token,
        "tokenFile": connection.token_file and connection.token_file.path,
        "tlsCa": connection.tls_ca,
        "tlsCert": connection.tls_cert,
        "tlsKey": connection.tls_key,
    }
    return {name: str(value) for name, value in named.items() if value is not None}

"""`headrace soak`."""

import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from headrace.cli.spark_options import require_java, verbose_option
from headrace.laboratory.commands.work_folder import keep_option, report_stuck, say, work_folder
from headrace.terminal import EXIT_FAILED, EXIT_INVALID, Failure, ProgramCommand, console, json_option, print_result

_WARM_UP_SHARE = 1 / 3
_MAX_WARM_UP_MIN = 10.0


@click.command(cls=ProgramCommand)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MINUTES",
    default=30.0,
    show_default=True,
    help="Duration of the run.",
)
@click.option(
    "--warm-up",
    type=click.FloatRange(min=0),
    metavar="MINUTES",
    help="Initial time that is not measured.  [default: a third of the run, at most 10]",
)
@click.option(
    "--bound",
    type=click.FloatRange(min=0),
    metavar="MB",
    default=8.0,
    show_default=True,
    help="The most by which a process may grow in an hour.",
)
@click.option("--rate", type=click.FloatRange(min=1), metavar="N", default=2000.0, show_default=True, help="Messages per second.")
@click.option(
    "--keys", type=click.IntRange(1), metavar="N", default=10_000, show_default=True, help="Number of keys with a state."
)
@click.option("--master", metavar="URL", default="local[2]", show_default=True, help="Spark master URL, on this machine.")
@keep_option
@json_option()
@verbose_option
@click.pass_context
def soak(
    ctx: click.Context,
    minutes: float,
    warm_up: float | None,
    bound: float,
    rate: float,
    keys: int,
    master: str,
    keep: Path | None,
    as_json: bool,
) -> None:
    """Run everything at a steady rate, and check whether the memory of any process grows.

    A source sends messages with a fixed set of keys through a gateway to an application on Spark, which keeps a state for each
    key and writes to a file sink. The memory of each process is measured continuously, and a line is fitted to it after the
    warm-up. Exit code 1 means that the growth of a process significantly exceeds the bound.

    Progress goes to standard error. SIGTERM and Ctrl-C end the run early: it waits for the messages that were sent, prints the
    measurements, and exits with 143 or 130. A second signal ends it immediately.

    \b
    Examples:
      headrace soak --minutes 60
      headrace soak --minutes 10 --rate 20000 --keys 1000000 --bound 50
      headrace soak --json | jq '.result.processes[] | {name, mb_per_hour, verdict}'
    """
    from headrace.laboratory.errors import DemoError
    from headrace.laboratory.soak.report import document, print_outcome, summary
    from headrace.laboratory.soak.run import Plan, Soak

    if not master.startswith("local"):
        raise Failure(f"--master {master}: a soak measures processes of this machine; give local[N]", EXIT_INVALID)
    warm_up = min(minutes * _WARM_UP_SHARE, _MAX_WARM_UP_MIN) if warm_up is None else warm_up
    if warm_up >= minutes:
        raise Failure(f"--warm-up {warm_up:g} leaves nothing to measure of --minutes {minutes:g}", EXIT_INVALID)
    require_java()
    plan = Plan(minutes * 60, warm_up * 60, bound, rate, keys, master)
    stopped_by: list[int] = []
    stop = threading.Event()

    def ask_to_stop(number: int, _: FrameType | None) -> None:
        if stop.is_set():
            sys.exit(128 + number)
        stopped_by.append(number)
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    with work_folder(keep, "soak") as folder:
        try:
            outcome = Soak(folder, plan, say, stop).to_the_end()
        except DemoError as error:
            report_stuck(error, as_json)
    text = summary(outcome, plan)
    if as_json:
        print_result(text, document(outcome, plan), text if outcome.growing or outcome.stopped else None)
    else:
        print_outcome(console(), outcome, plan)
    if outcome.growing:
        ctx.exit(EXIT_FAILED)
    ctx.exit(128 + stopped_by[0] if outcome.stopped and stopped_by else 0)

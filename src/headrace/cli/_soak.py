"""`headrace soak`."""

import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

import click

from headrace.cli._spark_options import require_java
from headrace.terminal import EXIT_FAILED, EXIT_INVALID, Failure, console, print_action

_KEEP = click.Path(file_okay=False, path_type=Path)
_WARM_UP_SHARE = 1 / 3
_LONGEST_WARM_UP_MIN = 10.0


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), default=30.0, show_default=True, help="How long it runs.")
@click.option(
    "--warm-up", type=click.FloatRange(min=0), metavar="MINUTES", help="What does not count yet.  [default: a third, at most 10]"
)
@click.option("--bound", type=click.FloatRange(min=0), default=8.0, show_default=True, help="MB an hour that a process may grow.")
@click.option("--rate", type=click.FloatRange(min=1), default=2000.0, show_default=True, help="Messages a second.")
@click.option("--keys", type=click.IntRange(1), default=10_000, show_default=True, help="Keys, each of which has a state.")
@click.option("--master", default="local[2]", show_default=True, help="Spark's master, on this machine.")
@click.option("--keep", type=_KEEP, metavar="DIR", help="Work in this new folder and keep it: logs, checkpoint, results.")
@click.option("--json", "as_json", is_flag=True, help="Print {command, ok, summary, result, error}.")
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
    """Run everything at a steady rate, and see whether any process grows.

    A source sends messages of a fixed set of keys through a gateway to an application on Spark, which keeps a state of each key
    and writes to a file sink. The memory of each process is measured all the time, and a line is fitted through it, from the end
    of the warm-up on. Exit code 1 says that a line rises by more than the bound, and not by chance.

    Progress goes to standard error. SIGTERM and Ctrl-C end it before its time: what was sent is waited for, what was measured is
    printed, and the exit code is 143 or 130. A second one ends it at once.

    \b
    Examples:
      headrace soak --minutes 60
      headrace soak --minutes 10 --rate 20000 --keys 1000000 --bound 50
      headrace soak --json | jq '.result.processes[] | {name, mb_per_hour, verdict}'
    """
    from headrace.demo._errors import DemoError
    from headrace.soak._report import document, print_outcome, summary
    from headrace.soak._run import Plan, Soak

    if not master.startswith("local"):
        raise Failure(f"--master {master}: a soak measures processes of this machine; give local[N]", EXIT_INVALID)
    warm_up = min(minutes * _WARM_UP_SHARE, _LONGEST_WARM_UP_MIN) if warm_up is None else warm_up
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
    folder = _work_folder(keep)
    try:
        outcome = Soak(folder, plan, _say, stop).to_the_end()
    except DemoError as error:
        if not as_json:
            for line in error.log:
                click.echo(f"  {line}", err=True)
            raise Failure(str(error), error.exit_code) from None
        print_action("soak", "the run did not reach its end", {"log": error.log}, str(error))
        ctx.exit(error.exit_code)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    text = summary(outcome, plan)
    if as_json:
        print_action("soak", text, document(outcome, plan), text if outcome.growing or outcome.stopped else None)
    else:
        print_outcome(console(), outcome, plan)
    if outcome.growing:
        ctx.exit(EXIT_FAILED)
    ctx.exit(128 + stopped_by[0] if outcome.stopped and stopped_by else 0)


def _work_folder(keep: Path | None) -> Path:
    """A folder of the run's own."""
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="headrace-soak-"))
    if keep.exists() and any(keep.iterdir()):
        raise Failure(f"{keep} is not empty: --keep needs a new folder, since a checkpoint belongs to one run", EXIT_INVALID)
    keep.mkdir(parents=True, exist_ok=True)
    return keep.absolute()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

"""`headrace demo`."""

import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from headrace.cli._output import EXIT_FAILED, EXIT_INVALID, Failure, console, print_action

if TYPE_CHECKING:
    from headrace.demo._run import Run

_KEEP = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--chaos", is_flag=True, help="kill -9 and restart the connector, the gateway and the Spark driver meanwhile.")
@click.option("--seed", type=int, metavar="N", help="With --chaos: the same kills again.  [default: others each time]")
@click.option("--keep", type=_KEEP, metavar="DIR", help="Work in this new folder and keep it: logs, checkpoint, table.")
@click.option("--json", "as_json", is_flag=True, help="Print {command, ok, summary, result, error}, and no progress.")
@click.pass_context
def demo(ctx: click.Context, chaos: bool, seed: int | None, keep: Path | None, as_json: bool) -> None:
    """Run a whole job on real flights, and check its result.

    A connector streams the 336,776 flights out of New York in 2013, a line each, through a gateway into Spark, which keeps
    flights, cancellations, mean and worst delay of every airline as state. The end of the stream ends it. Every figure is
    then compared with a plain Python loop over the same file; exit code 0 says that all are equal.

    With --chaos the stream is paced (small micro-batches, a small buffer), so that there is some of it left to kill things in.

    \b
    Examples:
      headrace demo
      headrace demo --chaos --seed 7
      headrace demo --json | jq .result.airlines
    """
    from headrace.demo._chaos import plan_kills
    from headrace.demo._errors import DemoError
    from headrace.demo._run import CHAOS_PACE, FULL_SPEED, Run
    from headrace.demo._view import choose_view

    if seed is not None and not chaos:
        raise Failure("--seed decides on the kills of --chaos: give both, or neither", EXIT_INVALID)
    if chaos and seed is None:
        seed = random.randrange(1000)
    signal.signal(signal.SIGTERM, _terminate)
    with _work_folder(keep) as folder:
        plan = plan_kills(seed) if seed is not None else ()
        run = Run(folder, CHAOS_PACE if chaos else FULL_SPEED, plan, choose_view(console(), silent=as_json))
        try:
            ok = _carry_out(run, seed, as_json)
        except DemoError as error:
            if not as_json:
                for line in error.log:
                    click.echo(f"  {line}", err=True)
                raise Failure(str(error), error.exit_code) from None
            print_action("demo", "the run did not reach its end", {"log": error.log}, error=str(error))
            ctx.exit(error.exit_code)
    ctx.exit(0 if ok else EXIT_FAILED)


def _carry_out(run: "Run", seed: int | None, as_json: bool) -> bool:
    """Runs it and prints what came of it; True where all is equal."""
    from headrace.demo._java import require_java
    from headrace.demo._report import document, print_outcome, summary

    require_java()
    if not as_json and seed is not None:
        click.echo(f"Kills by seed {seed}; at most {run.pace.max_messages:,} messages a micro-batch, so that they hit a stream.")
    outcome = run.to_the_end()
    if as_json:
        error = None if outcome.equal else summary(outcome)
        print_action("demo", summary(outcome), document(outcome, run.pace, seed), error)
    else:
        print_outcome(console(), outcome)
    return outcome.equal


@contextmanager
def _work_folder(keep: Path | None) -> Iterator[Path]:
    """A folder of the run's own: the one to keep, or one that goes away."""
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    if keep.exists() and any(keep.iterdir()):
        raise Failure(f"{keep} is not empty: --keep needs a new folder, since a checkpoint belongs to one run", EXIT_INVALID)
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.absolute()


def _terminate(signal_number: int, frame: FrameType | None) -> None:
    sys.exit(128 + signal_number)

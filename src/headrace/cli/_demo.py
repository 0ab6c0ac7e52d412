"""`headrace demo`."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli._signals import end_at_sigterm
from headrace.terminal import EXIT_FAILED, EXIT_INVALID, Failure, console, print_action

if TYPE_CHECKING:
    from headrace.demo._errors import DemoError
    from headrace.demo._market_run import MarketRun
    from headrace.demo._run import Run

_KEEP = click.Path(file_okay=False, path_type=Path)


@click.group(invoke_without_command=True)
@click.option("--chaos", is_flag=True, help="kill -9 and restart the connector, the gateway and the Spark driver meanwhile.")
@click.option("--seed", type=int, metavar="N", help="With --chaos: the same kills again.  [default: others each time]")
@click.option("--keep", type=_KEEP, metavar="DIR", help="Work in this new folder and keep it: logs, checkpoint, table.")
@click.option("--json", "as_json", is_flag=True, help="Print {command, ok, summary, result, error}, and no progress.")
@click.pass_context
def demo(ctx: click.Context, chaos: bool, seed: int | None, keep: Path | None, as_json: bool) -> None:
    """Run a whole job on real flights, or an application on a made-up market, and check the result.

    A connector streams the 336,776 flights out of New York in 2013, a line each, through a gateway into Spark, which keeps
    flights, cancellations, mean and worst delay of every airline as state. The end of the stream ends it. Every figure is
    then compared with a plain Python loop over the same file; exit code 0 says that all are equal.

    With --chaos the stream is paced (small micro-batches, a small buffer), so that there is some of it left to kill things in.

    \b
    Examples:
      headrace demo
      headrace demo --chaos --seed 7
      headrace demo --json | jq .result.airlines
      headrace demo market-spread
      headrace demo cluster
    """
    if ctx.invoked_subcommand is not None:
        if chaos or seed is not None or keep is not None or as_json:
            raise Failure(f"options of {ctx.invoked_subcommand} follow its name", EXIT_INVALID)
        return
    from headrace.demo._chaos import plan_kills
    from headrace.demo._errors import DemoError
    from headrace.demo._run import CHAOS_PACE, FULL_SPEED, Run
    from headrace.demo._view import choose_view

    if seed is not None and not chaos:
        raise Failure("--seed decides on the kills of --chaos: give both, or neither", EXIT_INVALID)
    if chaos and seed is None:
        seed = random.randrange(1000)
    end_at_sigterm()
    with _work_folder(keep) as folder:
        plan = plan_kills(seed) if seed is not None else ()
        run = Run(folder, CHAOS_PACE if chaos else FULL_SPEED, plan, choose_view(console(), silent=as_json))
        try:
            ok = _carry_out(run, seed, as_json)
        except DemoError as error:
            ctx.exit(_report(error, "demo", as_json))
    ctx.exit(0 if ok else EXIT_FAILED)


@demo.command("market-spread")
@click.option("--messages", type=click.IntRange(1), default=2_000_000, show_default=True, help="Quotes, and as many orders.")
@click.option("--keep", type=_KEEP, metavar="DIR", help="Work in this new folder and keep it: logs, checkpoint, results.")
@click.option("--json", "as_json", is_flag=True, help="Print {command, ok, summary, result, error}, and no progress.")
@click.pass_context
def market_spread(ctx: click.Context, messages: int, keep: Path | None, as_json: bool) -> None:
    """Run the application examples/market_spread, with live rates and rejected orders.

    A connector streams quotes and orders for 350 symbols. A pipeline of plain Python functions keeps the latest quote of
    each symbol, and rejects orders where bid and offer lie too far apart. The end of both streams ends it. The rejected
    orders are then compared with a plain Python loop over the same messages; exit code 0 says that they are equal.

    \b
    Examples:
      headrace demo market-spread
      headrace demo market-spread --messages 10000000
      headrace demo market-spread --json | jq .result.rejected
    """
    from headrace.demo._errors import DemoError
    from headrace.demo._market_run import MarketRun
    from headrace.demo._view import choose_view

    end_at_sigterm()
    with _work_folder(keep) as folder:
        run = MarketRun(folder, messages, choose_view(console(), silent=as_json))
        try:
            ok = _carry_out_market(run, as_json)
        except DemoError as error:
            ctx.exit(_report(error, "demo market-spread", as_json))
    ctx.exit(0 if ok else EXIT_FAILED)


@demo.command("cluster")
@click.option("--keep", type=_KEEP, metavar="DIR", help="Work in this new folder and keep it: logs, checkpoint, table.")
@click.option("--json", "as_json", is_flag=True, help="Print {command, ok, summary, result, error}, and no progress.")
@click.pass_context
def cluster(ctx: click.Context, keep: Path | None, as_json: bool) -> None:
    """Run the flights on a Spark cluster of three workers, and kill one of them meanwhile.

    Spark's standalone master and its workers start on this machine, each a process of its own with a core for an executor, as
    on machines of their own. The job is that of `headrace demo`, paced. When two fifths of the flights are committed, one worker
    is killed with its executor by kill -9 and stays away; the table counts on. Every figure is then compared with a plain Python
    loop over the same file; exit code 0 says that all are equal.

    \b
    Examples:
      headrace demo cluster
      headrace demo cluster --json | jq .result.kills
    """
    from headrace.demo._cluster_run import cluster_run
    from headrace.demo._errors import DemoError
    from headrace.demo._view import choose_view

    end_at_sigterm()
    with _work_folder(keep) as folder:
        run = cluster_run(folder, choose_view(console(), silent=as_json))
        try:
            ok = _carry_out(run, None, as_json, "demo cluster")
        except DemoError as error:
            ctx.exit(_report(error, "demo cluster", as_json))
    ctx.exit(0 if ok else EXIT_FAILED)


def _carry_out_market(run: "MarketRun", as_json: bool) -> bool:
    """Runs it and prints what came of it; True where all is equal."""
    from headrace.demo._java import require_java
    from headrace.demo._market_report import document, print_outcome, summary

    require_java()
    outcome = run.to_the_end()
    if as_json:
        error = None if outcome.equal else summary(outcome)
        print_action("demo market-spread", summary(outcome), document(outcome), error)
    else:
        print_outcome(console(), outcome)
    return outcome.equal


def _carry_out(run: "Run", seed: int | None, as_json: bool, command: str = "demo") -> bool:
    """Runs it and prints what came of it; True where all is equal."""
    from headrace.demo._java import require_java
    from headrace.demo._report import document, print_outcome, summary

    require_java()
    if not as_json and seed is not None:
        click.echo(f"Kills by seed {seed}; at most {run.pace.max_messages:,} messages a micro-batch, so that they hit a stream.")
    outcome = run.to_the_end()
    if as_json:
        error = None if outcome.equal else summary(outcome)
        print_action(command, summary(outcome), document(outcome, run.pace, seed), error)
    else:
        print_outcome(console(), outcome)
    return outcome.equal


def _report(error: "DemoError", command: str, as_json: bool) -> int:
    """Prints why a run did not reach its end; its exit code."""
    if not as_json:
        for line in error.log:
            click.echo(f"  {line}", err=True)
        raise Failure(str(error), error.exit_code) from None
    print_action(command, "the run did not reach its end", {"log": error.log}, error=str(error))
    return error.exit_code


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

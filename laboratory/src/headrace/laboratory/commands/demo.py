"""`headrace demo`."""

import random
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.spark_options import verbose_option
from headrace.laboratory.commands.work_folder import end_at_sigterm, keep_option, report_stuck, work_folder
from headrace.terminal import EXIT_FAILED, EXIT_INVALID, Failure, ProgramGroup, console, json_option, print_line, print_result

if TYPE_CHECKING:
    from headrace.laboratory.demo.run import Run


@click.group(cls=ProgramGroup, invoke_without_command=True)
@click.option(
    "--chaos", is_flag=True, help="Kill (-9) and restart the connector, the gateway and the Spark driver during the run."
)
@click.option("--seed", type=int, metavar="N", help="With --chaos: seed of the kills, to repeat a run.  [default: random]")
@keep_option
@json_option()
@verbose_option
@click.pass_context
def demo(ctx: click.Context, chaos: bool, seed: int | None, keep: Path | None, as_json: bool) -> None:
    """Run a complete job on real flight data, or an application on synthetic market data, and check the result.

    A connector streams the 336,776 flights that left New York in 2013, one line each, through a gateway into Spark. Spark keeps
    the flights, the cancellations, and the mean and worst delay of each airline as state. When the stream has ended, every
    figure is compared with a plain Python loop over the same file. Exit code 0 means that all figures are equal.

    With --chaos, the stream is paced (small micro-batches, a small buffer), so that it lasts long enough for all kills.

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
            raise Failure(f"put the options of {ctx.invoked_subcommand} after its name", EXIT_INVALID)
        return
    from headrace.laboratory.demo.chaos import plan_kills
    from headrace.laboratory.demo.flights_run import CHAOS_PACE, FULL_SPEED, FlightsRun
    from headrace.laboratory.demo.view import choose_view
    from headrace.laboratory.errors import DemoError

    if seed is not None and not chaos:
        raise Failure("--seed determines the kills of --chaos: give both, or neither", EXIT_INVALID)
    if chaos and seed is None:
        seed = random.randrange(1000)
    end_at_sigterm()
    with work_folder(keep, "demo") as folder:
        plan = plan_kills(seed) if seed is not None else ()
        pace, view = CHAOS_PACE if chaos else FULL_SPEED, choose_view(console(), silent=as_json)
        run = FlightsRun(folder, view, pace=pace, plan=plan, seed=seed)
        if chaos and not as_json:
            paced = f"micro-batches have at most {pace.max_messages:,} messages, so that the stream outlasts the kills"
            print_line(f"Seed {seed} determines the kills; {paced}.")
        try:
            ok = _carry_out(run, as_json)
        except DemoError as error:
            report_stuck(error, as_json)
    ctx.exit(0 if ok else EXIT_FAILED)


@demo.command("market-spread")
@click.option(
    "--messages",
    type=click.IntRange(1),
    metavar="N",
    default=2_000_000,
    show_default=True,
    help="Number of quotes, and of orders.",
)
@keep_option
@json_option()
@verbose_option
@click.pass_context
def market_spread(ctx: click.Context, messages: int, keep: Path | None, as_json: bool) -> None:
    """Run the application examples/market_spread, with live rates and rejected orders.

    A connector streams quotes and orders for 350 symbols. A pipeline of plain Python functions keeps the latest quote of each
    symbol, and rejects orders whose bid and offer are too far apart. When both streams have ended, the rejected orders are
    compared with the figures of a plain Python loop over the same messages. Exit code 0 means that they are equal.

    \b
    Examples:
      headrace demo market-spread
      headrace demo market-spread --messages 10000000
      headrace demo market-spread --json | jq .result.rejected
    """
    from headrace.laboratory.demo.market_run import MarketRun
    from headrace.laboratory.demo.view import choose_view
    from headrace.laboratory.errors import DemoError

    end_at_sigterm()
    with work_folder(keep, "demo") as folder:
        run = MarketRun(folder, choose_view(console(), silent=as_json), messages=messages)
        try:
            ok = _carry_out(run, as_json)
        except DemoError as error:
            report_stuck(error, as_json)
    ctx.exit(0 if ok else EXIT_FAILED)


@demo.command("cluster")
@keep_option
@json_option()
@verbose_option
@click.pass_context
def cluster(ctx: click.Context, keep: Path | None, as_json: bool) -> None:
    """Run the flights on a Spark cluster of three workers, one of which is killed.

    Spark's standalone master and its workers start on this machine as separate processes, each worker with one core for an
    executor. The job is the one of `headrace demo`, paced. When two fifths of the flights are committed, one worker is killed
    (kill -9) with its executor, and not restarted; the job continues. At the end, every figure is compared with a plain Python
    loop over the same file. Exit code 0 means that all figures are equal.

    \b
    Examples:
      headrace demo cluster
      headrace demo cluster --json | jq .result.kills
    """
    from headrace.laboratory.demo.cluster_run import cluster_run
    from headrace.laboratory.demo.view import choose_view
    from headrace.laboratory.errors import DemoError

    end_at_sigterm()
    with work_folder(keep, "demo") as folder:
        run = cluster_run(folder, choose_view(console(), silent=as_json))
        try:
            ok = _carry_out(run, as_json)
        except DemoError as error:
            report_stuck(error, as_json)
    ctx.exit(0 if ok else EXIT_FAILED)


def _carry_out(run: "Run", as_json: bool) -> bool:
    """Runs a demo and prints its outcome. Returns whether the results are as expected."""
    from headrace.laboratory.errors import EnvironmentLacks
    from headrace.processes import JavaMissing, require_java

    try:
        require_java()
    except JavaMissing as missing:
        raise EnvironmentLacks(str(missing)) from None
    outcome = run.to_the_end()
    if as_json:
        error = None if outcome.equal else outcome.summary()
        print_result(outcome.summary(), outcome.document(), error)
    else:
        outcome.print_to(console())
        _speed_up_next_start()
    return outcome.equal


def _speed_up_next_start() -> None:
    """Starts to archive Spark's classes, after the result is printed, unless there is an archive."""
    from headrace.preparation import prepare_in_background

    if prepare_in_background():
        print_line("In the background, `headrace prepare` now archives Spark's classes: the next start takes half the time.")

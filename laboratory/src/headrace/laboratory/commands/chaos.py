"""`headrace chaos`."""

import random
from pathlib import Path

import click

from headrace.cli.spark_options import verbose_option
from headrace.laboratory.commands.work_folder import end_at_sigterm, keep_option, new_folder, say, shown_logs
from headrace.machine.owned_folder import remove
from headrace.terminal import EXIT_ENVIRONMENT, EXIT_FAILED, Failure, ProgramCommand, console, json_option, print_result


@click.command(cls=ProgramCommand)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MINUTES",
    default=10.0,
    show_default=True,
    help="Duration of the run.",
)
@click.option("--seed", type=int, metavar="N", help="Seed of the kills, to repeat a run.  [default: random]")
@click.option("--master", metavar="URL", default="local-cluster[2,1,1024]", show_default=True, help="Spark master URL.")
@keep_option
@json_option()
@verbose_option
@click.pass_context
def chaos(ctx: click.Context, minutes: float, seed: int | None, master: str, keep: Path | None, as_json: bool) -> None:
    """Kill everything at random, and prove that each message counts exactly once.

    Ten senders of a replayable source, and a queue that redelivers, send to a gateway. Two Spark queries keep a state for each
    key, and write to a two-phase sink and a batch-idempotent sink, each with two instances. Meanwhile, connectors, gateway,
    driver, executors and sinks are killed with kill -9, sometimes two at once, sometimes one while another recovers. A second
    driver starts on the checkpoints of the first, which continues or is paused meanwhile. At the end, a validator that shares no
    code with them compares the content of the sinks, byte for byte, with what was sent. Exit code 0 means that all guarantees
    hold.

    The seed determines what is killed, in which order, and how long after the recovery from the last kill. Progress goes to
    standard error. A run with findings keeps its folder, and prints its path.

    \b
    Examples:
      headrace chaos --minutes 2 --seed 7
      headrace chaos --minutes 0.5 --master 'local[2,4]' --json | jq .result.kills
    """
    from headrace.laboratory.chaos.report import document, print_outcome, summary
    from headrace.laboratory.chaos.run import Run
    from headrace.laboratory.errors import ChaosError
    from headrace.processes import JavaMissing, require_java

    try:
        require_java()
    except JavaMissing as error:
        raise Failure(str(error), EXIT_ENVIRONMENT) from None
    seed = random.randrange(1000) if seed is None else seed
    folder = new_folder(keep, "chaos")
    end_at_sigterm()
    say(f"seed {seed}: kills for {minutes:g} minutes")
    well, stopped = False, False
    try:
        with shown_logs(folder):
            outcome = Run(folder, seed, minutes * 60, master, say).to_the_end()
        well = not outcome.findings
        if as_json:
            print_result(summary(outcome), document(outcome, seed, master), None if well else summary(outcome))
        else:
            print_outcome(console(), outcome)
    except ChaosError as stuck:
        result = {"seed": seed, "master": master}
        raise Failure(f"seed {seed}: {stuck}", summary="the run did not finish", result=result) from None
    except (KeyboardInterrupt, SystemExit):
        stopped = True
        raise
    finally:
        if not (well or stopped):
            say(f"the folder of the run is kept: {folder}")
        elif keep is None:
            remove(folder)
    ctx.exit(0 if well else EXIT_FAILED)

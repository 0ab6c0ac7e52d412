"""`headrace chaos`."""

import random
import shutil
import sys
import tempfile
from pathlib import Path

import click

from headrace.cli._signals import end_at_sigterm
from headrace.terminal import EXIT_FAILED, EXIT_INVALID, Failure, console, print_action

_KEEP = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), default=10.0, show_default=True, help="Kill for so long.")
@click.option("--seed", type=int, metavar="N", help="The same kills again, in the same order.  [default: others each time]")
@click.option("--master", default="local-cluster[2,1,1024]", show_default=True, help="Spark's master.")
@click.option("--keep", type=_KEEP, metavar="DIR", help="Work in this new folder and keep it: logs, checkpoints, output.")
@click.option("--json", "as_json", is_flag=True, help="Print {command, ok, summary, result, error}.")
@click.pass_context
def chaos(ctx: click.Context, minutes: float, seed: int | None, master: str, keep: Path | None, as_json: bool) -> None:
    """Kill everything at random, and prove that each message counts exactly once.

    Ten senders of a replayable source, and a queue that redelivers, send on to a gateway. Two Spark queries keep state of each
    key, and write to a two-phase and to a batch-idempotent sink, each of two instances. Meanwhile kill -9 comes to connectors,
    gateway, driver, executors and sinks, sometimes to two at once, sometimes to one while another recovers; and a second driver
    starts on the checkpoints of the first, which goes on, or stands still meanwhile. In the end a validator that shares no code
    with them compares what the sinks show, byte for byte, with what was sent; exit code 0 says that everything holds.

    The seed fixes who is killed, in which order, and how long after the recovery from the kill before. Progress goes to standard
    error. A run that finds something keeps its folder, and says where it is.

    \b
    Examples:
      headrace chaos --minutes 2 --seed 7
      headrace chaos --minutes 0.5 --master 'local[2,4]' --json | jq .result.kills
    """
    from headrace.chaos._errors import ChaosError
    from headrace.chaos._report import document, print_outcome, summary
    from headrace.chaos._run import Run
    from headrace.demo._errors import EnvironmentLacks
    from headrace.demo._java import require_java

    try:
        require_java()
    except EnvironmentLacks as error:
        raise Failure(str(error), error.exit_code) from None
    seed = random.randrange(1000) if seed is None else seed
    folder = _work_folder(keep)
    end_at_sigterm()
    _say(f"seed {seed}: kills for {minutes:g} minutes")
    well = False
    try:
        outcome = Run(folder, seed, minutes * 60, master, _say).to_the_end()
        well = not outcome.findings
        if as_json:
            print_action("chaos", summary(outcome), document(outcome, seed, master), None if well else summary(outcome))
        else:
            print_outcome(console(), outcome)
    except ChaosError as stuck:
        if not as_json:
            raise Failure(f"seed {seed}: {stuck}") from None
        print_action("chaos", "the run did not reach its end", {"seed": seed, "master": master}, str(stuck))
    finally:
        if not well:
            _say(f"everything that was left behind is in {folder}")
        elif keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    ctx.exit(0 if well else EXIT_FAILED)


def _work_folder(keep: Path | None) -> Path:
    """A folder of the run's own."""
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    if keep.exists() and any(keep.iterdir()):
        raise Failure(f"{keep} is not empty: --keep needs a new folder, since a checkpoint belongs to one run", EXIT_INVALID)
    keep.mkdir(parents=True, exist_ok=True)
    return keep.absolute()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

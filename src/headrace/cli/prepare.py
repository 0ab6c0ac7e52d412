"""`headrace prepare`, and how `headrace run` begins it in the background."""

import logging
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from headrace.terminal import (
    EXIT_ENVIRONMENT,
    EXIT_FAILED,
    Failure,
    ProgramCommand,
    bytes_text,
    json_option,
    print_line,
    print_result,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


log = logging.getLogger("headrace.run")


@click.command(cls=ProgramCommand)
@click.option("--if-missing", is_flag=True, help="Do nothing if there is an archive already.")
@json_option()
def prepare(if_missing: bool, as_json: bool) -> None:
    """Speed up Spark's startup on this machine. Run it once after each installation.

    Runs a short job, and stores an archive of the classes that Spark's JVM loads for it (160 MB) in this Python environment.
    Local sessions of Headrace start from this archive. Without it, they work too, but take a few seconds longer to start.
    The first `headrace demo` runs this command in the background after it has printed its result.

    \b
    Example:
      headrace prepare
    """
    from headrace.preparation import PreparationFailed
    from headrace.preparation import prepare as run
    from headrace.processes import JavaMissing, require_java

    try:
        require_java()
    except JavaMissing as error:
        _fail(str(error), [], as_json, EXIT_ENVIRONMENT)
    # Exit through `finally`, so that no child process outlives this one.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if not as_json:
        print_line("running a short job on Spark, which takes about a minute ...", err=True)
    try:
        made = run(if_missing=if_missing)
    except OSError as error:
        _fail(f"cannot write {error.filename}: {error.strerror}", [], as_json, EXIT_ENVIRONMENT)
    except PreparationFailed as error:
        _fail(str(error), error.detail, as_json, EXIT_FAILED)
    when = "which was there already" if made.took_s is None else f"made in {made.took_s:.0f} s"
    summary = f"Spark starts from {made.archive} ({bytes_text(made.bytes)}), {when}"
    if as_json:
        took_s = None if made.took_s is None else round(made.took_s, 1)
        print_result(summary, {"archive": str(made.archive), "bytes": made.bytes, "took_s": took_s})
    else:
        print_line(summary)


def _fail(what: str, detail: list[str], as_json: bool, code: int) -> NoReturn:
    """Ends the command with a failure, after the job's output."""
    if not as_json:
        for line in detail:
            print_line(line, err=True)
    raise Failure(what, code, summary="nothing is prepared")


class Archives:
    """Starts to archive Spark's classes once a query has committed a micro-batch: the first results do not wait for it."""

    def __init__(self, master: str) -> None:
        """Takes Spark's master."""
        self._master = master
        self._is_done = False

    def look(self, query: "StreamingQuery") -> None:
        """Starts to archive the classes if there is no archive, unless it was started before."""
        if self._is_done or query.lastProgress is None:
            return
        self._is_done = True
        from headrace.preparation import prepare_in_background

        if prepare_in_background(self._master):
            log.info("headrace prepare archives Spark's classes in the background: the next start takes half the time")

"""The report that a benchmark prints at its end, also at an early end."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.laboratory.commands.work_folder import end_at_sigterm, say
from headrace.terminal import EXIT_ENVIRONMENT, EXIT_FAILED, Failure, console, print_result

if TYPE_CHECKING:
    from headrace.laboratory.bench.figures import Figure
    from headrace.terminal.tables import FittingTable


JVM_ENDS_WITHIN_S = 2.0
"""How long a JVM may take to end whose connection was lost, in seconds."""


def _nothing(_: dict[str, Any]) -> str:
    return ""


def ended_jvm() -> str | None:
    """Returns how Spark's JVM has ended, which is why all calls to it fail; None if it runs, or there is none."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    try:
        code = process.wait(JVM_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        return None
    how = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
    remedy = "; if the machine has run out of memory, end what else runs, and measure again" if code == -signal.SIGKILL else ""
    return f"Spark's JVM has ended ({how}) during the benchmark{remedy}"


def report(
    title: str,
    run: Any,
    parts: tuple[str, ...],
    quick: bool,
    as_json: bool,
    fail: bool,
    left_out: Callable[[dict[str, Any]], str] = _nothing,
    detail: str = "",
    tables: "Callable[[dict[str, Any]], list[FittingTable]] | None" = None,
    *,
    whole: bool = False,
) -> None:
    """Runs a benchmark and prints its figures. Given the conditions, `left_out` says what was asked for and could not be done.

    A whole run begins nothing more after eight minutes; `conditions.not_begun` names what it has left out.

    If a `detail` of the conditions contains `tables`, people see these instead of the figures.

    If it ends early, it prints the figures that it has measured.
    """
    from headrace.laboratory.bench.figures import BUDGET_S, Progress, document, machine, table
    from headrace.processes import own_temporary_folder

    end_at_sigterm()
    progress = Progress(say, ends_at=time.monotonic() + BUDGET_S if whole else None)
    try:
        with own_temporary_folder("bench"):
            measured: tuple[list[Figure], dict[str, Any]] = run(parts, quick, progress)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        gone = ended_jvm() if isinstance(error, Exception) else None
        if not progress.figures and gone is None:
            raise
        summary = f"{len(progress.figures)} figures, and the benchmark ended early"
        result = document(progress.figures, machine() | {"quick": quick})
        why = gone or (str(error) if isinstance(error, Exception) else "it was told to stop")
        if not as_json:
            console().print(table(title, progress.figures))
        if isinstance(error, Exception):
            raise Failure(f"{why or type(error).__name__}; {summary}", summary=summary, result=result) from error
        if as_json:
            print_result(summary, result, why)
        raise
    figures, conditions = measured[0], measured[1] | {"not_begun": progress.not_begun}
    missed = sum(figure.met is False for figure in figures)
    summary = f"{len(figures)} figures, {missed} of them miss their targets"
    lacking, result = left_out(conditions), document(figures, conditions)
    if not as_json:
        for drawn in [table(title, figures)] if tables is None else tables(conditions[detail]):
            console().print(drawn)
        console().print(f"conditions: {json.dumps({name: value for name, value in conditions.items() if name != detail})}")
    if lacking:
        raise Failure(lacking, EXIT_ENVIRONMENT, summary=summary, result=result)
    if as_json:
        print_result(summary, result, summary if fail and missed else None)
    if fail and missed:
        sys.exit(EXIT_FAILED)

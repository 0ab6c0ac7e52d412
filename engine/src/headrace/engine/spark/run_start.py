"""How a run of a query begins: what its checkpoint must be, and the record of the run in it."""

import os
import threading
from dataclasses import replace
from functools import partial

from headrace.contract.errors import HeadraceError
from headrace.contract.names import CONTINUES
from headrace.engine.checkpoint.log import Predecessor
from headrace.engine.checkpoint.runs import drop_unnamed_entries
from headrace.engine.checkpoint.votes import Votes
from headrace.engine.sink.options import SinkOptions
from headrace.engine.source.options import Options
from headrace.engine.spark.execution import Execution
from headrace.engine.spark.reporting import CommitLog, ReportedRun


def check_not_gone(execution: Execution, sources: tuple[Options, ...]) -> None:
    """Checks that a query which a supervisor has started again finds its checkpoint.

    Raises:
        HeadraceError: The checkpoint is new: a query without it would process again whatever its sources still have.
    """
    continued = set(os.environ.get(CONTINUES, "").split(",")) & {source.pipeline for source in sources}
    if not continued or execution.last_committed() is not None:
        return
    # A driver that ends may write its run once more where its checkpoint was.
    if execution.runs.is_empty or execution.runs.has_committed:
        raise HeadraceError(
            f"{execution.checkpoint} is empty, although {', '.join(sorted(map(str, continued)))} has used it since its "
            "deployment was started: it was removed, or its disk is no longer mounted. Restore it, such as from a backup; to "
            "begin anew, with all that the sources still have, restart the deployment. Nothing was processed"
        )


def begin_reported_run(execution: Execution, query_id: str, run_id: str, options: SinkOptions | None) -> ReportedRun:
    """Records a run as the current one of its checkpoint.

    Raises:
        Replaced: Another run started at the same time.
    """
    runs, last = execution.runs, execution.last_committed()
    run = runs.begin(run_id, last, execution.owner, options.sinks if options is not None else ())
    # From now on, no run before this one adds an entry: it would find this one's file, or not find its own.
    drop_unnamed_entries(execution.commits)
    execution.set_run_number(run.number)
    commits = CommitLog(
        last=execution.last_committed,
        owner=execution.owner,
        fail=partial(_fail, execution),
        is_stopped=lambda: execution.is_stopped,
    )

    def write_votes(text: str) -> None:
        runs.check(run)
        execution.write_votes(text)

    votes = Votes(execution.read_votes, write_votes, {"query": query_id, "run": run_id})
    return ReportedRun(query_id, run, options, commits, runs, votes, committed=last)


def of_predecessor(query: Predecessor, reported: ReportedRun) -> ReportedRun:
    """The commits of a query that another one has replaced."""
    run = replace(reported.run, earlier=query.segments)
    return ReportedRun(query.query, run, reported.options, committed=query.committed)


def _fail(execution: Execution, reason: str) -> None:
    """Ends a running query, in another thread, since the query's thread may wait for the caller."""
    threading.Thread(target=execution.fail, args=(reason,), name="headrace-replaced", daemon=True).start()

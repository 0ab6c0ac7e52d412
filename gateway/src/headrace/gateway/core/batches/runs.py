"""Decides which run of a pipeline may deliver: only the current one, however late the calls of others arrive."""

from dataclasses import replace

from headrace.gateway.core.base.errors import ProtocolError, RunStopped, Superseded
from headrace.gateway.core.sinks import CommitLog, Part, Transaction
from headrace.gateway.core.state import Gateway

MAX_REPLACED = 64
"""How many replaced runs are remembered for each pipeline."""


def merged(earlier: CommitLog | None, reported: CommitLog, accept_older: bool) -> CommitLog:
    """Merges a run's report into the known commit log of its pipeline.

    A commit log only grows: a batch that any report of its run contains remains committed.

    Raises:
        Superseded: the run is not the current one, and does not replace it.
    """
    if earlier is None:
        return reported
    if earlier.run_id == reported.run_id:
        # A delayed report may arrive behind a later one.
        rest = tuple(segment for segment in earlier.segments if segment.last_batch > reported.committed)
        return replace(
            reported,
            committed=max(reported.committed, earlier.committed),
            segments=(*reported.segments, *rest),
            begun=earlier.begun,
            replaced=earlier.replaced,
            stopped=reported.stopped or earlier.stopped,
        )
    was_current = reported.run_id in earlier.replaced or any(segment.run_id == reported.run_id for segment in earlier.segments)
    newer = (reported.run_number, reported.run_id) > (earlier.run_number, earlier.run_id)
    if was_current or not (newer or accept_older):
        raise _superseded(earlier, reported.run_id, reported.run_number)
    return replace(reported, replaced=(*earlier.replaced, earlier.run_id)[-MAX_REPLACED:])


async def wait_until_current(gateway: Gateway, pipeline: str, run_id: str, run_number: int) -> None:
    """Waits until a run has reported its commit log and so is the current one.

    Raises:
        Superseded: another run is the current one, and this one does not replace it.
        RunStopped: the run was stopped.
    """
    while (commit_log := gateway.commit_logs.get(pipeline)) is None or commit_log.run_id != run_id:
        if commit_log is not None and (run_number, run_id) <= (commit_log.run_number, commit_log.run_id):
            raise _superseded(commit_log, run_id, run_number)
        await gateway.commits_reported.wait()
    if commit_log.stopped:
        raise _stopped(commit_log)


def check_current(gateway: Gateway, pipeline: str, run_id: str, run_number: int) -> CommitLog:
    """Checks that the calling run is still the current one, and returns its commit log.

    Raises:
        Superseded: the run was replaced while it waited, or the gateway has forgotten it.
        RunStopped: the run was stopped while it waited.
    """
    commit_log = gateway.commit_logs.get(pipeline)
    if commit_log is None:
        raise Superseded(f"run {run_number} of query {pipeline} was forgotten by the gateway; run the batch again")
    if commit_log.run_id != run_id:
        raise _superseded(commit_log, run_id, run_number)
    if commit_log.stopped:
        raise _stopped(commit_log)
    return commit_log


def check_open(commit_log: CommitLog, transaction: Transaction) -> None:
    """Checks that a batch is not committed yet.

    Raises:
        Superseded: the batch is in the commit log.
    """
    if transaction.batch <= commit_log.committed:
        raise Superseded(f"{transaction} is already in the commit log: this call comes from a task that Spark has given up")


def over(commit_log: CommitLog, part: Part) -> ProtocolError | None:
    """Returns the error for a part in transit from a run that was replaced or stopped; None if its run still delivers."""
    if part.transaction.pipeline != commit_log.pipeline:
        return None
    if part.run_id != commit_log.run_id:
        return Superseded(_sentence(commit_log, part.run_id))
    return _stopped(commit_log) if commit_log.stopped else None


def _stopped(current: CommitLog) -> RunStopped:
    return RunStopped(f"run {current.run_number} of query {current.pipeline} was stopped: nobody waits for this call")


def _superseded(current: CommitLog, run_id: str, run_number: int) -> Superseded:
    back = "; if you restored an older checkpoint on purpose, set onOlderCheckpoint to accept"
    return Superseded(f"{_sentence(current, f'{run_id}, number {run_number},')}{back}")


def _sentence(current: CommitLog, run: str) -> str:
    return (
        f"run {run} of query {current.pipeline} is not the current one: run {current.run_id}, number {current.run_number}, has "
        "taken over; one checkpoint serves one query at a time"
    )

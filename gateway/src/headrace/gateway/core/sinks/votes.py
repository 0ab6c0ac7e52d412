"""The transactions that sink instances have voted for. An instance must still hold its own when it reconnects."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TypeVar

from headrace.gateway.core.base.bounds import MAX_VOTES, check_room
from headrace.gateway.core.base.errors import SinkLost
from headrace.gateway.core.sinks.commit_log import CommitLog
from headrace.gateway.core.sinks.session import SinkSession
from headrace.gateway.core.sinks.transaction import Transaction

log = logging.getLogger("headrace.gateway")

_T = TypeVar("_T")


@dataclass(frozen=True, order=True, slots=True)
class Voter:
    """An instance of a sink that a pipeline writes to."""

    pipeline: str
    sink: str
    instance: str


class Votes:
    """The last vote of each instance for each pipeline, and the votes that instances have lost.

    A vote counts once its batch is in the commit log. An instance has kept it if it lists the batch as prepared, or this or a
    later batch as committed.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[Voter, str], int] = {}
        """The batches that are not yet known to be in the commit log, by voter and run."""
        self._logged: dict[Voter, int] = {}
        self._losses: dict[Voter, int] = {}

    def record(self, transaction: Transaction, run_id: str, sink: str, instances: Iterable[str]) -> None:
        """Records the votes for a transaction, which count if the commit log has the batch as this run's.

        Raises:
            LimitExceeded: the limit of remembered votes is reached.
        """
        for instance in instances:
            if (key := (Voter(transaction.pipeline, sink, instance), run_id)) not in self._open:
                check_room("votes of sinks", self._open, MAX_VOTES)
            self._open[key] = transaction.batch

    def note_committed(self, commit_log: CommitLog) -> None:
        """Records who has committed the batches in a commit log. A vote of which that is not known stays open."""
        for (voter, run_id), batch in list(self._open.items()):
            if voter.pipeline != commit_log.pipeline or batch > commit_log.committed:
                continue
            owner = commit_log.owner(batch)
            if owner in ("", run_id):
                self._logged[voter] = max(batch, self._logged.get(voter, -1))
            if owner is not None:
                del self._open[voter, run_id]

    def adopt(self, pipeline: str, votes: Iterable[tuple[str, str, int]]) -> None:
        """Adopts votes from before this gateway started: sink, instance, and a batch in the commit log.

        Raises:
            LimitExceeded: the limit of remembered votes is reached.
        """
        for sink, instance, batch in votes:
            voter = Voter(pipeline, sink, instance)
            if voter not in self._losses:
                if voter not in self._logged:
                    check_room("votes of sinks", self._logged, MAX_VOTES)
                self._logged[voter] = max(batch, self._logged.get(voter, -1))

    def check_instance(self, session: SinkSession) -> int:
        """Checks whether an instance has everything that it voted for; returns for how many pipelines a new loss was found."""
        voters = [v for v in self._logged if (v.sink, v.instance) == (session.hello.sink, session.instance)]
        return sum(self._newly_lost(voter, session) for voter in voters)

    def check_attached(self, pipeline: str, session_of: Callable[[str, str], SinkSession | None]) -> list[str]:
        """Checks whether the attached instances have everything that they voted for; returns the sinks with new losses."""
        sessions = [(voter, session_of(voter.sink, voter.instance)) for voter, _ in self._of(self._logged, pipeline)]
        return [voter.sink for voter, session in sessions if session is not None and self._newly_lost(voter, session)]

    def _newly_lost(self, voter: Voter, session: SinkSession) -> bool:
        """Records whether an instance has lost a batch that it voted for; returns whether the loss is new.

        The Hello of a process that is gone may arrive after its successor has voted: what it lists is judged once it proves life.
        """
        if not session.heartbeat.proves_life:
            return False
        batch = self._logged[voter]
        if session.has(Transaction(voter.pipeline, batch)):
            self._losses.pop(voter, None)
            return False
        if voter in self._losses:
            return False
        self._losses[voter] = batch
        shows = session.visible.get(voter.pipeline)
        log.error("a sink has lost what it voted for", extra={**asdict(voter), "batch": batch, "shows": shows})
        return True

    def check_kept(self, pipeline: str) -> None:
        """Checks that no instance has lost a vote for a pipeline.

        Raises:
            SinkLost: an instance has.
        """
        for voter, batch in sorted(self._of(self._losses, pipeline)):
            raise SinkLost(
                f"instance {voter.instance} of sink {voter.sink} voted for batch {batch} of pipeline {pipeline}, which is in the "
                "commit log, and has come back without it"
            )

    def accept(self, pipeline: str) -> None:
        """Accepts the losses of a pipeline, which then continues without the lost batches."""
        for voter, batch in self._of(self._losses, pipeline):
            del self._losses[voter], self._logged[voter]
            log.warning("a query continues without what a sink has lost", extra={**asdict(voter), "batch": batch})

    def forget(self, pipeline: str) -> None:
        """Forgets a pipeline; its next run reports the votes in its checkpoint again."""
        for voter, run_id in list(self._open):
            if voter.pipeline == pipeline:
                del self._open[voter, run_id]
        for voter in [voter for voter in {*self._logged, *self._losses} if voter.pipeline == pipeline]:
            self._logged.pop(voter, None)
            self._losses.pop(voter, None)

    def logged(self, pipeline: str) -> list[tuple[Voter, int]]:
        """Returns the last vote of each instance whose batch is in a pipeline's commit log."""
        return sorted(self._of(self._logged, pipeline))

    def lost(self) -> list[tuple[Voter, int]]:
        """Returns the votes that instances have lost."""
        return sorted(self._losses.items())

    @staticmethod
    def _of(votes: dict[Voter, _T], pipeline: str) -> list[tuple[Voter, _T]]:
        return [(voter, vote) for voter, vote in votes.items() if voter.pipeline == pipeline]

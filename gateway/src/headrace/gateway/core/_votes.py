"""What instances of sinks have voted for and must have when they come back: the commit log promises it to whoever reads them."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TypeVar

import structlog

from headrace.gateway.core._bounds import MAX_VOTES, check_room
from headrace.gateway.core._errors import SinkLost
from headrace.gateway.core._sink_session import SinkSession
from headrace.gateway.core._transaction import Transaction

log = structlog.get_logger("headrace.gateway")

_T = TypeVar("_T")


@dataclass(frozen=True, order=True, slots=True)
class Voter:
    """An instance of a sink that a pipeline writes to."""

    pipeline: str
    sink: str
    instance: str


@dataclass(frozen=True, slots=True)
class _Cast:
    """A vote whose batch is not known to be in the commit log."""

    batch: int
    run: str


class Votes:
    """The last vote of each instance for each pipeline, and which of them an instance has come back without.

    A vote counts once its batch is in the commit log. An instance has it as long as it lists it as prepared, or as committed with
    any later one.
    """

    def __init__(self) -> None:
        self._cast: dict[Voter, _Cast] = {}
        self._logged: dict[Voter, int] = {}
        self._lost: dict[Voter, int] = {}

    def cast(self, transaction: Transaction, run: str, sink: str, instances: Iterable[str]) -> None:
        """Notes the votes for a transaction. What earlier runs were voted for, of its batch and of later ones, is void."""
        for voter, vote in self._of(self._cast, transaction.pipeline):
            if vote.run != run and vote.batch >= transaction.batch:
                del self._cast[voter]
        for instance in instances:
            self._cast[Voter(transaction.pipeline, sink, instance)] = _Cast(transaction.batch, run)

    def follow(self, pipeline: str, run: str, first_batch: int, committed: int) -> None:
        """Learns what is in a commit log: its last batch, and from which one on it is of the present run."""
        for voter, vote in self._of(self._cast, pipeline):
            is_of_this_run = vote.run == run
            if vote.batch <= committed and (is_of_this_run or vote.batch < first_batch):
                self._logged[voter] = vote.batch
                del self._cast[voter]
            elif vote.batch <= committed:
                del self._cast[voter]

    def adopt(self, pipeline: str, votes: Iterable[tuple[str, str, int]]) -> None:
        """Learns votes that this gateway was not there for: sink, instance, and a batch in the commit log.

        Raises:
            LimitExceeded: there are as many as may be.
        """
        for sink, instance, batch in votes:
            voter = Voter(pipeline, sink, instance)
            if voter not in self._lost:
                if voter not in self._logged:
                    check_room("votes of sinks", self._logged, MAX_VOTES)
                self._logged[voter] = max(batch, self._logged.get(voter, -1))

    def compare(self, session: SinkSession) -> int:
        """Looks whether an instance has what it voted for; returns in how many pipelines it has lost something just now."""
        voters = [v for v in self._logged if (v.sink, v.instance) == (session.hello.sink, session.instance)]
        return sum(self._compare(voter, session) for voter in voters)

    def compare_all(self, pipeline: str, session_of: Callable[[str, str], SinkSession | None]) -> list[str]:
        """Looks whether the instances that are there have what they voted for; returns the sinks that lost something just now."""
        sessions = [(voter, session_of(voter.sink, voter.instance)) for voter, _ in self._of(self._logged, pipeline)]
        return [voter.sink for voter, session in sessions if session is not None and self._compare(voter, session)]

    def _compare(self, voter: Voter, session: SinkSession) -> bool:
        """Whether an instance has lost what it voted for, and nobody knew that."""
        batch = self._logged[voter]
        if session.has(Transaction(voter.pipeline, batch)):
            self._lost.pop(voter, None)
            return False
        if voter in self._lost:
            return False
        self._lost[voter] = batch
        shows = session.visible.get(voter.pipeline)
        log.error("a sink has lost what it voted for", **asdict(voter), batch=batch, shows=shows)
        return True

    def check_kept(self, pipeline: str) -> None:
        """Checks that no instance has lost anything of a pipeline.

        Raises:
            SinkLost: one has.
        """
        for voter, batch in sorted(self._of(self._lost, pipeline)):
            raise SinkLost(
                f"instance {voter.instance} of sink {voter.sink} voted for batch {batch} of pipeline {pipeline}, which is in the "
                "commit log, and has come back without it"
            )

    def accept(self, pipeline: str) -> None:
        """Goes on without what was lost of a pipeline."""
        for voter, batch in self._of(self._lost, pipeline):
            del self._lost[voter], self._logged[voter]
            log.warning("a query goes on without what a sink has lost", **asdict(voter), batch=batch)

    def forget(self, pipeline: str) -> None:
        """Forgets a pipeline; the next of its runs tells again what its checkpoint has."""
        for voter in [voter for voter in {*self._cast, *self._logged, *self._lost} if voter.pipeline == pipeline]:
            self._cast.pop(voter, None)
            self._logged.pop(voter, None)
            self._lost.pop(voter, None)

    def logged(self, pipeline: str) -> list[tuple[Voter, int]]:
        """The last vote of each instance whose batch is in a pipeline's commit log."""
        return sorted(self._of(self._logged, pipeline))

    def lost(self) -> list[tuple[Voter, int]]:
        """The votes that instances have come back without."""
        return sorted(self._lost.items())

    @staticmethod
    def _of(votes: dict[Voter, _T], pipeline: str) -> list[tuple[Voter, _T]]:
        return [(voter, vote) for voter, vote in votes.items() if voter.pipeline == pipeline]

"""The commit log of a pipeline, as its current run reports it, and what it decides about transactions that sinks hold."""

from dataclasses import dataclass
from enum import Enum, auto

from headrace.contract.position import Position
from headrace.gateway.core.sinks.transaction import Transaction


class Decision(Enum):
    """The decision about a transaction that an instance holds."""

    OPEN = auto()
    """None yet."""
    COMMIT = auto()
    ABORT = auto()
    UNDECIDED = auto()
    """Its batch is in the commit log, and no segment names the run that committed it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive batches that one run committed."""

    run_id: str
    """The run's unique id; empty if it is not known."""
    first_batch: int
    last_batch: int


@dataclass(frozen=True, slots=True)
class CommitLog:
    """The commit log of a pipeline, as its current run reports it."""

    pipeline: str
    run_id: str
    """The current run's unique id, as its parts name it."""
    run_number: int
    """The current run's number; a run with a higher number replaces it."""
    first_batch: int
    """The first batch that the current run executes, as far as it is known."""
    committed: int
    """The last batch in the commit log; -1 for none."""
    readers: tuple[str, ...] = ()
    """The names under which the same query reads streams."""
    sinks: tuple[str, ...] = ()
    """The sinks that it concerns."""
    segments: tuple[Segment, ...] = ()
    """Which runs committed earlier batches, as far as that was reported."""
    closed: bool = False
    """Whether the commit log will not grow any more."""
    begun: int | None = None
    """The first batch of which the current run has delivered parts: those of other runs, of this and later batches, are void."""
    replaced: tuple[str, ...] = ()
    """The ids of earlier runs that this gateway has seen; the latest last."""
    awaited: tuple[str, ...] = ()
    """The sinks that must be attached before a batch is planned."""

    def decision(self, transaction: Transaction, run_ids: set[str], *, prepared: bool) -> Decision:
        """The decision about a transaction of which an instance holds parts of these runs.

        An instance that has prepared it and names no parts is assumed to hold what the commit log has.
        """
        batch = transaction.batch
        if batch > self.committed:
            left_over = bool(run_ids) and self.run_id not in run_ids and self.begun is not None and batch >= self.begun
            return Decision.ABORT if self.closed or left_over else Decision.OPEN
        if not prepared:
            return Decision.ABORT
        owner = self._owner(batch)
        if owner is None and run_ids:
            return Decision.UNDECIDED
        return Decision.COMMIT if not owner or not run_ids or owner in run_ids else Decision.ABORT

    def _owner(self, batch: int) -> str | None:
        """The id of the run that committed a batch; empty if it is unknown, None if it was not reported."""
        if batch >= self.first_batch:
            return self.run_id
        return next((s.run_id for s in self.segments if s.first_batch <= batch <= s.last_batch), None)


@dataclass(frozen=True, slots=True)
class VotedBatch:
    """A batch that a query's sinks have voted for, and what will prove that it was committed."""

    batch: int
    run_id: str
    planned: dict[str, dict[str, Position]]
    """Where the batch ends in the streams of each reader."""

"""The commit log of a pipeline, as its current run reports it, and its decisions about transactions that sinks hold."""

from dataclasses import dataclass
from enum import Enum, auto

from headrace.contract.position import Position
from headrace.gateway.core.sinks.transaction import Transaction


class Decision(Enum):
    """The decision about a transaction that an instance holds."""

    OPEN = auto()
    """Not decided yet."""
    COMMIT = auto()
    ABORT = auto()
    UNDECIDED = auto()
    """Its batch is in the commit log, but no segment names the run that committed it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive batches that one run committed."""

    run_id: str
    """The run's unique id; empty if unknown."""
    first_batch: int
    last_batch: int


@dataclass(frozen=True, slots=True)
class CommitLog:
    """The commit log of a pipeline, as its current run reports it."""

    pipeline: str
    run_id: str
    """The current run's unique id, as in the names of its attempts."""
    run_number: int
    """The current run's number; a run with a higher number replaces it."""
    first_batch: int
    """The first batch that the current run executes, as far as known."""
    committed: int
    """The last batch in the commit log; -1 for none."""
    readers: tuple[str, ...] = ()
    """The names under which the same query reads streams."""
    sinks: tuple[str, ...] = ()
    """The sinks that the query writes to, or wrote to earlier."""
    segments: tuple[Segment, ...] = ()
    """The runs that committed earlier batches, as far as reported."""
    closed: bool = False
    """Whether the commit log is final."""
    begun: int | None = None
    """The first batch for which the current run has delivered parts. For it and later batches, parts of other runs are void."""
    replaced: tuple[str, ...] = ()
    """The ids of earlier runs that this gateway has seen, ending with the latest."""
    awaited: tuple[str, ...] = ()
    """The sinks that must be attached before a batch is planned."""
    former: tuple[str, ...] = ()
    """Those of `sinks` that the query no longer writes to."""

    def decision(self, transaction: Transaction, run_ids: set[str], *, prepared: bool) -> Decision:
        """Returns the decision about a transaction of which an instance holds parts of these runs.

        An instance that has prepared it but lists no parts is assumed to hold the parts that the commit log refers to.
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
        """Returns the id of the run that committed a batch; empty if unknown, None if not reported."""
        named = next((s.run_id for s in self.segments if s.first_batch <= batch <= s.last_batch), None)
        return self.run_id if named is None and batch >= self.first_batch else named


@dataclass(frozen=True, slots=True)
class VotedBatch:
    """A batch that a query's sinks have voted for, and the positions that will prove that it was committed."""

    batch: int
    run_id: str
    planned: dict[str, dict[str, Position]]
    """Where the batch ends in the streams of each reader."""

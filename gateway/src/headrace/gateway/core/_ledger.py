"""What a pipeline's commit log says, as its present run tells it, and what that means for what sinks hold."""

from dataclasses import dataclass
from enum import Enum, auto

from headrace.gateway.core._position import Position
from headrace.gateway.core._transaction import Transaction


class Verdict(Enum):
    """What is decided of a transaction that an instance holds."""

    OPEN = auto()
    """Nothing yet."""
    COMMIT = auto()
    ABORT = auto()
    UNDECIDED = auto()
    """Its batch is in the commit log, and no segment tells which run committed it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Batches that one run committed, one after the other."""

    run: str
    """Its unique id; empty where it is not known."""
    first_batch: int
    last_batch: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a pipeline's commit log says, as its present run tells it."""

    pipeline: str
    run: str
    """The present run's unique id, as its parts name it."""
    number: int
    """The present run's number: runs of a higher number replace it."""
    first_batch: int
    """The first batch that the present run executes, as far as it is known."""
    committed: int
    """The last batch in the commit log; -1 for none."""
    readers: tuple[str, ...] = ()
    """The names under which the same query reads streams."""
    sinks: tuple[str, ...] = ()
    """The sinks that it concerns."""
    segments: tuple[Segment, ...] = ()
    """Which runs committed earlier batches, as far as they were told."""
    closed: bool = False
    """Whether the commit log will not grow any more."""
    begun: int | None = None
    """The first batch that the present run has delivered something of: what other runs left of it and of later ones is void."""
    replaced: tuple[str, ...] = ()
    """The runs that were present before, as far as this gateway has seen them; the latest last."""
    awaited: tuple[str, ...] = ()
    """The sinks without which no batch is planned."""

    def verdict(self, transaction: Transaction, runs: set[str], *, prepared: bool) -> Verdict:
        """What is decided of a transaction of which an instance holds parts of these runs.

        An instance that names no parts of what it has prepared is believed: it holds what the commit log has.
        """
        batch = transaction.batch
        if batch > self.committed:
            left_over = bool(runs) and self.run not in runs and self.begun is not None and batch >= self.begun
            return Verdict.ABORT if self.closed or left_over else Verdict.OPEN
        if not prepared:
            return Verdict.ABORT
        owner = self._owner(batch)
        if owner is None and runs:
            return Verdict.UNDECIDED
        return Verdict.COMMIT if not owner or not runs or owner in runs else Verdict.ABORT

    def _owner(self, batch: int) -> str | None:
        """The run that committed a batch; empty where nobody knows, None where it was not told."""
        if batch >= self.first_batch:
            return self.run
        return next((s.run for s in self.segments if s.first_batch <= batch <= s.last_batch), None)


@dataclass(frozen=True, slots=True)
class Voted:
    """A transaction that a query's sinks have voted for, and what will show that its batch was committed."""

    batch: int
    run: str
    planned: dict[str, dict[str, Position]]
    """Where the batch ends in the streams of each reader."""

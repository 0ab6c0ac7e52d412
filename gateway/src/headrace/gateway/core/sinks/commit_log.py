"""The commit log of a pipeline, as its current run reports it, and its decisions about transactions that sinks hold."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from headrace.gateway.core.base.errors import NotPermitted
from headrace.gateway.core.sinks.transaction import Transaction
from headrace.gateway.identity import Identity

MAX_QUERIES = 10_000
"""The maximum number of remembered queries. Running queries report every second, so only long-ended ones are forgotten."""


@dataclass(slots=True)
class QueryOwners:
    """The name of the token that first used each query. A rotated token keeps its name, and so its queries."""

    _names: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def claim(self, query: str, identity: Identity) -> None:
        """Makes the caller the owner of a query without one; otherwise checks that it is the owner.

        Raises:
            NotPermitted: the query belongs to another token.
        """
        owner = self._names.setdefault(query, identity.name)
        if owner != identity.name:
            raise NotPermitted(f"query {query} belongs to the token of {owner!r}, and this is the token of {identity.name!r}")
        self._names.move_to_end(query)
        if len(self._names) > MAX_QUERIES:
            self._names.popitem(last=False)


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
    """From here on, batches are the current run's if no segment names another one."""
    committed: int
    """The last batch in the commit log; -1 for none."""
    readers: tuple[str, ...] = ()
    """The names under which the same query reads streams."""
    sinks: tuple[str, ...] = ()
    """The sinks that the query writes to, or wrote to earlier."""
    segments: tuple[Segment, ...] = ()
    """The runs that committed batches, as far as reported."""
    closed: bool = False
    """Whether the commit log is final."""
    begun: int | None = None
    """The first batch for which the current run has delivered parts. Nothing prepares a part of
    another run for it and later batches."""
    replaced: tuple[str, ...] = ()
    """The ids of earlier runs that this gateway has seen, ending with the latest."""
    awaited: tuple[str, ...] = ()
    """The sinks that must be attached before a batch is planned."""
    former: tuple[str, ...] = ()
    """Those of `sinks` that the query no longer writes to."""
    stopped: bool = False
    """Whether the query was stopped: nobody waits for the deliveries and votes of the current run then."""

    def decision(self, transaction: Transaction, run_ids: set[str], *, prepared: bool) -> Decision:
        """Returns the decision about a transaction of which an instance holds parts of these runs.

        An instance that has prepared it but lists no parts is assumed to hold the parts that the commit log refers to. One that
        keeps what several runs have prepared apart keeps all of it until the commit log says whose it is: a run that was
        replaced may have written the entry.
        """
        batch = transaction.batch
        if batch > self.committed:
            left_over = bool(run_ids) and self.run_id not in run_ids and self.begun is not None and batch >= self.begun
            is_kept = prepared and bool(transaction.run)
            return Decision.ABORT if self.closed or (left_over and not is_kept) else Decision.OPEN
        if not prepared:
            return Decision.ABORT
        owner = self.owner(batch)
        if owner is None and run_ids:
            return Decision.UNDECIDED
        return Decision.COMMIT if not owner or not run_ids or owner in run_ids else Decision.ABORT

    def latest(self, run_ids: Iterable[str]) -> str:
        """Returns the run among these that this gateway has seen last; of others, the last one in byte order."""
        seen = (*self.replaced, self.run_id)
        return max(run_ids, key=lambda run: (seen.index(run) if run in seen else -1, run))

    def owner(self, batch: int) -> str | None:
        """Returns the id of the run that committed a batch; empty if unknown, None if not reported."""
        named = next((s.run_id for s in self.segments if s.first_batch <= batch <= s.last_batch), None)
        return self.run_id if named is None and batch >= self.first_batch else named

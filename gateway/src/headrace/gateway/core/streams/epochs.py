"""The epochs of a redelivering stream: the ones that this gateway has given, and whether one of another gateway is over.

A range of an epoch that is over is empty, since its messages are redelivered under a later one. The epoch of another gateway is
over once the connector reads for this one, whose acknowledgements alone it obeys then. A session proves that only by what it
sends in answer to what this gateway sent after it had heard of the epoch: a connector may have left without this gateway knowing.
"""

from dataclasses import dataclass, field
from typing import TypeVar

from headrace.contract import clock

T = TypeVar("T")

MAX_EPOCHS = 256
"""How many epochs of each kind are remembered for each stream; one that is forgotten costs its connector a redelivery."""


@dataclass(slots=True)
class Doubt:
    """Whether an epoch of another gateway is over.

    Attributes:
        since: When this gateway heard of the epoch, on the monotonic clock.
        sessions: The sessions that were asked since to open the stream again, by id.
    """

    since: float = field(default_factory=clock.monotonic)
    sessions: set[str] = field(default_factory=set)

    def is_settled_by(self, session: str, began_at: float) -> bool:
        """Returns whether a session that opens the stream has begun, or was asked to, since this gateway heard of the epoch."""
        return session in self.sessions or began_at > self.since


@dataclass(slots=True)
class Epochs:
    """What this gateway knows of a stream's epochs but the live one."""

    _own: dict[int, None] = field(default_factory=dict)
    _over: dict[int, None] = field(default_factory=dict)
    _doubts: dict[int, Doubt] = field(default_factory=dict)

    def give(self, epoch: int) -> None:
        """Notes that this gateway gives an epoch."""
        _keep(self._own, epoch, None)

    def is_over(self, epoch: int) -> bool:
        """Returns whether an epoch that is not live is over for certain."""
        return epoch in self._own or epoch in self._over

    def doubt(self, epoch: int) -> None:
        """Notes an epoch of which a batch is read here; if another gateway has given it, it may be live there."""
        if not self.is_over(epoch) and epoch not in self._doubts:
            _keep(self._doubts, epoch, Doubt())

    def settle(self, session: str, began_at: float) -> None:
        """Notes that a session opens the stream, which ends the epochs of other gateways that it answers to.

        Args:
            session: Its id.
            began_at: When it began, on the monotonic clock.
        """
        for epoch in [epoch for epoch, doubt in self._doubts.items() if doubt.is_settled_by(session, began_at)]:
            del self._doubts[epoch]
            _keep(self._over, epoch, None)

    def ask(self, session: str) -> bool:
        """Returns whether a session that has the stream must open it again, which it is asked once for each epoch."""
        unasked = [doubt for doubt in self._doubts.values() if session not in doubt.sessions]
        for doubt in unasked:
            doubt.sessions.add(session)
        return bool(unasked)


def _keep(epochs: dict[int, T], epoch: int, value: T) -> None:
    """Adds an epoch, and forgets the oldest of too many."""
    epochs[epoch] = value
    if len(epochs) > MAX_EPOCHS:
        del epochs[next(iter(epochs))]

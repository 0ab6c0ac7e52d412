"""Calls of engines that last until they are ended: a gateway that stops, or a token that is revoked, ends them."""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.gateway.core.errors import ProtocolError
from headrace.gateway.identity import Identity


@dataclass(slots=True, eq=False)
class LongCall:
    """A call that is in progress.

    Attributes:
        identity: Who calls.
        wake: Has the call look at its failure.
        failure: Why the call must end; None while it may go on.
    """

    identity: Identity
    wake: Callable[[], object]
    failure: ProtocolError | None = None

    def end(self, failure: ProtocolError) -> None:
        """Ends the call with an error."""
        self.failure = self.failure or failure
        self.wake()

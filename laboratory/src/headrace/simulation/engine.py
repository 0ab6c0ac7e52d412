"""What all parts of the driver's model share: how a query fails, and how it waits for a gateway that is away."""

import asyncio
import random
from dataclasses import dataclass

from headrace.contract.backoff import Backoff
from headrace.simulation.calls import CallFailed
from headrace.simulation.checkpoint import Checkpoint
from headrace.simulation.loop import Loop, Process
from headrace.simulation.network import Network
from headrace.simulation.oracle import Oracle
from headrace.simulation.record import Record
from headrace.simulation.schedule import Conditions, QueryPlan

FIRST_PAUSE_S = 0.02


class QueryFailed(Exception):
    """The query has failed; it is started again."""


@dataclass(frozen=True)
class Engine:
    """The surroundings of a run of a query."""

    query: QueryPlan
    bootstraps: str | None
    """The tables that it reads first, as the engine's option of this name."""
    checkpoint: Checkpoint
    conditions: Conditions
    network: Network
    record: Record
    oracle: Oracle
    process: Process
    random: random.Random

    @property
    def loop(self) -> Loop:
        """The loop."""
        return self.network.loop

    @property
    def streams(self) -> list[str]:
        """The patterns of the streams that the query reads."""
        return [f"{source}/*" for source in self.query.sources]

    def log(self, text: str) -> None:
        """Adds a line to the trace."""
        self.record.log(f"{self.process.name} {text}")


class Retry:
    """Waits for a gateway that is away: `headrace.engine.wire.retry.Retry` without a thread."""

    def __init__(self, engine: Engine, max_s: float) -> None:
        self._engine = engine
        self._backoff = Backoff(FIRST_PAUSE_S, max_s)
        self._since: float | None = None

    def reset(self) -> None:
        """Starts over: there was progress."""
        self._since = None
        self._backoff.reset()

    async def wait(self, error: CallFailed) -> None:
        """Waits before the next attempt.

        Raises:
            QueryFailed: There was no progress until the timeout.
        """
        now = self._engine.loop.now
        self._since = now if self._since is None else self._since
        left_s = self._since + self._engine.conditions.gateway_timeout_s - now
        if left_s <= 0:
            raise QueryFailed(f"gave up: {error}")
        await asyncio.sleep(min(self._backoff.next(), left_s))

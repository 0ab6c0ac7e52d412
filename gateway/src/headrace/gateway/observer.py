"""Observations of a gateway: a snapshot and what is wrong in it, shared by everybody who asks at about the same time.

A snapshot of few parts is that of one moment. That of many is taken in slices, and what follows from it is computed in a thread,
so that sessions do not wait.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from headrace.contract import clock
from headrace.gateway.core import ConnectorCounts, Gateway, Problem, problems
from headrace.gateway.core.status import note_trouble, snapshot
from headrace.gateway.degraded import Degraded
from headrace.protocol.v1.admin_pb2 import GetStatusResponse
from headrace.protocol.v1.admin_pb2 import Problem as ProblemMessage

MAX_PROBLEMS = 1_000
"""How many problems a status lists."""
MANY_PARTS = 100
"""Of so many streams, sessions, pipelines and sinks, a snapshot takes more than a millisecond."""


def _fresh_s(took_s: float) -> float:
    """Returns for how many seconds an observation is good enough: the gateway must have time for other things."""
    return max(1.0, 10 * took_s)


class Thresholds(Protocol):
    """After how long something is a problem, in milliseconds."""

    @property
    def stuck_after_ms(self) -> int:
        """Without a commit, a micro-batch is stuck."""

    @property
    def slow_after_ms(self) -> int:
        """Without an answer, a sink or a commit log is slow."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A snapshot and what is wrong in it."""

    status: GetStatusResponse
    problems: list[Problem]
    taken_at: datetime
    connectors: Sequence[ConnectorCounts] = ()
    degraded_s: Mapping[str, float] = field(default_factory=dict)
    """For how long each part has been degraded, in seconds, whatever the causes were."""

    @property
    def is_large(self) -> bool:
        """Whether it is large enough to be converted in a thread."""
        return _is_large(self.status)


class Observer:
    """Takes snapshots of a gateway, each for all that ask for it meanwhile."""

    def __init__(self, gateway: Gateway, config: Thresholds) -> None:
        """Creates an observer.

        Args:
            gateway: The gateway.
            config: After how long something is stuck or slow.
        """
        self._gateway = gateway
        self._config = config
        self._last: Observation | None = None
        self._taken = 0.0
        self._took = 0.0
        self._lock = asyncio.Lock()
        self._degraded = Degraded()

    async def observe(self) -> Observation:
        """Returns the last observation if it is younger than a second, or else a new one."""
        async with self._lock:
            last, age = self._last, clock.monotonic() - self._taken
            if last is None or age >= _fresh_s(self._took) or last.status.gateway.draining != self._gateway.draining:
                self._last = last = await self._observe()
            return last

    async def current(self) -> Observation:
        """Returns what is true now; of a gateway with many parts, what was true at most a second ago."""
        if _is_large(self._gateway):
            return await self.observe()
        taken_at = datetime.fromtimestamp(clock.now(), UTC)
        status, connectors = await snapshot(self._gateway), tuple(self._gateway.connectors.copied())
        return self._aged(_observation(status, self._config, taken_at, connectors))

    async def _observe(self) -> Observation:
        self._taken, taken_at = clock.monotonic(), datetime.fromtimestamp(clock.now(), UTC)
        status, connectors = await snapshot(self._gateway), tuple(self._gateway.connectors.copied())
        self._took = clock.monotonic() - self._taken
        if _is_large(status):
            return self._aged(await asyncio.to_thread(_observation, status, self._config, taken_at, connectors))
        return self._aged(_observation(status, self._config, taken_at, connectors))

    def _aged(self, observation: Observation) -> Observation:
        return replace(observation, degraded_s=self._degraded.update(observation.problems, clock.monotonic()))


def _is_large(parts: Gateway | GetStatusResponse) -> bool:
    """Returns whether a snapshot of this many parts takes a noticeable time."""
    return sum(map(len, (parts.streams, parts.sessions, parts.pipelines, parts.sinks, parts.sink_sessions))) >= MANY_PARTS


def _observation(
    status: GetStatusResponse, config: Thresholds, taken_at: datetime, connectors: Sequence[ConnectorCounts]
) -> Observation:
    found = problems(status, config.stuck_after_ms, config.slow_after_ms)
    status.problems.extend(_message(problem) for problem in found[:MAX_PROBLEMS])
    status.problems_in_all = len(found)
    note_trouble(status, found)
    return Observation(status, found, taken_at, connectors)


def _message(problem: Problem) -> ProblemMessage:
    return ProblemMessage(
        part=problem.part,
        kind=problem.kind,
        cause=problem.cause,
        root=problem.root or problem.part,
        age_ms=max(0, problem.age_ms),
        remedy=problem.remedy,
    )

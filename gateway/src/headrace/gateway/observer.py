"""Observations of a gateway: a snapshot and what is wrong in it, shared by everybody who asks at about the same time.

A snapshot of few parts shows one moment. A snapshot of many is taken in slices, and a thread computes its consequences,
so that sessions do not wait.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from headrace.contract import clock
from headrace.contract.units import milliseconds
from headrace.gateway.core import ConnectorCounts, Gateway, Problem, problems
from headrace.gateway.core.status import INTERVAL_S, FaultWatch, History, note_trouble, snapshot
from headrace.protocol.v1.admin_pb2 import GetStatusResponse
from headrace.protocol.v1.admin_pb2 import Problem as ProblemMessage

OF_THE_FLOW = ("stream", "connector", "source", "sink", "pipeline", "process")
"""The first words of the parts whose faults delay data."""
MAX_PROBLEMS = 1_000
"""How many problems a status lists."""
MANY_PARTS = 100
"""A snapshot takes more than a millisecond if streams, sessions, pipelines and sinks are at least this many."""


def _fresh_s(took_s: float) -> float:
    """Returns for how many seconds an observation is good enough: the gateway must have time for other things."""
    return max(1.0, 10 * took_s)


class Thresholds(Protocol):
    """After how long something is a problem, in seconds."""

    @property
    def stuck_after_seconds(self) -> float:
        """Without a commit, a micro-batch is stuck."""

    @property
    def slow_after_seconds(self) -> float:
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
        self._last_at = 0.0
        self._took = 0.0
        self._lock = asyncio.Lock()
        self._degraded = Degraded()

    async def observe(self) -> Observation:
        """Returns the last observation if it is younger than a second, or else a new one."""
        async with self._lock:
            last, age = self._last, clock.monotonic() - self._last_at
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
        self._last_at, taken_at = clock.monotonic(), datetime.fromtimestamp(clock.now(), UTC)
        status, connectors = await snapshot(self._gateway), tuple(self._gateway.connectors.copied())
        self._took = clock.monotonic() - self._last_at
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
    found = problems(status, milliseconds(config.stuck_after_seconds), milliseconds(config.slow_after_seconds))
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


class Degraded:
    """For how long each part has been degraded, whatever the causes were: a fault that changes its kind begins no new time."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def update(self, problems: Iterable[Problem], now: float) -> Mapping[str, float]:
        """Takes what is wrong now.

        Args:
            problems: The errors.
            now: When that was found, on the monotonic clock.

        Returns:
            For how long each part has been degraded, in seconds; what somebody has paused is not.
        """
        before, self._since = self._since, {}
        for problem in problems:
            if problem.is_fault:
                began = now - problem.age_ms / 1000
                self._since[problem.part] = min(began, before.get(problem.part, began))
        return {part: max(0.0, now - since) for part, since in self._since.items()}


def flow_s(degraded_s: Mapping[str, float]) -> float:
    """Returns for how long a part of the flow has been degraded, of all of them the longest; 0 if none is."""
    return max((seconds for part, seconds in degraded_s.items() if part.partition(" ")[0] in OF_THE_FLOW), default=0.0)


class Recording:
    """Records the history of a gateway, and when faults begin and end, as long as the gateway runs."""

    def __init__(self, gateway: Gateway, observer: Observer) -> None:
        self.history = History(gateway)
        self._observer = observer
        self._watch = FaultWatch(gateway.event_log)

    async def run(self) -> None:
        """Records until cancelled."""
        took_s = 0.0
        while True:
            # Of very many parts, a moment takes long: the gateway must have time for other things.
            await asyncio.sleep(max(INTERVAL_S, 10 * took_s))
            began = clock.monotonic()
            await self.take()
            took_s = clock.monotonic() - began

    async def take(self) -> None:
        """Records this moment."""
        observed = await self._observer.observe()
        self._watch.look(observed.problems)
        await self.history.take(sum(problem.is_fault for problem in observed.problems))

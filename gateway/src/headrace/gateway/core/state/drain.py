"""The drain of a gateway that stops: what it asks of its sessions, in which order, and for what it waits."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.contract import clock
from headrace.gateway.core.base.turns import Signal
from headrace.gateway.core.sinks import CommitLog, SinkSession
from headrace.gateway.core.streams import Session
from headrace.protocol.v1 import sink_pb2, source_pb2

STOPPING = "the gateway is stopping"
SINKS_SHARE = 0.2
"""The fraction of the drain timeout that is reserved for sinks, in case sources use up the rest."""
SILENCE_S = 3.0
"""After how many seconds without a report of its commit log a drain expects none from a driver, which reports each second."""


@dataclass(frozen=True)
class ReportedLogs:
    """The commit logs that drivers report.

    Attributes:
        by_pipeline: The commit log of each pipeline that writes to sinks, as last reported.
        reported_at: When each was last reported, on the monotonic clock.
        changed: Notified after each report.
    """

    by_pipeline: Mapping[str, CommitLog]
    reported_at: Mapping[str, float]
    changed: Signal

    async def until_committed(self, sessions: Mapping[str, SinkSession], deadline: float) -> None:
        """Waits for the commits of what sinks have prepared, until `deadline`, or while their drivers report."""
        loop = asyncio.get_running_loop()
        while (left := min(deadline - loop.time(), self._awaits_s(sessions))) > 0:
            await self.changed.wait(left)

    def _awaits_s(self, sessions: Mapping[str, SinkSession]) -> float:
        """Returns for how many seconds a report is worth waiting for; 0 if none is."""
        prepared = {transaction for session in sessions.values() for transaction in session.holdings.prepared}
        logs = {name: commit_log for name, commit_log in self.by_pipeline.items() if not commit_log.stopped}
        waiting = {each.pipeline for each in prepared if each.pipeline in logs and each.batch > logs[each.pipeline].committed}
        heard_at = [self.reported_at[name] for name in waiting]
        return max(0.0, max(heard_at) + SILENCE_S - clock.monotonic()) if heard_at else 0.0


@dataclass(frozen=True)
class Drain:
    """A drain of all sessions.

    Attributes:
        sessions: The sessions of sources, as they open and close.
        sink_sessions: The sessions of sinks.
        sessions_changed: Notified when a session has opened or closed.
        logs: The commit logs that drivers report.
    """

    sessions: Mapping[str, Session]
    sink_sessions: Mapping[str, SinkSession]
    sessions_changed: Signal
    logs: ReportedLogs

    async def run(self, timeout_ms: int) -> None:
        """Asks every session to end, and waits until all have, for at most `timeout_ms`.

        Sources end first: messages whose acknowledgement they await may still have to be written to sinks. What sinks have
        prepared becomes visible before they leave, if its driver reports the commit in time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        sources_ms = round(timeout_ms * (1 - SINKS_SHARE)) if self.sink_sessions else timeout_ms
        drain = source_pb2.Drain(deadline_ms=sources_ms, reason=STOPPING)
        for session in self.sessions.values():
            session.draining = True
            session.send(source_pb2.IngestResponse(drain=drain))
        await self._until_left(self.sessions, deadline - (timeout_ms - sources_ms) / 1000)
        await self.logs.until_committed(self.sink_sessions, (loop.time() + deadline) / 2)
        sink_drain = sink_pb2.SinkDrain(deadline_ms=max(0, round((deadline - loop.time()) * 1000)), reason=STOPPING)
        for sink_session in self.sink_sessions.values():
            sink_session.send(sink_pb2.SinkServiceAttachResponse(drain=sink_drain))
        await self._until_left(self.sessions, deadline)
        await self._until_left(self.sink_sessions, deadline)

    async def _until_left(self, sessions: Mapping[str, object], deadline: float) -> None:
        """Waits until all sessions have ended, or until `deadline` on the event loop's clock."""
        while sessions and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await self.sessions_changed.wait(left)

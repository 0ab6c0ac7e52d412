"""The deployments whose supervisors are registered, and what was requested of them.

All of it lasts as long as the supervisor's call. Requests of the same thing share one order, and its answer.
"""

import asyncio
import itertools
from collections import deque
from dataclasses import dataclass, field

from headrace.contract import clock
from headrace.gateway.core.base.errors import ChangeRefused, LimitExceeded, ProtocolError
from headrace.gateway.core.base.turns import Signal
from headrace.gateway.core.pipelines import Driver
from headrace.gateway.core.state.process_states import Processes
from headrace.gateway.identity import Identity
from headrace.protocol.v1 import admin_pb2 as pb

MAX_RESTARTS = 16
"""Restarts of a deployment that are in progress at a time."""
MAX_REPLAYS = 4
"""The same of replays. They may take long, and leave room for restarts."""
MAX_LOGS = 8
"""The same of logs that are read."""
MAX_LOST = 100
"""How many deployments are remembered whose supervisors have left without a word."""
SILENT_AFTER_S = 20.0
"""After how many seconds without a report a supervisor is silent: it is frozen, or its network is cut."""
LOST_FOR_S = 3_600.0
"""For how many seconds."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What to replay: the dead letters that a sink or step has refused, empty for all, under the name of a source."""

    source: str
    refused_by: str


@dataclass(frozen=True, slots=True)
class Supervised:
    """A connector of a deployment. A field that is not known, or does not apply, is empty.

    Attributes:
        instance: The instance in its sessions.
        replays: The sink whose dead letters can be replayed.
        source: The source whose streams it sends.
        sink: The sink that it serves.
        failure: Why its process does not run.
        failing_since: Since when it does not, on the monotonic clock; None if it runs.
        unconnected_since: Since when it has had no session, on the monotonic clock; None if it has one, or it is not known which.
    """

    instance: str
    replays: str = ""
    source: str = ""
    sink: str = ""
    failure: str = ""
    failing_since: float | None = None
    unconnected_since: float | None = None

    @property
    def session(self) -> tuple[str, str]:
        """The sink or source of its session, and the instance: the key of it among the connected ones."""
        return self.sink, self.instance


@dataclass(slots=True, eq=False)
class Order:
    """A restart, a replay or the reading of a log that was requested, and is not known to have ended."""

    connector: str
    """The connector; for a log, the process."""
    replay: Replay | None
    """What to replay; None for what is no replay."""
    lines: int | None
    """How many lines of a log to read; None for what is no log."""
    by: str
    outcome: "asyncio.Future[pb.OrderOutcome]"
    ordered_at: float = field(default_factory=clock.monotonic)
    """When it was requested, on the monotonic clock."""

    @property
    def action(self) -> str:
        """Its kind and name, for people."""
        if self.lines is not None:
            return "log"
        return "restart" if self.replay is None else "replay"

    @property
    def answered_by(self) -> str:
        """The field of an outcome that answers it, if it has not failed."""
        return {"restart": "restarted", "replay": "replayed", "log": "log"}[self.action]


@dataclass(slots=True, eq=False)
class Deployment:
    """A deployment whose supervisor is registered.

    Attributes:
        name: Its name.
        run: The run of its supervisor.
        peer: The address of the supervisor.
        identity: Who has registered it.
        connectors: Its connectors, by name.
        processes: Its processes, by name; None if its supervisor does not report them.
        file_fault: Why its file is invalid; empty if it is valid.
        file_fault_since: Since when, on the monotonic clock.
        connected: The process ids of its connected processes, by name.
        since: When it was registered, on the monotonic clock.
        reports: The reports of its supervisor about its processes; None if there was none since the hello.
        orders: The restarts, replays and logs in progress, by id.
        outgoing: The messages that the supervisor has yet to get. Bounded, since orders are.
        news: Notified when there is something to send, or a failure.
        failure: Why the call must end; None while it may continue.
        has_left: Whether its supervisor has taken leave.
    """

    name: str
    run: str
    peer: str
    identity: Identity
    connectors: dict[str, Supervised]
    processes: Processes | None = None
    file_fault: str = ""
    file_fault_since: float = 0.0
    connected: dict[str, int] = field(default_factory=dict)
    since: float = field(default_factory=clock.monotonic)
    reports: Driver | None = None
    orders: dict[int, Order] = field(default_factory=dict)
    outgoing: deque[pb.SuperviseResponse] = field(default_factory=deque)
    news: Signal = field(default_factory=Signal)
    failure: ProtocolError | None = None
    has_left: bool = False

    def heard(self) -> None:
        """Notes that its supervisor has reported its processes, which it does every few seconds."""
        self.reports = self.reports or Driver(SILENT_AFTER_S)
        self.reports.heard(self.peer)

    @property
    def silent_ms(self) -> int | None:
        """For how long its supervisor has been silent, in milliseconds; None if it is not, or never reports."""
        return None if self.reports is None else self.reports.silent_ms

    def end(self, failure: ProtocolError) -> None:
        """Ends the call with an error."""
        self.failure = self.failure or failure
        self.news.notify()


@dataclass(frozen=True, slots=True)
class LostSupervisor:
    """A deployment whose supervisor has left without a word.

    Attributes:
        deployment: The deployment as it was.
        lost_at: When its connection was lost, on the monotonic clock.
    """

    deployment: Deployment
    lost_at: float = field(default_factory=clock.monotonic)

    def status(self) -> pb.LostSupervisor:
        """Returns it as of now."""
        of = self.deployment
        connectors = [
            pb.SupervisedConnector(name=name, instance=one.instance, source=one.source, sink=one.sink)
            for name, one in sorted(of.connectors.items())
        ]
        pipelines = sorted({name for process in (of.processes or {}).values() for name in process.state.pipelines})
        lost_ms = max(0, int((clock.monotonic() - self.lost_at) * 1000))
        return pb.LostSupervisor(deployment=of.name, peer=of.peer, lost_ms=lost_ms, connectors=connectors, pipelines=pipelines)


class Deployments:
    """All deployments that are registered, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Deployment] = {}
        self.lost: dict[str, LostSupervisor] = {}
        """Those whose supervisors have left without a word, by name."""
        self.waiting = 0
        """How many callers wait for outcomes."""
        self._ids = itertools.count(1)

    def lose(self, deployment: Deployment) -> None:
        """Notes that the connection to a supervisor was lost. The oldest is forgotten if there are very many."""
        self.lost.pop(deployment.name, None)
        self.lost[deployment.name] = LostSupervisor(deployment)
        if len(self.lost) > MAX_LOST:
            del self.lost[next(iter(self.lost))]

    def absent(self) -> list[pb.LostSupervisor]:
        """Returns the deployments whose supervisors have left without a word, or are silent."""
        silent = [(one, one.silent_ms) for one in self.by_name.values()]
        found = [LostSupervisor(one, clock.monotonic() - ms / 1000) for one, ms in silent if ms is not None]
        return [one.status() for one in (*self.lost.values(), *found)]

    def forget_lost(self) -> None:
        """Forgets the supervisors that have been gone for an hour."""
        since = clock.monotonic() - LOST_FOR_S
        for name in [name for name, one in self.lost.items() if one.lost_at < since]:
            del self.lost[name]

    def order(
        self, deployment: Deployment, connector: str, by: str, replay: Replay | None = None, lines: int | None = None
    ) -> Order:
        """Requests a restart, a replay or a log, or joins the same one in progress.

        Raises:
            LimitExceeded: too many are in progress.
            ChangeRefused: another replay of the same connector is in progress.
        """
        order = Order(connector, replay, lines, by, asyncio.get_running_loop().create_future())
        same = [other for other in deployment.orders.values() if other.action == order.action]
        for other in same:
            if other.connector == connector and (other.replay, other.lines) == (replay, lines):
                return other
            if other.connector == connector and other.replay is not None:
                text = f"a replay of what {connector} has written is in progress, as source {other.replay.source}; wait for it"
                raise ChangeRefused(text)
        most = {"restart": MAX_RESTARTS, "replay": MAX_REPLAYS, "log": MAX_LOGS}[order.action]
        if len(same) >= most:
            what = f"{order.action}s"
            text = f"deployment {deployment.name} has {most} {what} in progress already; try again when they have ended"
            raise LimitExceeded(text, limit=what, maximum=most)
        # Whoever has requested it may have left.
        order.outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
        number = next(self._ids)
        deployment.orders[number] = order
        deployment.outgoing.append(_message(number, order))
        deployment.news.notify()
        return order


def _message(number: int, order: Order) -> pb.SuperviseResponse:
    if order.lines is not None:
        log = pb.LogOrder(id=number, process=order.connector, lines=order.lines, by=order.by)
        return pb.SuperviseResponse(log=log)
    if order.replay is None:
        return pb.SuperviseResponse(restart=pb.RestartOrder(id=number, connector=order.connector, by=order.by))
    replay = pb.ReplayOrder(
        id=number, connector=order.connector, source=order.replay.source, refused_by=order.replay.refused_by, by=order.by
    )
    return pb.SuperviseResponse(replay=replay)

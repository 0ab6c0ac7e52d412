"""The deployments whose supervisors are registered, and what was requested of them.

All of it lasts as long as the supervisor's call. Requests of the same thing share one order, and its answer.
"""

import asyncio
import itertools
from collections import deque
from dataclasses import dataclass, field

from headrace.contract import clock
from headrace.gateway.core.errors import ChangeRefused, LimitExceeded, ProtocolError
from headrace.gateway.core.signal import Signal
from headrace.gateway.identity import Identity
from headrace.protocol.v1 import admin_pb2 as pb

MOST_RESTARTS = 16
"""Restarts of a deployment that are in progress at a time."""
MOST_REPLAYS = 4
"""The same of replays. They may take long, and leave room for restarts."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What to replay: the dead letters that a sink or step has refused, empty for all, under the name of a source."""

    source: str
    refused_by: str


@dataclass(frozen=True, slots=True)
class Supervised:
    """A connector of a deployment. What is not known, or does not apply, is empty.

    Attributes:
        instance: The instance in its sessions.
        replays: The sink whose dead letters can be replayed.
        source: The source whose streams it sends.
        sink: The sink that it serves.
        failure: Why its process does not run.
        failing_since: Since when it does not, on the monotonic clock; None if it runs.
    """

    instance: str
    replays: str = ""
    source: str = ""
    sink: str = ""
    failure: str = ""
    failing_since: float | None = None


@dataclass(slots=True, eq=False)
class Order:
    """A restart or a replay that was requested, and is not known to have ended."""

    connector: str
    replay: Replay | None
    """None for a restart."""
    by: str
    outcome: "asyncio.Future[pb.OrderOutcome]"
    ordered_at: float = field(default_factory=clock.monotonic)
    """When it was requested, on the monotonic clock."""

    @property
    def action(self) -> str:
        """What it is, for people."""
        return "restart" if self.replay is None else "replay"


@dataclass(slots=True, eq=False)
class Deployment:
    """A deployment whose supervisor is registered.

    Attributes:
        name: Its name.
        run: The run of its supervisor.
        peer: The address of the supervisor.
        identity: Who has registered it.
        connectors: Its connectors, by name.
        since: When it was registered, on the monotonic clock.
        orders: The restarts and replays in progress, by id.
        outgoing: What was not sent to the supervisor yet. Bounded, since orders are.
        news: Notified when there is something to send, or a failure.
        failure: Why the call must end; None while it may go on.
    """

    name: str
    run: str
    peer: str
    identity: Identity
    connectors: dict[str, Supervised]
    since: float = field(default_factory=clock.monotonic)
    orders: dict[int, Order] = field(default_factory=dict)
    outgoing: deque[pb.SuperviseResponse] = field(default_factory=deque)
    news: Signal = field(default_factory=Signal)
    failure: ProtocolError | None = None

    def end(self, failure: ProtocolError) -> None:
        """Ends the call with an error."""
        self.failure = self.failure or failure
        self.news.notify()


class Deployments:
    """All deployments that are registered, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Deployment] = {}
        self.waiting = 0
        """How many callers wait for outcomes."""
        self._ids = itertools.count(1)

    def order(self, deployment: Deployment, connector: str, by: str, replay: Replay | None = None) -> Order:
        """Requests a restart or a replay, or joins the same one in progress.

        Raises:
            LimitExceeded: too many are in progress.
            ChangeRefused: another replay of the same connector is in progress.
        """
        same = [order for order in deployment.orders.values() if order.action == ("restart" if replay is None else "replay")]
        for order in same:
            if order.connector == connector and order.replay == replay:
                return order
            if order.connector == connector:
                assert order.replay is not None
                text = f"a replay of what {connector} has written is in progress, as source {order.replay.source}; wait for it"
                raise ChangeRefused(text)
        what, most = ("restarts", MOST_RESTARTS) if replay is None else ("replays", MOST_REPLAYS)
        if len(same) >= most:
            text = f"deployment {deployment.name} has {most} {what} in progress already; try again when they have ended"
            raise LimitExceeded(text, limit=what, maximum=most)
        order = Order(connector, replay, by, asyncio.get_running_loop().create_future())
        # Whoever has requested it may have left.
        order.outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
        number = next(self._ids)
        deployment.orders[number] = order
        deployment.outgoing.append(_message(number, order))
        deployment.news.notify()
        return order


def _message(number: int, order: Order) -> pb.SuperviseResponse:
    if order.replay is None:
        return pb.SuperviseResponse(restart=pb.RestartOrder(id=number, connector=order.connector, by=order.by))
    replay = pb.ReplayOrder(
        id=number, connector=order.connector, source=order.replay.source, refused_by=order.replay.refused_by, by=order.by
    )
    return pb.SuperviseResponse(replay=replay)

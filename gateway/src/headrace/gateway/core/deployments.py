"""The deployments whose supervisors are registered, and what was requested of them.

All of it lasts as long as the supervisor's call. Requests for the same connector share one order, and its answer.
"""

import asyncio
import itertools
import time
from collections import deque
from dataclasses import dataclass, field

from headrace.gateway.core.errors import LimitExceeded, ProtocolError
from headrace.gateway.core.signal import Signal
from headrace.gateway.identity import Identity
from headrace.protocol.v1 import admin_pb2 as pb

MOST_ORDERS = 16
"""Restarts of a deployment that are in progress at a time."""


@dataclass(slots=True, eq=False)
class Order:
    """A restart that was requested, and is not known to have ended."""

    connector: str
    by: str
    outcome: "asyncio.Future[pb.RestartedConnector]"


@dataclass(slots=True, eq=False)
class Deployment:
    """A deployment whose supervisor is registered.

    Attributes:
        name: Its name.
        run: The run of its supervisor.
        peer: The address of the supervisor.
        identity: Who has registered it.
        connectors: The instance of each connector, by the connector's name.
        since: When it was registered, on the monotonic clock.
        orders: The restarts in progress, by id.
        outgoing: What was not sent to the supervisor yet. Bounded, since orders are.
        news: Notified when there is something to send, or a failure.
        failure: Why the call must end; None while it may go on.
    """

    name: str
    run: str
    peer: str
    identity: Identity
    connectors: dict[str, str]
    since: float = field(default_factory=time.monotonic)
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
        """How many callers wait for restarts."""
        self._ids = itertools.count(1)

    def order(self, deployment: Deployment, connector: str, by: str) -> Order:
        """Requests a restart, or joins the one in progress.

        Raises:
            LimitExceeded: too many are in progress.
        """
        for order in deployment.orders.values():
            if order.connector == connector:
                return order
        if len(deployment.orders) >= MOST_ORDERS:
            text = f"deployment {deployment.name} has {MOST_ORDERS} restarts in progress already; try again when they have ended"
            raise LimitExceeded(text, limit="restarts", maximum=MOST_ORDERS)
        order = Order(connector, by, asyncio.get_running_loop().create_future())
        # Whoever has requested it may have left.
        order.outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
        number = next(self._ids)
        deployment.orders[number] = order
        deployment.outgoing.append(pb.SuperviseResponse(restart=pb.RestartOrder(id=number, connector=connector, by=by)))
        deployment.news.notify()
        return order

"""One call of a deployment to its gateway, and the requests that arrive in it."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from headrace.deploy.gateway import Metadata
from headrace.deploy.link_messages import outcome_message
from headrace.deploy.plan import Listed
from headrace.deploy.process import SupervisedProcess
from headrace.deploy.replays import Replay
from headrace.protocol.v1 import admin_pb2 as pb

MAX_REQUESTS = 16
"""How many requests of the gateway are taken that are not answered."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How to call a gateway.

    Attributes:
        dial: Opens a channel, which the link closes.
        metadata: Returns what to send with the next call, whose token may have been replaced.
        may_register: Returns whether the gateway would let the deployment register, as far as is known.
    """

    dial: Callable[[], grpc.Channel]
    metadata: Callable[[], Metadata]
    may_register: Callable[[], bool] = lambda: True


Reach = Callable[[str], Reached | None]
"""Returns how to call the gateway at an address; None if it uses TLS, and no authority to trust is configured."""


@dataclass(eq=False)
class LinkRequest:
    """A restart that the gateway requests, as a request to `Restarts`; or a replay, as one to `Replays`.

    Attributes:
        name: The connector.
        by: Who requests it, as the gateway says.
        replay: What to replay of what the connector has written; None for a restart.
    """

    name: str
    by: str
    replay: Replay | None
    _id: int
    _call: "Call" = field(repr=False)
    _answered: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is not answered yet, and the call lasts that it has come from."""
        return not self._answered and not self._call.is_over

    def is_checked(self, one: SupervisedProcess) -> bool:
        """Returns whether the gateway checks that the connector has a session: it does if it knows what the connector serves."""
        return bool(one.role.serves)

    def answer(self, document: Mapping[str, Any]) -> None:
        """Sends the answer in the call that the request has come from; another gateway, or run of it, would not know it."""
        if not self._answered:
            self._answered = True
            self._call.room.release()
        self._call.send(pb.SuperviseRequest(outcome=outcome_message(self._id, document, is_restart=self.replay is None)))


class Call:
    """One call, from the hello to its end."""

    def __init__(self, hello: pb.SuperviseHello, connectors: Mapping[str, Listed]) -> None:
        """Takes the hello, and the connectors that it lists."""
        self.connectors = connectors
        """The last report of connectors to the gateway."""
        self.is_over = False
        self.room = threading.Semaphore(MAX_REQUESTS)
        """How many more requests may wait for their answers."""
        self._outgoing: queue.Queue[pb.SuperviseRequest | None] = queue.Queue(2 * MAX_REQUESTS)
        self._outgoing.put(pb.SuperviseRequest(hello=hello))
        self.call: Any = None

    def requests(self) -> Iterator[pb.SuperviseRequest]:
        """Yields what is sent, until the call is over."""
        while (request := self._outgoing.get()) is not None:
            yield request

    def send(self, request: pb.SuperviseRequest) -> None:
        """Sends a message. Ends the call if the gateway takes none: the next one begins with all that is known."""
        try:
            self._outgoing.put_nowait(request)
        except queue.Full:
            self.end()

    def leave(self) -> None:
        """Tells the gateway that nothing more comes: it ends the call, and does not take this supervisor for lost."""
        self.is_over = True
        self._send_last(pb.SuperviseRequest(goodbye=pb.SuperviseGoodbye()))
        self._send_last(None)

    def end(self) -> None:
        """Ends the call, and with it the thread of gRPC that sends."""
        self.is_over = True
        try:
            if self.call is not None:
                self.call.cancel()
        finally:
            self._send_last(None)

    def _send_last(self, request: pb.SuperviseRequest | None) -> None:
        """Sends a message, or that none comes, in place of others if there is no room."""
        while True:
            try:
                self._outgoing.put_nowait(request)
                return
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._outgoing.get_nowait()

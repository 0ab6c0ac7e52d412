"""The call by which a deployment registers at its gateway, which then sends it what is requested there.

The call has a thread of its own, so that the supervisor never waits for the gateway. Whatever happens to the call, the deployment
runs on: at worst, connectors are restarted only by commands on this machine.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import grpc

from headrace.contract.backoff import Backoff
from headrace.deploy.control import refusal
from headrace.deploy.gateway import REFUSED_FOR_S, Metadata
from headrace.deploy.logs import last_lines
from headrace.deploy.plan import Listed
from headrace.deploy.replays import Replay
from headrace.deploy.reports import ProcessReport
from headrace.deploy.supervised import Supervised
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

MOST_REQUESTS = 16
"""How many requests of the gateway are taken that are not answered."""
LONGEST_FAILURE = 300
"""How much of a connector's failure is sent: the gateway shows no more."""
REPORT_EVERY_S = 5.0
"""How often processes are reported that have not changed, for the sake of their memory."""
LEAST_BETWEEN_REPORTS_S = 0.5
MOST_LINES = 1_000
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
LOOK_FOR_TOKEN_S = 0.5
_CLOSES_WITHIN_S = 5.0
_REFUSED = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
_NOT_ALLOWED = (grpc.StatusCode.PERMISSION_DENIED, "the token of the supervisor does not have the right supervise")
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL)
"""What is not told. gRPC reports INTERNAL in place of a refusal before the hello went out; the next call shows which."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How to call a gateway.

    Attributes:
        channel: The channel, which the link closes.
        metadata: Returns what to send with the next call, whose token may have been replaced.
        may_register: Returns whether the gateway would let the deployment register, as far as is known.
    """

    channel: grpc.Channel
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
    _call: "_Call" = field(repr=False)
    _answered: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is not answered yet, and the call lasts that it has come from."""
        return not self._answered and not self._call.is_over

    def is_checked(self, one: Supervised) -> bool:
        """Returns whether the gateway checks that the connector has a session: it does if it knows what the connector serves."""
        return bool(one.role.serves)

    def answer(self, document: Mapping[str, Any]) -> None:
        """Sends the answer in the call that the request has come from; another gateway, or run of it, would not know it."""
        if not self._answered:
            self._answered = True
            self._call.room.release()
        self._call.send(pb.SuperviseRequest(outcome=_outcome(self._id, document, is_restart=self.replay is None)))


class _Call:
    """One call, from the hello to its end."""

    def __init__(self, hello: pb.SuperviseHello) -> None:
        self.is_over = False
        self.room = threading.Semaphore(MOST_REQUESTS)
        """How many more requests may wait for their answers."""
        self._outgoing: queue.Queue[pb.SuperviseRequest | None] = queue.Queue(2 * MOST_REQUESTS)
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

    def end(self) -> None:
        """Ends the call, and with it the thread of gRPC that sends."""
        self.is_over = True
        if self.call is not None:
            self.call.cancel()
        while True:
            try:
                self._outgoing.put_nowait(None)
                return
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._outgoing.get_nowait()


class GatewayLink:
    """Registers a deployment at its gateway for as long as it runs. No method waits for the gateway."""

    def __init__(self, deployment: str, run: str, reach: Reach | None, tell: Callable[[str], None]) -> None:
        """Calls nobody yet.

        Args:
            deployment: The name of the deployment.
            run: The run of the supervisor.
            reach: Returns how to call the gateway at an address; None for a deployment that does not register.
            tell: Called with lines for people, on the thread that calls `requests`.
        """
        self._deployment = deployment
        self._run = run
        self._reach = reach
        self._tell = tell
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._reached: Reached | None = None
        self._connectors: Mapping[str, Listed] = {}
        self._reports: Sequence[ProcessReport] = ()
        self._reported: Sequence[ProcessReport] = ()
        self._reported_at = float("-inf")
        self._call: _Call | None = None
        self._restarts: queue.Queue[LinkRequest] = queue.Queue(MOST_REQUESTS)
        self._replays: queue.Queue[LinkRequest] = queue.Queue(MOST_REQUESTS)
        self._news: queue.Queue[str] = queue.Queue(MOST_REQUESTS)
        self._told: str | None = None

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the call, and waits for its thread."""
        self._closed.set()
        with self._lock:
            if self._call is not None:
                self._call.end()
        if self._thread is not None:
            self._thread.join(_CLOSES_WITHIN_S)
        if self._reached is not None:
            self._reached.channel.close()

    def update(self, address: str | None, connectors: Mapping[str, Listed]) -> None:
        """Registers once the gateway's address is known, and again when the connectors change.

        Args:
            address: The address; None until it is known.
            connectors: What to tell of each connector, by its name.
        """
        if address is None or self._reach is None:
            return
        changed = connectors != self._connectors
        with self._lock:
            self._connectors = dict(connectors)
            call = self._call
        if self._thread is None:
            self._start(self._reach(address))
        elif changed and call is not None:
            call.send(pb.SuperviseRequest(connectors=_listed(connectors)))

    def report(self, reports: Sequence[ProcessReport], now: float) -> None:
        """Tells the gateway of the processes: of a change soon, and otherwise every few seconds.

        Args:
            reports: All processes.
            now: The time on the clock of the reports.
        """
        with self._lock:
            self._reports, call = reports, self._call
        changed = [one.without_memory() for one in reports] != [one.without_memory() for one in self._reported]
        if call is not None and now - self._reported_at >= (LEAST_BETWEEN_REPORTS_S if changed else REPORT_EVERY_S):
            self._reported, self._reported_at = reports, now
            call.send(pb.SuperviseRequest(processes=_processes(reports)))

    def requests(self) -> list[LinkRequest]:
        """Returns the restarts that were requested since the last call."""
        for line in _taken(self._news):
            self._tell(line)
        return [request for request in _taken(self._restarts) if request.is_open]

    def replays(self) -> list[LinkRequest]:
        """Returns the replays that were requested since the last call."""
        return [request for request in _taken(self._replays) if request.is_open]

    def _start(self, reached: Reached | None) -> None:
        self._reached = reached
        self._thread = threading.Thread(target=self._keep_registered, name="gateway-link", daemon=True)
        if self._reached is None:
            self._say("the gateway uses TLS, and no authority to trust is given")
            self._closed.set()
        self._thread.start()

    def _keep_registered(self) -> None:
        backoff = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S)
        while self._reached is not None and not self._closed.is_set():
            sent = self._reached.metadata()
            code: grpc.StatusCode | None
            code, details = _NOT_ALLOWED
            if self._reached.may_register():
                code, details = self._register(backoff)
            if code is grpc.StatusCode.ABORTED:
                # To register again would only take turns with the other one.
                self._say(f"another supervisor has taken over: {details}")
                return
            is_replaced = code is grpc.StatusCode.UNAUTHENTICATED and self._reached.metadata() != sent
            if code not in _AWAY and not is_replaced:
                self._say(details)
            self._closed.wait(backoff.next())
            if code in _REFUSED:
                self._wait_for_another_token(sent)

    def _wait_for_another_token(self, refused: Metadata) -> None:
        """Waits until the token is another one, and for a minute at most: the token may have got the right by then."""
        assert self._reached is not None
        until = time.monotonic() + REFUSED_FOR_S
        while time.monotonic() < until and self._reached.metadata() == refused and not self._closed.wait(LOOK_FOR_TOKEN_S):
            pass

    def _register(self, backoff: Backoff) -> tuple[grpc.StatusCode | None, str]:
        """Makes one call, and takes what arrives until it ends. Returns how it has ended."""
        assert self._reached is not None
        with self._lock:
            if self._closed.is_set():
                return grpc.StatusCode.CANCELLED, ""
            listed = _listed(self._connectors)
            processes = _processes(self._reports)
            hello = pb.SuperviseHello(deployment=self._deployment, run=self._run, connectors=listed, processes=processes)
            call = self._call = _Call(hello)
            stub = AdminServiceStub(self._reached.channel)
            call.call = stub.Supervise(call.requests(), metadata=self._reached.metadata())
        try:
            for response in call.call:
                if response.HasField("welcome"):
                    backoff.reset()
                    self._told = None
                elif response.HasField("restart"):
                    self._take(call, response.restart, None)
                elif response.HasField("replay"):
                    self._take(call, response.replay, Replay(response.replay.source, response.replay.refused_by or None))
                elif response.HasField("log"):
                    self._send_log(call, response.log)
        except grpc.RpcError as error:
            return (error.code(), error.details() or "") if isinstance(error, grpc.Call) else (None, str(error))
        finally:
            with self._lock:
                self._call = None
            call.end()
        return grpc.StatusCode.UNAVAILABLE, ""

    def _take(self, call: _Call, order: pb.RestartOrder | pb.ReplayOrder, replay: Replay | None) -> None:
        if call.room.acquire(blocking=False):
            with contextlib.suppress(queue.Full):
                arrived = self._restarts if replay is None else self._replays
                arrived.put_nowait(LinkRequest(order.connector, order.by, replay, order.id, call))
                return
            call.room.release()
        refused = refusal(f"the deployment has {MOST_REQUESTS} requests to answer already; try again later")
        call.send(pb.SuperviseRequest(outcome=_outcome(order.id, refused, is_restart=replay is None)))

    def _send_log(self, call: _Call, order: pb.LogOrder) -> None:
        """Answers with the end of a log. This thread reads it, so that the supervisor does not wait for a slow disk."""
        with self._lock:
            path = next((one.log for one in self._reports if one.role.name == order.process), None)
        if path is None:
            kind, error = pb.ORDER_FAILURE_KIND_UNKNOWN_CONNECTOR, f"the deployment has no process {order.process}"
            call.send(pb.SuperviseRequest(outcome=pb.OrderOutcome(id=order.id, failure=pb.OrderFailure(kind=kind, error=error))))
            return
        try:
            log = pb.ProcessLog(lines=last_lines(path, min(order.lines, MOST_LINES)), path=str(path))
            outcome = pb.OrderOutcome(id=order.id, log=log)
        except OSError as error:
            failure = pb.OrderFailure(
                kind=pb.ORDER_FAILURE_KIND_FAILED, error=f"{path} cannot be read: {error.strerror or error}"
            )
            outcome = pb.OrderOutcome(id=order.id, failure=failure)
        call.send(pb.SuperviseRequest(outcome=outcome))

    def _say(self, why: str) -> None:
        """Says once why connectors are not restarted by the gateway."""
        line = f"no connector can be restarted by the gateway: {why}"
        if line != self._told and not self._news.full():
            self._told = line
            self._news.put_nowait(line)


def _taken(arrived: "queue.Queue[Any]") -> list[Any]:
    """Takes all that is in a queue."""
    return [arrived.get_nowait() for _ in range(arrived.qsize())]


def _processes(reports: Sequence[ProcessReport]) -> pb.SupervisedProcesses:
    now = time.monotonic()
    return pb.SupervisedProcesses(processes=[one.message(now) for one in reports])


def _listed(connectors: Mapping[str, Listed]) -> pb.SupervisedConnectors:
    return pb.SupervisedConnectors(
        connectors=[
            pb.SupervisedConnector(
                name=name,
                instance=one.instance,
                replays=one.replays,
                source=one.source,
                sink=one.sink,
                failure=one.failure[:LONGEST_FAILURE],
            )
            for name, one in connectors.items()
        ]
    )


def _outcome(number: int, document: Mapping[str, Any], *, is_restart: bool) -> pb.OrderOutcome:
    """Converts an answer of `Restarts` or `Replays`."""
    if not document["ok"]:
        if document["made"]:
            kind = pb.ORDER_FAILURE_KIND_FAILED
        elif document["invalid"]:
            kind = pb.ORDER_FAILURE_KIND_UNKNOWN_CONNECTOR
        else:
            kind = pb.ORDER_FAILURE_KIND_REFUSED
        return pb.OrderOutcome(id=number, failure=pb.OrderFailure(kind=kind, error=document["error"]))
    result = document["result"]
    duration_ms = round(result["seconds"] * 1000)
    if not is_restart:
        return pb.OrderOutcome(id=number, replayed=pb.ReplayedDeadLetters(pid=result["pid"], duration_ms=duration_ms))
    restarted = pb.RestartedConnector(
        pid=result["pid"],
        stopped_pid=result["stopped_pid"],
        stopped_exit_code=result["stopped_exit_code"],
        duration_ms=duration_ms,
        ended=result["state"] == "ended",
    )
    return pb.OrderOutcome(id=number, restarted=restarted)

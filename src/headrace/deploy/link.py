"""The call by which a deployment registers at its gateway, which then sends it what is requested there.

The call has a thread of its own, so that the supervisor never waits for the gateway. Whatever happens to the call, the deployment
runs on: at worst, connectors are restarted only by commands on this machine.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import grpc

from headrace.contract.backoff import Backoff
from headrace.contract.names import SUPERVISOR
from headrace.contract.redial import Redial
from headrace.deploy.backoff import FIRST_WAIT_S, MAX_WAIT_S
from headrace.deploy.comfort import Comfort
from headrace.deploy.control import refusal
from headrace.deploy.file_watch import FileFault
from headrace.deploy.gateway import REFUSED_FOR_S, Metadata
from headrace.deploy.link_call import MAX_REQUESTS, Call, LinkRequest, Reach, Reached
from headrace.deploy.link_messages import connectors_message, outcome_message, pids, processes_message
from headrace.deploy.logs import last_lines
from headrace.deploy.patient_disk import PatientDisk
from headrace.deploy.plan import Listed
from headrace.deploy.replays import Replay
from headrace.deploy.reports import ProcessReport
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

REPORT_EVERY_S = 5.0
"""How often processes are reported that have not changed, for the sake of their memory."""
MIN_BETWEEN_REPORTS_S = 0.5
MAX_LINES = 1_000
LOOK_FOR_TOKEN_S = 0.5
_LEAVES_WITHIN_S = 1.0
_CLOSES_WITHIN_S = 5.0
_REFUSED = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
_NOT_ALLOWED = (grpc.StatusCode.PERMISSION_DENIED, "the token of the supervisor does not have the right supervise")
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL)
"""Statuses that nobody needs to hear of: the link tries again. A refusal before the hello went out is INTERNAL in gRPC."""


class GatewayLink:
    """Registers a deployment at its gateway for as long as it runs. No method waits for the gateway."""

    def __init__(
        self, deployment: str, run: str, reach: Reach | None, tell: Callable[[str], None], *, log: Path | None = None
    ) -> None:
        """Calls nobody yet.

        Args:
            deployment: The name of the deployment.
            run: The run of the supervisor.
            reach: Returns how to call the gateway at an address; None for a deployment that does not register.
            tell: Called with lines for people, on the thread that calls `requests`.
            log: The log of the supervisor itself; None if it has none.
        """
        self._deployment = deployment
        self._run = run
        self._reach = reach
        self._tell = tell
        self._log = log
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._reached: Reached | None = None
        self._channel: Redial[grpc.Channel] | None = None
        self._connectors: Mapping[str, Listed] = {}
        self._reports: Sequence[ProcessReport] = ()
        self._reported: tuple[list[ProcessReport], FileFault | None] = [], None
        self._reported_at = float("-inf")
        self._call: Call | None = None
        self._restarts: queue.Queue[LinkRequest] = queue.Queue(MAX_REQUESTS)
        self._replays: queue.Queue[LinkRequest] = queue.Queue(MAX_REQUESTS)
        self._news: queue.Queue[str] = queue.Queue(MAX_REQUESTS)
        self.file_fault: FileFault | None = None
        """Why the deployment's file is invalid, for the next report."""
        self._last_line: str | None = None
        self._comfort = Comfort(tell)
        self._disk = PatientDisk()
        self._connected: Mapping[str, int] | None = None if reach is None else {}

    @property
    def connected(self) -> Mapping[str, int] | None:
        """The process ids of the processes that the gateway sees connected, by name; None if it does not tell."""
        return self._connected

    @property
    def fault(self) -> str | None:
        """Why the deployment is not registered at the gateway, where that needs somebody; None if it is, or soon will be."""
        return self._last_line

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Takes leave of the gateway, and waits for the thread; ends the call if the gateway does not."""
        self._closed.set()
        self._comfort.do("say goodbye to the gateway", self._leave_call, None)
        if self._thread is not None:
            self._thread.join(_LEAVES_WITHIN_S)
        self._comfort.do("end the call to the gateway", self._end_call, None)
        if self._thread is not None:
            self._thread.join(_CLOSES_WITHIN_S)
        self._disk.close()
        channel = None if self._channel is None else self._channel.forget()
        if channel is not None:
            self._comfort.do("close the channel to the gateway", channel.close, None)

    def _leave_call(self) -> None:
        with self._lock:
            if self._call is not None:
                self._call.leave()

    def _end_call(self) -> None:
        with self._lock:
            if self._call is not None:
                self._call.end()

    def update(self, address: str | None, connectors: Mapping[str, Listed]) -> None:
        """Registers once the gateway's address is known, and again when the connectors change.

        Args:
            address: The address; None until it is known.
            connectors: What to tell of each connector, by its name.
        """
        if address is None or self._reach is None:
            return
        with self._lock:
            self._connectors = dict(connectors)
            call = self._call
        if self._thread is None:
            self._start(self._reach, address)
        elif call is not None and call.connectors != connectors:
            call.send(pb.SuperviseRequest(connectors=connectors_message(connectors)))
            call.connectors = dict(connectors)

    def report(self, reports: Sequence[ProcessReport], now: float) -> None:
        """Tells the gateway of the processes: of a change soon, and otherwise every few seconds.

        Args:
            reports: All processes.
            now: The time on the clock of the reports.
        """
        with self._lock:
            self._reports, call = reports, self._call
        told = [one.without_memory() for one in reports], self.file_fault
        changed = told != self._reported
        if call is not None and now - self._reported_at >= (MIN_BETWEEN_REPORTS_S if changed else REPORT_EVERY_S):
            call.send(pb.SuperviseRequest(processes=processes_message(reports, self.file_fault)))
            self._reported, self._reported_at = told, now

    def requests(self) -> list[LinkRequest]:
        """Returns the restarts that were requested since the last call."""
        for line in _all_of(self._news):
            self._tell(line)
        return [request for request in _all_of(self._restarts) if request.is_open]

    def replays(self) -> list[LinkRequest]:
        """Returns the replays that were requested since the last call."""
        return [request for request in _all_of(self._replays) if request.is_open]

    def _start(self, reach: Reach, address: str) -> None:
        """Starts the thread. Whatever fails is tried again with the next update."""
        if self._reached is None:
            self._reached = reach(address)
        if self._reached is None:
            self._say("the gateway uses TLS, and no authority to trust is given")
            self._closed.set()
        elif self._channel is None:
            self._channel = Redial(self._reached.dial)
        thread = threading.Thread(target=self._keep_registered, name="gateway-link", daemon=True)
        thread.start()
        self._thread = thread

    def _keep_registered(self) -> None:
        """Registers again and again, also after a fault that nobody has foreseen: it would end the thread silently."""
        backoff, faults = Backoff(FIRST_WAIT_S, MAX_WAIT_S), Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        while self._reached is not None and not self._closed.is_set():
            try:
                if not self._register_once(self._reached, backoff):
                    return
                faults.reset()
            except Exception as error:
                # With a backoff of its own: a call that is welcomed each time resets the other one.
                self._say(f"{_chain_text(error)}; this is tried again")
                self._closed.wait(faults.next())

    def _register_once(self, reached: Reached, backoff: Backoff) -> bool:
        """Makes one call, and waits until the next one is due. Returns whether there is to be one."""
        sent = reached.metadata()
        code: grpc.StatusCode | None
        code, details = _NOT_ALLOWED
        if reached.may_register():
            code, details = self._register(reached, backoff)
        if code is grpc.StatusCode.ABORTED:
            # To register again would only take turns with the other one.
            self._say(f"another supervisor has taken over: {details}")
            return False
        is_replaced = code is grpc.StatusCode.UNAUTHENTICATED and reached.metadata() != sent
        if code not in _AWAY and not is_replaced:
            self._say(details)
        if code in _AWAY and self._channel is not None and (replaced := self._channel.failed()) is not None:
            replaced.close()
        self._closed.wait(backoff.next())
        if code in _REFUSED:
            self._wait_for_another_token(reached, sent)
        return True

    def _wait_for_another_token(self, reached: Reached, refused: Metadata) -> None:
        """Waits until the token is another one, and for a minute at most: the token may have got the right by then."""
        until = time.monotonic() + REFUSED_FOR_S
        while time.monotonic() < until and reached.metadata() == refused and not self._closed.wait(LOOK_FOR_TOKEN_S):
            pass

    def _register(self, reached: Reached, backoff: Backoff) -> tuple[grpc.StatusCode | None, str]:
        """Makes one call, and takes what arrives until it ends. Returns how it has ended."""
        with self._lock:
            if self._closed.is_set():
                return grpc.StatusCode.CANCELLED, ""
            listed = connectors_message(self._connectors)
            processes = processes_message(self._reports, self.file_fault)
            hello = pb.SuperviseHello(deployment=self._deployment, run=self._run, connectors=listed, processes=processes)
            call = Call(hello, self._connectors)
            assert self._channel is not None, "the thread begins with it"
            stub = AdminServiceStub(self._channel.current())
            call.call = stub.Supervise(call.requests(), metadata=reached.metadata())
            self._call = call
        try:
            for response in call.call:
                if response.HasField("welcome"):
                    backoff.reset()
                    self._last_line = None
                    self._connected = pids(response.welcome.connected) if response.welcome.HasField("connected") else None
                elif response.HasField("connected"):
                    self._connected = pids(response.connected)
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
            # The next call tells.
            self._connected = {}
            call.end()
        return grpc.StatusCode.UNAVAILABLE, ""

    def _take(self, call: Call, order: pb.RestartOrder | pb.ReplayOrder, replay: Replay | None) -> None:
        if call.room.acquire(blocking=False):
            with contextlib.suppress(queue.Full):
                arrived = self._restarts if replay is None else self._replays
                arrived.put_nowait(LinkRequest(order.connector, order.by, replay, order.id, call))
                return
            call.room.release()
        refused = refusal(f"the deployment has {MAX_REQUESTS} requests to answer already; try again later")
        call.send(pb.SuperviseRequest(outcome=outcome_message(order.id, refused, is_restart=replay is None)))

    def _send_log(self, call: Call, order: pb.LogOrder) -> None:
        """Answers with the end of a log. Neither the supervisor nor this thread, which takes requests, waits for a slow disk."""
        with self._lock:
            path = next((one.log for one in self._reports if one.role.name == order.process), None)
        if order.process == SUPERVISOR:
            path = self._log
        if path is None:
            kind, error = pb.ORDER_FAILURE_KIND_UNKNOWN_CONNECTOR, f"the deployment has no process {order.process}"
            call.send(pb.SuperviseRequest(outcome=pb.OrderOutcome(id=order.id, failure=pb.OrderFailure(kind=kind, error=error))))
            return
        try:
            lines = self._disk.ask(partial(last_lines, path, min(order.lines, MAX_LINES)))
            log = pb.ProcessLog(lines=lines, path=str(path))
            outcome = pb.OrderOutcome(id=order.id, log=log)
        except OSError as error:
            failure = pb.OrderFailure(
                kind=pb.ORDER_FAILURE_KIND_FAILED, error=f"{path} cannot be read: {error.strerror or error}"
            )
            outcome = pb.OrderOutcome(id=order.id, failure=failure)
        call.send(pb.SuperviseRequest(outcome=outcome))

    def _say(self, why: str) -> None:
        """Says once why connectors are not restarted by the gateway."""
        self._connected = None
        line = f"no connector can be restarted by the gateway: {why}"
        if line != self._last_line and not self._news.full():
            self._last_line = line
            self._news.put_nowait(line)


def _chain_text(error: BaseException) -> str:
    """Names an error, after the one that was being handled when it was raised."""
    said = f"{type(error).__name__}: {error}"
    return said if error.__context__ is None else f"{_chain_text(error.__context__)}; then {said}"


def _all_of(arrived: "queue.Queue[Any]") -> list[Any]:
    """Takes all that is in a queue."""
    return [arrived.get_nowait() for _ in range(arrived.qsize())]

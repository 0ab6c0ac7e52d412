"""Requests restarts, replays and logs of the deployments that are registered, and waits for their answers."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.contract import clock
from headrace.contract.limits import MAX_NAME_BYTES
from headrace.contract.names import SUPERVISOR, covers, is_name
from headrace.gateway.core.base.errors import ChangeRefused, LimitExceeded, MalformedMessage, OrderPending
from headrace.gateway.core.control.control import Caller, audited, checked, unknown
from headrace.gateway.core.state import LOG_LINES, MAX_LOG_LINES, Deployment, Gateway, Order, Replay, Supervised
from headrace.protocol.v1 import admin_pb2 as pb

MAX_WAITING = 256
"""Callers that wait for outcomes at a time."""
WAITS_MS = 60_000
MAX_WAIT_MS = 300_000
"""How long a caller may wait for an outcome, in milliseconds."""


async def restart_connector(
    gateway: Gateway, caller: Caller, connector: str, deployment: str = "", timeout_ms: int | None = None
) -> pb.RestartConnectorResponse:
    """Restarts a connector of a deployment, and waits until it has a session again; or an application, or a Spark program.

    The restart continues if the caller leaves. If the supervisor names what the connector serves, its word is no success: the
    gateway must have a session of the connector that was opened after the request.

    Args:
        gateway: The gateway.
        caller: Who requests it.
        connector: The name of its process in its deployment.
        deployment: The deployment; empty if only one has such a process.
        timeout_ms: How long to wait, in milliseconds; None for 60,000.

    Raises:
        MalformedMessage: a name or the time is not valid.
        UnknownPart: no registered deployment has the connector.
        ChangeRefused: several deployments have a connector of this name, the deployment refuses, or the gateway drains.
        LimitExceeded: too many restarts are in progress.
        OrderFailed: the connector was restarted, and has failed.
        SupervisorAway: the deployment has left before it answered.
        OrderPending: there was no answer, or no session, in time.
    """
    with audited(caller, "restart", f"connector {connector}"):
        wait_ms = _wait_ms(timeout_ms)
        _check_serving(gateway, "what is restarted could not connect")
        among = _registered(gateway, caller, deployment)
        checked(connector)
        having = [one for one in among if connector in _restartable(one)]
        if not having:
            every = {name for one in among for name in _restartable(one)}
            raise unknown("process", connector, every, caller, of=f" of {_of(deployment)}")
        found = _only(caller, having, f"process {connector} runs in")
        _check_waiting(gateway)
        supervised = found.connectors.get(connector)
        order = gateway.deployments.order(found, connector, f"{caller.name} ({caller.peer})")
    due_at = clock.monotonic() + wait_ms / 1000
    outcome = await _outcome(gateway, found, order, wait_ms)
    made = outcome.restarted
    if supervised is not None and (supervised.source or supervised.sink) and not made.ended:
        with _waiting(gateway):
            left_s = due_at - clock.monotonic()
            is_connected = await has_session_since(gateway, supervised, order.ordered_at, left_s)
        if not is_connected:
            text = f"deployment {found.name} has restarted {connector} as process {made.pid}, and it has no session; see its log"
            raise OrderPending(text)
    return pb.RestartConnectorResponse(deployment=found.name, restarted=made)


def _restartable(deployment: Deployment) -> set[str]:
    """The connectors, applications and Spark programs of a deployment, by the names of their processes."""
    queries = (pb.PROCESS_KIND_APPLICATION, pb.PROCESS_KIND_QUERY)
    return {*deployment.connectors, *(name for name, one in (deployment.processes or {}).items() if one.state.kind in queries)}


async def replay_dead_letters(
    gateway: Gateway, caller: Caller, sink: str, replay: Replay, deployment: str = "", timeout_ms: int | None = None
) -> pb.ReplayDeadLettersResponse:
    """Has a deployment send the messages of the dead letters of a sink again, and waits until all are acknowledged.

    The replay continues if the caller leaves.

    Args:
        gateway: The gateway.
        caller: Who requests it.
        sink: The sink that has taken the dead letters.
        replay: Which of them, and under the name of which source.
        deployment: The deployment; empty if only one can replay them.
        timeout_ms: How long to wait, in milliseconds; None for 60,000.

    Raises:
        MalformedMessage: a name or the time is not valid.
        UnknownPart: no registered deployment can replay them.
        ChangeRefused: several can, no pipeline reads the source, another replay is in progress, the deployment refuses, or the
            gateway drains.
        LimitExceeded: too many replays are in progress.
        OrderFailed: the replay has failed.
        SupervisorAway: the deployment has left before it answered.
        OrderPending: there was no answer in time.
    """
    with audited(caller, "replay", f"dead letters of sink {sink} as source {replay.source}"[: 3 * MAX_NAME_BYTES]):
        wait_ms = _wait_ms(timeout_ms)
        _check_serving(gateway, "nothing can be sent")
        if not is_name(checked(replay.source)):
            raise MalformedMessage(f"source {replay.source!r}: a source has letters, digits and ._- only")
        if len(replay.refused_by) > 2 * MAX_NAME_BYTES or not all(map(str.isprintable, replay.refused_by)):
            raise MalformedMessage("refused_by is no name of a sink, and no step such as application/step")
        among = _registered(gateway, caller, deployment)
        found, connector = _that_replays(caller, among, checked(sink), deployment)
        _check_read(gateway, caller, replay.source)
        _check_waiting(gateway)
        order = gateway.deployments.order(found, connector, f"{caller.name} ({caller.peer})", replay)
    outcome = await _outcome(gateway, found, order, wait_ms)
    return pb.ReplayDeadLettersResponse(deployment=found.name, connector=connector, replayed=outcome.replayed)


async def read_log(
    gateway: Gateway, caller: Caller, process: str, deployment: str = "", lines: int = 0, timeout_ms: int | None = None
) -> pb.ReadLogResponse:
    """Reads the last lines of the log of a process of a deployment.

    Args:
        gateway: The gateway.
        caller: Who requests it.
        process: The name of the process in its deployment; `supervisor` for its supervisor.
        deployment: The deployment; empty if only one has such a process.
        lines: How many lines; 0 for 100.
        timeout_ms: How long to wait, in milliseconds; None for 60,000.

    Raises:
        MalformedMessage: a name, the number of lines or the time is not valid.
        UnknownPart: no registered deployment reports the process.
        ChangeRefused: several do.
        LimitExceeded: too many logs are being read.
        OrderFailed: the log cannot be read.
        SupervisorAway: the deployment has left before it answered.
        OrderPending: there was no answer in time.
    """
    with audited(caller, "read log", f"process {process}"[: 2 * MAX_NAME_BYTES]):
        wait_ms = _wait_ms(timeout_ms)
        if lines > MAX_LOG_LINES or lines < 0:
            raise MalformedMessage(f"lines is {lines}; read 1 to {MAX_LOG_LINES} lines")
        among = _registered(gateway, caller, deployment)
        checked(process)
        having = [one for one in among if process == SUPERVISOR or process in (one.processes or {})]
        if not having:
            every = {name for one in among for name in one.processes or {}}
            raise unknown("process", process, every, caller, of=f" of {_of(deployment)}")
        found = _only(caller, having, f"process {process} runs in")
        _check_waiting(gateway)
        by = f"{caller.name} ({caller.peer})"
        order = gateway.deployments.order(found, process, by, lines=lines or LOG_LINES)
    outcome = await _outcome(gateway, found, order, wait_ms)
    return pb.ReadLogResponse(deployment=found.name, log=outcome.log)


def _wait_ms(timeout_ms: int | None) -> int:
    """Returns how long a caller waits."""
    if timeout_ms is not None and not 0 < timeout_ms <= MAX_WAIT_MS:
        raise MalformedMessage(f"timeout_ms is {timeout_ms}; wait for 1 to {MAX_WAIT_MS} ms")
    return WAITS_MS if timeout_ms is None else timeout_ms


def _check_serving(gateway: Gateway, otherwise: str) -> None:
    if gateway.draining:
        raise ChangeRefused(f"the gateway drains, so that {otherwise}")


def _check_waiting(gateway: Gateway) -> None:
    if gateway.deployments.waiting >= MAX_WAITING:
        raise LimitExceeded(f"{MAX_WAITING} callers wait for restarts, replays and logs already; try again when they have ended")


def _check_read(gateway: Gateway, caller: Caller, source: str) -> None:
    """Checks that a pipeline reads the streams of a source, one for each file: what nobody reads is never acknowledged."""
    patterns = sorted({pattern for pipeline in gateway.pipelines.values() for pattern in pipeline.patterns})
    if not any(covers(pattern, f"{source}/*.jsonl") for pattern in patterns):
        reads = f"pipelines read {caller.named(patterns)}" if patterns else "there is no pipeline"
        raise ChangeRefused(f"no pipeline reads {source}/*, so that a replay as source {source} would never end; {reads}")


async def _outcome(gateway: Gateway, deployment: Deployment, order: Order, wait_ms: int) -> pb.OrderOutcome:
    with _waiting(gateway):
        done, _ = await asyncio.wait({order.outcome}, timeout=wait_ms / 1000)
    if not done:
        text = f"no answer of deployment {deployment.name} within {wait_ms} ms; the {order.action} of {order.connector} continues"
        raise OrderPending(text)
    failure = order.outcome.exception()
    if failure is not None:
        # One error for each caller: the end of a call takes its error apart.
        raise type(failure)(str(failure))
    return order.outcome.result()


@contextmanager
def _waiting(gateway: Gateway) -> Iterator[None]:
    """Counts a caller that waits."""
    gateway.deployments.waiting += 1
    try:
        yield
    finally:
        gateway.deployments.waiting -= 1


def _registered(gateway: Gateway, caller: Caller, name: str) -> list[Deployment]:
    """Returns the registered deployment of a name, or all without a name."""
    known = gateway.deployments.by_name
    if name and name not in known:
        raise unknown("registered deployment", name[:MAX_NAME_BYTES], known, caller)
    return [known[name]] if name else list(known.values())


def _that_replays(caller: Caller, among: list[Deployment], sink: str, deployment: str) -> tuple[Deployment, str]:
    """Returns the deployment and the connector that have written the dead letters of a sink."""

    def writers(does: Callable[[Supervised], bool]) -> list[tuple[Deployment, str]]:
        return [(one, name) for one in among for name, connector in one.connectors.items() if does(connector)]

    having = writers(lambda connector: connector.replays == sink)
    if not having:
        every = {one.connectors[name].replays for one, name in writers(lambda connector: bool(connector.replays))}
        raise unknown("sink", sink, every, caller, of=f" whose dead letters {_of(deployment)} can replay")
    found = _only(caller, [one for one, _ in having], f"the dead letters of sink {sink} are in")
    if len(having) > 1:
        names = caller.named(sorted(name for _, name in having))
        raise ChangeRefused(
            f"connectors {names} of deployment {found.name} serve sink {sink}; run headrace dead-letters replay-files for each"
        )
    return having[0]


def _of(deployment: str) -> str:
    return f"deployment {deployment}" if deployment else "a registered deployment"


def _only(caller: Caller, having: list[Deployment], what: str) -> Deployment:
    names = sorted({one.name for one in having})
    if len(names) > 1:
        raise ChangeRefused(f"{what} several deployments, {caller.named(names)}; name one of them")
    return having[0]


async def has_session_since(gateway: Gateway, connector: Supervised, since: float, timeout_s: float) -> bool:
    """Waits for a session of a connector's instance that was opened after a time, and still lasts.

    Args:
        gateway: The gateway.
        connector: The connector, which serves a source or a sink.
        since: The time, on the monotonic clock.
        timeout_s: How long to wait, in seconds.

    Returns:
        Whether there is one; False if there is none in time.
    """
    deadline = clock.monotonic() + timeout_s
    while not _has_session(gateway, connector, since):
        left = deadline - clock.monotonic()
        if left <= 0 or not await gateway.sessions_changed.wait(left):
            return _has_session(gateway, connector, since)
    return True


def _has_session(gateway: Gateway, connector: Supervised, since: float) -> bool:
    if connector.sink:
        serving = [session for session in gateway.sink_sessions.values() if session.hello.sink == connector.sink]
        opened = [session.opened_at for session in serving if session.instance == connector.instance]
    else:
        opened = [session.opened_at for session in gateway.sessions.values() if session.instance == connector.instance]
    return any(at > since for at in opened)

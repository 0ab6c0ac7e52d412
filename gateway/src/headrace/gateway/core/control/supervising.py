"""Registers the supervisors of deployments, and takes their answers to what was requested of them."""

import logging
from collections.abc import Mapping, Sequence, Sized
from dataclasses import replace

from headrace.contract import clock
from headrace.contract.counts import counted
from headrace.contract.limits import MAX_NAME_BYTES
from headrace.contract.names import is_name
from headrace.gateway.core.base.bounds import check_count, check_length, check_room
from headrace.gateway.core.base.errors import (
    ChangeRefused,
    LimitExceeded,
    MalformedMessage,
    NotPermitted,
    OrderFailed,
    ProtocolError,
    Superseded,
    SupervisorAway,
    UnknownPart,
)
from headrace.gateway.core.control.connected import look_for_connected, sessions_of
from headrace.gateway.core.control.control import listed
from headrace.gateway.core.state import (
    MAX_AGE_MS,
    MAX_PROCESSES_IN_ALL,
    Deployment,
    EventKind,
    Gateway,
    Order,
    Processes,
    Supervised,
    checked_processes,
    kept_log,
    line_of,
)
from headrace.gateway.identity import Identity
from headrace.protocol.v1 import admin_pb2 as pb

MAX_DEPLOYMENTS = 100
"""Deployments that are registered at a time."""
MAX_CONNECTORS = 1_000
"""Connectors of a deployment."""
MAX_CONNECTORS_IN_ALL = 2_000
"""Connectors of all deployments, since a status lists them all."""
_MAX_ERROR = 500
_MAX_FAILURE = 300
"""Of a connector: a status has all of them."""

log = logging.getLogger("headrace.gateway.control")


def register(gateway: Gateway, hello: pb.SuperviseHello, peer: str, identity: Identity) -> Deployment:
    """Registers a deployment. An older call of the same deployment ends.

    Raises:
        MalformedMessage: a name is not valid.
        LimitExceeded: there are too many connectors, or deployments.
        NotPermitted: the token does not allow the deployment, or another token has registered it.
    """
    name = check_length("deployment in SuperviseHello", hello.deployment)
    if not name or not name.isprintable() or "/" in name:
        text = f"deployment {name!r} in SuperviseHello: a name has 1 to {MAX_NAME_BYTES} bytes, all printable, and no slash"
        raise MalformedMessage(text)
    if not identity.may_supervise(name):
        allowed = listed(identity.supervise)
        text = f"the token of {identity.name!r} does not allow deployment {name!r}; its supervise covers {allowed}"
        raise NotPermitted(text)
    if not check_length("run in SuperviseHello", hello.run):
        raise MalformedMessage("SuperviseHello without a run; name each start of the supervisor differently")
    known = gateway.deployments.by_name
    older = known.get(name)
    connectors = _checked(hello.connectors.connectors, {} if older is None else older.connectors)
    _check_in_all(gateway, connectors, name)
    processes = checked_processes(hello.processes) if hello.HasField("processes") else None
    _check_processes_in_all(gateway, processes, name)
    if older is None:
        check_room("deployments", known, MAX_DEPLOYMENTS)
    elif older.identity.name != identity.name:
        text = f"deployment {name} is registered with the token of {older.identity.name!r}, not of {identity.name!r}"
        raise NotPermitted(text)
    else:
        leave(gateway, older)
        older.end(Superseded(f"deployment {name}: run {hello.run} has registered in place of run {older.run}"))
    gateway.deployments.lost.pop(name, None)
    deployment = known[name] = Deployment(name, hello.run, peer, identity, connectors, processes)
    _note_file(deployment, hello.processes)
    look_for_connected(gateway, deployment, sessions_of(gateway))
    gateway.event_log.add(EventKind.ATTACHED, f"deployment {name}", f"run {hello.run} from {peer}")
    log.info("deployment registered", extra={"deployment": name, "run": hello.run, "by": identity.name, "peer": peer})
    return deployment


def replace_connectors(gateway: Gateway, deployment: Deployment, connectors: pb.SupervisedConnectors) -> None:
    """Takes over a new list of connectors.

    Raises:
        MalformedMessage: a name is not valid.
        LimitExceeded: there are too many.
    """
    replaced = _checked(connectors.connectors, deployment.connectors)
    _check_in_all(gateway, replaced, deployment.name)
    deployment.connectors = replaced


def replace_processes(gateway: Gateway, deployment: Deployment, processes: pb.SupervisedProcesses) -> None:
    """Takes over what a supervisor reports of its processes. That of one whose call is over has no effect on its successor's.

    Raises:
        MalformedMessage: a name, kind or state is not valid.
        LimitExceeded: there are too many.
    """
    replaced = checked_processes(processes)
    _check_processes_in_all(gateway, replaced, deployment.name)
    for name, process in replaced.items():
        known = (deployment.processes or {}).get(name)
        if known is not None and process.state.restarts > known.state.restarts:
            reason = f": {process.state.reason}" if process.state.reason else ""
            often = "once" if process.state.restarts == 1 else f"{process.state.restarts} times"
            text = f"by its supervisor, {often} by now{reason}"
            gateway.event_log.add(EventKind.RESTARTED, f"process {name} of {deployment.name}", text)
    deployment.processes = replaced
    _note_file(deployment, processes)
    look_for_connected(gateway, deployment, sessions_of(gateway))
    deployment.heard()


def _note_file(deployment: Deployment, reported: pb.SupervisedProcesses) -> None:
    """Notes whether the deployment's file is invalid, and why."""
    deployment.file_fault = line_of(reported.file_fault, _MAX_ERROR)
    deployment.file_fault_since = clock.monotonic() - min(reported.file_fault_age_ms, MAX_AGE_MS) / 1000


def _check_processes_in_all(gateway: Gateway, processes: Processes | None, name: str) -> None:
    """Checks that the processes of a deployment, with the other deployments', are not too many."""
    others = sum(len(other.processes or ()) for other in gateway.deployments.by_name.values() if other.name != name)
    if others + len(processes or ()) > MAX_PROCESSES_IN_ALL:
        text = (
            f"deployment {name} with {counted(len(processes or ()), 'process')}: the other deployments have {others}, and all "
            f"together at most {MAX_PROCESSES_IN_ALL}"
        )
        raise LimitExceeded(text, limit="processes of all deployments", maximum=MAX_PROCESSES_IN_ALL)


def _check_in_all(gateway: Gateway, connectors: Sized, name: str) -> None:
    """Checks that the connectors of a deployment, with the other deployments', are not too many."""
    others = sum(len(other.connectors) for other in gateway.deployments.by_name.values() if other.name != name)
    if others + len(connectors) > MAX_CONNECTORS_IN_ALL:
        text = (
            f"deployment {name} with {counted(len(connectors), 'connector')}: the other deployments have {others}, and all "
            f"together at most {MAX_CONNECTORS_IN_ALL}"
        )
        raise LimitExceeded(text, limit="connectors of all deployments", maximum=MAX_CONNECTORS_IN_ALL)


def _checked(connectors: Sequence[pb.SupervisedConnector], before: Mapping[str, Supervised]) -> dict[str, Supervised]:
    """Returns what a supervisor reports of its connectors, by name, given what was known of them."""
    check_count("connectors of a deployment", connectors, MAX_CONNECTORS)
    found = {}
    for one in connectors:
        if not is_name(check_length("name of a connector", one.name)):
            raise MalformedMessage(f"connector {one.name!r}: a connector's name may contain letters, digits and ._- only")
        if one.name in found:
            raise MalformedMessage(f"connector {one.name} is listed twice; each connector of a deployment has another name")
        for what, name in (("replays", one.replays), ("serves source", one.source), ("serves sink", one.sink)):
            if name and not is_name(check_length(f"name of what a connector {what.split()[0]}", name)):
                raise MalformedMessage(f"connector {one.name} {what} {name!r}: such a name has letters, digits and ._- only")
        known = before.get(one.name)
        since = None if known is None else known.failing_since
        found[one.name] = Supervised(
            instance=check_length("instance of a connector", one.instance),
            replays=one.replays,
            source=one.source,
            sink=one.sink,
            failure=line_of(one.failure, _MAX_FAILURE),
            failing_since=(since or clock.monotonic()) if one.failure else None,
            unconnected_since=_unconnected_since(one, known),
        )
    return found


def _unconnected_since(one: pb.SupervisedConnector, earlier: Supervised | None) -> float | None:
    if not (one.instance and (one.source or one.sink)):
        return None
    same = earlier is not None and (earlier.sink, earlier.instance) == (one.sink, one.instance)
    return earlier.unconnected_since if earlier is not None and same else clock.monotonic()


def look_for_sessions(gateway: Gateway) -> None:
    """Notes which processes of deployments are connected, and since when the other connectors have no session."""
    connected = sessions_of(gateway)
    for deployment in gateway.deployments.by_name.values():
        for name, one in deployment.connectors.items():
            if not (one.instance and (one.source or one.sink)):
                continue
            if one.session in connected:
                deployment.connectors[name] = replace(one, unconnected_since=None)
            elif one.unconnected_since is None:
                deployment.connectors[name] = replace(one, unconnected_since=clock.monotonic())
        look_for_connected(gateway, deployment, connected)


def leave(gateway: Gateway, deployment: Deployment, *, is_lost: bool = False) -> None:
    """Forgets a deployment, and fails the orders that it has not answered.

    Args:
        gateway: The gateway.
        deployment: The deployment.
        is_lost: Whether its supervisor has left without a word.
    """
    if gateway.deployments.by_name.get(deployment.name) is deployment:
        del gateway.deployments.by_name[deployment.name]
        how = "was lost" if is_lost else "has left"
        gateway.event_log.add(EventKind.DETACHED, f"deployment {deployment.name}", f"run {deployment.run} {how}")
        if is_lost:
            gateway.deployments.lose(deployment)
    for order in deployment.orders.values():
        not_known = {
            "restart": f", so that it is not known whether {order.connector} is restarted; headrace status shows its sessions",
            "replay": f", so that it is not known whether {order.connector} has replayed its dead letters; headrace status shows "
            "its sessions",
            "log": f", and without it nobody can read the log of {order.connector}",
        }[order.action]
        _fail(order, SupervisorAway(f"deployment {deployment.name} has left before it answered{not_known}"))
        event, part = f"{order.action} not answered", _part_of(order)
        log.warning(event, extra={"part": part, "deployment": deployment.name, "by": order.by})
    deployment.orders.clear()


def take_outcome(gateway: Gateway, deployment: Deployment, outcome: pb.OrderOutcome) -> None:
    """Takes the answer to an order. One to an order that is not known, or was answered already, has no effect.

    Raises:
        MalformedMessage: it does not say what has happened, has too many lines, or is the answer to another kind of order.
    """
    kind = outcome.WhichOneof("outcome")
    if kind is None:
        raise MalformedMessage(f"OrderOutcome of order {outcome.id} without an outcome; set restarted, replayed, log or failure")
    order = deployment.orders.get(outcome.id)
    if order is None:
        return
    if kind not in ("failure", order.answered_by):
        raise MalformedMessage(f"OrderOutcome of order {outcome.id} is {kind}, and the order was a {order.action}")
    if kind == "log":
        outcome.log.CopyFrom(kept_log(outcome.log))
    del deployment.orders[outcome.id]
    facts = {"part": _part_of(order), "deployment": deployment.name, "by": order.by}
    if kind != "failure":
        event = f"{order.action} ended"
        pid = {"restarted": outcome.restarted.pid, "replayed": outcome.replayed.pid}.get(kind)
        log.info(event, extra={**facts, **({} if pid is None else {"pid": pid})})
        if kind == "restarted":
            text = f"process {pid} of deployment {deployment.name}, by {order.by}"
            gateway.event_log.add(EventKind.RESTARTED, facts["part"], text)
        if not order.outcome.done():
            order.outcome.set_result(outcome)
        return
    text = line_of(outcome.failure.error, _MAX_ERROR)
    event = f"{order.action} failed"
    log.warning(event, extra={**facts, "error": text})
    error = _FAILURES.get(outcome.failure.kind, OrderFailed)
    _fail(order, error(text or f"the {order.action} of {order.connector} has failed"))


_FAILURES: dict[int, type[ProtocolError]] = {
    pb.ORDER_FAILURE_KIND_UNKNOWN_CONNECTOR: UnknownPart,
    pb.ORDER_FAILURE_KIND_REFUSED: ChangeRefused,
}


def _part_of(order: Order) -> str:
    return f"{'connector' if order.lines is None else 'process'} {order.connector}"


def _fail(order: Order, error: ProtocolError) -> None:
    if not order.outcome.done():
        order.outcome.set_exception(error)

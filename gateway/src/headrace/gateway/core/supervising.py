"""Registers the supervisors of deployments, and restarts connectors through them."""

import asyncio
from collections.abc import Sequence, Sized

import structlog

from headrace.contract.limits import MAX_NAME_BYTES
from headrace.contract.names import is_name
from headrace.gateway.core.bounds import check_count, check_length, check_room
from headrace.gateway.core.control import Caller, audited, checked, unknown
from headrace.gateway.core.deployments import Deployment, Order
from headrace.gateway.core.errors import (
    ChangeRefused,
    LimitExceeded,
    MalformedMessage,
    NotPermitted,
    ProtocolError,
    RestartFailed,
    RestartPending,
    Superseded,
    SupervisorAway,
    UnknownPart,
)
from headrace.gateway.core.gateway import Gateway
from headrace.gateway.identity import Identity
from headrace.protocol.v1 import admin_pb2 as pb

MAX_DEPLOYMENTS = 100
"""Deployments that are registered at a time."""
MAX_CONNECTORS = 1_000
"""Connectors of a deployment."""
MAX_CONNECTORS_IN_ALL = 2_000
"""Connectors of all deployments, since a status lists them all."""
MOST_WAITING = 256
"""Callers that wait for restarts at a time."""
WAITS_MS = 60_000
LONGEST_WAIT_MS = 300_000
"""How long a caller may wait for a restart, in milliseconds."""
_LONGEST_ERROR = 500

log = structlog.get_logger("headrace.gateway.control")


def register(gateway: Gateway, hello: pb.SuperviseHello, peer: str, identity: Identity) -> Deployment:
    """Registers a deployment. An older call of the same deployment ends.

    Raises:
        MalformedMessage: a name is not valid.
        LimitExceeded: there are too many connectors, or deployments.
        NotPermitted: another token has registered the deployment.
    """
    name = check_length("deployment in SuperviseHello", hello.deployment)
    if not name or not name.isprintable():
        raise MalformedMessage(f"deployment {name!r} in SuperviseHello: a name has 1 to {MAX_NAME_BYTES} bytes, all printable")
    if not check_length("run in SuperviseHello", hello.run):
        raise MalformedMessage("SuperviseHello without a run; name each start of the supervisor differently")
    connectors, known = _checked(hello.connectors.connectors), gateway.deployments.by_name
    _check_in_all(gateway, connectors, name)
    older = known.get(name)
    if older is None:
        check_room("deployments", known, MAX_DEPLOYMENTS)
    elif older.identity.name != identity.name:
        text = f"deployment {name} is registered with the token of {older.identity.name!r}, not with that of {identity.name!r}"
        raise NotPermitted(text)
    else:
        leave(gateway, older)
        older.end(Superseded(f"deployment {name}: run {hello.run} has registered in place of run {older.run}"))
    deployment = known[name] = Deployment(name, hello.run, peer, identity, connectors)
    log.info("deployment registered", deployment=name, run=hello.run, by=identity.name, peer=peer)
    return deployment


def replace_connectors(gateway: Gateway, deployment: Deployment, connectors: pb.SupervisedConnectors) -> None:
    """Takes over a new list of connectors.

    Raises:
        MalformedMessage: a name is not valid.
        LimitExceeded: there are too many.
    """
    replaced = _checked(connectors.connectors)
    _check_in_all(gateway, replaced, deployment.name)
    deployment.connectors = replaced


def _check_in_all(gateway: Gateway, connectors: Sized, name: str) -> None:
    """Checks that a deployment may have so many connectors beside those of the others."""
    others = sum(len(other.connectors) for other in gateway.deployments.by_name.values() if other.name != name)
    if others + len(connectors) > MAX_CONNECTORS_IN_ALL:
        text = (
            f"deployment {name} with {len(connectors)} connectors: the other deployments have {others}, and all together at most "
            f"{MAX_CONNECTORS_IN_ALL}"
        )
        raise LimitExceeded(text, limit="connectors of all deployments", maximum=MAX_CONNECTORS_IN_ALL)


def _checked(connectors: Sequence[pb.SupervisedConnector]) -> dict[str, str]:
    check_count("connectors of a deployment", connectors, MAX_CONNECTORS)
    found = {}
    for one in connectors:
        if not is_name(check_length("name of a connector", one.name)):
            raise MalformedMessage(f"connector {one.name!r}: a connector's name may contain letters, digits and ._- only")
        if one.name in found:
            raise MalformedMessage(f"connector {one.name} is listed twice; each connector of a deployment has another name")
        found[one.name] = check_length("instance of a connector", one.instance)
    return found


def leave(gateway: Gateway, deployment: Deployment) -> None:
    """Forgets a deployment, and fails the restarts that it has not answered."""
    if gateway.deployments.by_name.get(deployment.name) is deployment:
        del gateway.deployments.by_name[deployment.name]
    for order in deployment.orders.values():
        text = (
            f"deployment {deployment.name} has left before it answered, so that it is not known whether {order.connector} is "
            "restarted; headrace status shows whether it has a new session"
        )
        _fail(order, SupervisorAway(text))
        log.warning("restart not answered", part=f"connector {order.connector}", deployment=deployment.name, by=order.by)
    deployment.orders.clear()


def take_outcome(deployment: Deployment, outcome: pb.RestartOutcome) -> None:
    """Takes the answer to an order. One to an order that is not known, or was answered already, has no effect.

    Raises:
        MalformedMessage: it does not say what has happened.
    """
    kind = outcome.WhichOneof("outcome")
    if kind is None:
        raise MalformedMessage(f"RestartOutcome of order {outcome.id} without an outcome; set restarted or failure")
    order = deployment.orders.pop(outcome.id, None)
    if order is None:
        return
    facts = {"part": f"connector {order.connector}", "deployment": deployment.name, "by": order.by}
    if kind == "restarted":
        log.info("restart ended", **facts, pid=outcome.restarted.pid)
        if not order.outcome.done():
            order.outcome.set_result(outcome.restarted)
        return
    text = "".join(c if c.isprintable() else " " for c in outcome.failure.error[:_LONGEST_ERROR])
    log.warning("restart failed", **facts, error=text)
    _fail(order, _FAILURES.get(outcome.failure.kind, RestartFailed)(text or f"{order.connector} is not restarted"))


_FAILURES: dict[int, type[ProtocolError]] = {
    pb.RESTART_FAILURE_KIND_UNKNOWN_CONNECTOR: UnknownPart,
    pb.RESTART_FAILURE_KIND_REFUSED: ChangeRefused,
}


def _fail(order: Order, error: ProtocolError) -> None:
    if not order.outcome.done():
        order.outcome.set_exception(error)


async def restart_connector(
    gateway: Gateway, caller: Caller, connector: str, deployment: str = "", timeout_ms: int | None = None
) -> tuple[str, pb.RestartedConnector]:
    """Restarts a connector of a deployment; returns the deployment, and what has happened.

    The restart goes on if the caller leaves.

    Args:
        gateway: The gateway.
        caller: Who requests it.
        connector: The name of the connector in its deployment.
        deployment: The deployment; empty if only one has such a connector.
        timeout_ms: How long to wait, in milliseconds; None for 60,000.

    Raises:
        MalformedMessage: a name or the time is not valid.
        UnknownPart: no registered deployment has the connector.
        ChangeRefused: several have it, the deployment refuses, or the gateway drains.
        LimitExceeded: too many restarts are in progress.
        RestartFailed: the connector was restarted, and has failed.
        SupervisorAway: the deployment has left before it answered.
        RestartPending: there was no answer in time.
    """
    with audited(caller, "restart", f"connector {connector}"):
        wait_ms = WAITS_MS if timeout_ms is None else timeout_ms
        if not 0 < wait_ms <= LONGEST_WAIT_MS:
            raise MalformedMessage(f"timeout_ms is {wait_ms}; wait for 1 to {LONGEST_WAIT_MS} ms")
        if gateway.draining:
            raise ChangeRefused("the gateway drains, so that a connector would have no session after its restart")
        found = _that_has(gateway, checked(connector), deployment)
        if gateway.deployments.waiting >= MOST_WAITING:
            raise LimitExceeded(f"{MOST_WAITING} callers wait for restarts already; try again when they have ended")
        order = gateway.deployments.order(found, connector, f"{caller.name} ({caller.peer})")
    gateway.deployments.waiting += 1
    try:
        done, _ = await asyncio.wait({order.outcome}, timeout=wait_ms / 1000)
    finally:
        gateway.deployments.waiting -= 1
    if not done:
        raise RestartPending(f"no answer of deployment {found.name} within {wait_ms} ms; the restart of {connector} goes on")
    failure = order.outcome.exception()
    if failure is not None:
        # One error for each caller: the end of a call takes its error apart.
        raise type(failure)(str(failure))
    return found.name, order.outcome.result()


def _that_has(gateway: Gateway, connector: str, name: str) -> Deployment:
    """Returns the deployment that runs a connector."""
    known = gateway.deployments.by_name
    if name and name not in known:
        raise unknown("registered deployment", name[:MAX_NAME_BYTES], known)
    among = [known[name]] if name else list(known.values())
    having = [deployment for deployment in among if connector in deployment.connectors]
    if not having:
        every = {of for deployment in among for of in deployment.connectors}
        raise unknown(f"connector of {f'deployment {name}' if name else 'a registered deployment'}", connector, every)
    if len(having) > 1:
        names = ", ".join(sorted(deployment.name for deployment in having))
        raise ChangeRefused(f"connector {connector} runs in several deployments, {names}; name one of them")
    return having[0]

"""The call of a deployment's supervisor: one task reads its messages, another writes what is requested of it."""

import logging
from collections.abc import AsyncIterator

import grpc.aio

from headrace.contract.limits import MAX_NAME_BYTES
from headrace.contract.units import milliseconds
from headrace.gateway.core import VERSION, Gateway, ProtocolError
from headrace.gateway.core.base.errors import OutOfTurn, UnknownMessage
from headrace.gateway.core.connections import Role
from headrace.gateway.core.control import (
    connected_message,
    leave,
    register,
    replace_connectors,
    replace_processes,
    take_outcome,
)
from headrace.gateway.core.state import Deployment
from headrace.gateway.identity import Identity
from headrace.gateway.services.calls import UNKNOWN_MESSAGE, begin_call, first_of, first_to_end, write_in_time
from headrace.protocol.v1 import admin_pb2 as pb

Context = grpc.aio.ServicerContext[pb.SuperviseRequest, pb.SuperviseResponse]

log = logging.getLogger("headrace.gateway")


async def supervise(gateway: Gateway, identity: Identity, requests: AsyncIterator[pb.SuperviseRequest], context: Context) -> None:
    """Serves a supervisor, from its hello until it leaves.

    Raises:
        ProtocolError: the call must end with it.
    """
    timeout_ms = milliseconds(gateway.limits.hello_timeout_seconds)
    hello = await first_of(anext(requests, None), timeout_ms, "supervisor", "SuperviseHello")
    part = f"deployment {hello.deployment[:MAX_NAME_BYTES]}" if hello.deployment.isprintable() else ""
    try:
        deployment = register(gateway, hello, context.peer(), identity)
    except ProtocolError as error:
        gateway.refusals.note(Role.SUPERVISOR, part, context.peer(), error)
        raise
    gateway.refusals.admit(part)
    is_lost = True
    try:
        await begin_call(context)
        await first_to_end(_read(gateway, deployment, requests), _write(gateway, deployment, context))
        # One that is killed, frozen or cut off takes no leave. The end of its messages tells nothing: a reset may look like it.
        is_lost = not deployment.has_left
    except ProtocolError as error:
        is_lost = error.counts_as_refusal
        gateway.refusals.note(Role.SUPERVISOR, part, context.peer(), error, was_admitted=True)
        raise
    finally:
        leave(gateway, deployment, is_lost=is_lost)
        log.info("deployment left", extra={"deployment": deployment.name, "run": deployment.run})


async def _read(gateway: Gateway, deployment: Deployment, requests: AsyncIterator[pb.SuperviseRequest]) -> None:
    async for request in requests:
        if deployment.failure is not None:
            raise deployment.failure
        match request.WhichOneof("message"):
            case "outcome":
                take_outcome(gateway, deployment, request.outcome)
            case "connectors":
                replace_connectors(gateway, deployment, request.connectors)
            case "processes":
                replace_processes(gateway, deployment, request.processes)
            case "goodbye":
                deployment.has_left = True
                return
            case "hello":
                raise OutOfTurn("a second SuperviseHello: send it only once in each call")
            case _:
                raise UnknownMessage(UNKNOWN_MESSAGE)


async def _write(gateway: Gateway, deployment: Deployment, context: Context) -> None:
    timeout_ms = milliseconds(gateway.limits.write_timeout_seconds)
    reports, told = deployment.processes is not None, deployment.connected
    connected = connected_message(told) if reports else None
    response = pb.SuperviseResponse(welcome=pb.SuperviseWelcome(gateway_version=VERSION, connected=connected))
    while True:
        await write_in_time(context, response, timeout_ms, "supervisor")
        while not deployment.outgoing and deployment.connected == told:
            if deployment.failure is not None:
                raise deployment.failure
            await deployment.news.wait()
        if deployment.outgoing:
            response = deployment.outgoing.popleft()
        else:
            told = deployment.connected
            response = pb.SuperviseResponse(connected=connected_message(told))

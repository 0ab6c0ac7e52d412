"""Adds the gateway's services to a server, with their parsers and serializers."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from headrace.gateway.core import Gateway, ProtocolError
from headrace.gateway.core.connections import ClientCertificates, OpenCalls, Refusals
from headrace.gateway.identity import AuthInterceptor, TokenRegistry
from headrace.gateway.observer import Observer
from headrace.gateway.services.admin import AdminService
from headrace.gateway.services.calls import end_call
from headrace.gateway.services.ending import EndRevoked
from headrace.gateway.services.engine import EngineService
from headrace.gateway.services.malformed import METHOD_KINDS, RejectMalformed
from headrace.gateway.services.received import delivered, delivered_at_once, received
from headrace.gateway.services.sink import SinkService
from headrace.gateway.services.source import SourceService
from headrace.gateway.statuses import Context
from headrace.protocol.v1 import admin_pb2, engine_pb2, sink_pb2, source_pb2

_READ: dict[str, Callable[[bytes], Any]] = {
    "SourceService.Ingest": received,
    "EngineService.Deliver": delivered,
    "EngineService.DeliverAtOnce": delivered_at_once,
}
"""The parsers of requests that may contain a frame; they keep the frame's bytes, which are forwarded."""


def add_services(gateway: Gateway, server: grpc.aio.Server, observer: Observer) -> None:
    """Adds all services except health and reflection.

    Args:
        gateway: The gateway.
        server: The server.
        observer: Takes the snapshots for AdminService.
    """
    for service, file in (
        (SourceService(gateway), source_pb2),
        (SinkService(gateway), sink_pb2),
        (EngineService(gateway), engine_pb2),
        (AdminService(gateway, observer), admin_pb2),
    ):
        descriptor = file.DESCRIPTOR.services_by_name[type(service).__name__]
        handlers = {method.name: _handler(service, method) for method in descriptor.methods}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(descriptor.full_name, handlers),))


def interceptors(
    registry: TokenRegistry, calls: OpenCalls, refusals: Refusals, clients: ClientCertificates | None = None
) -> list[grpc.aio.ServerInterceptor]:
    """Returns what each call passes before its service, in order.

    Args:
        registry: The tokens that callers need.
        calls: Where calls are added while they are in progress.
        refusals: Where it is noted which calls are refused.
        clients: Where it is noted which certificates clients present; None if they present none.
    """
    return [AuthInterceptor(registry, refusals.note_stranger), EndRevoked(calls, clients), RejectMalformed()]


def _handler(service: object, method: MethodDescriptor) -> "grpc.RpcMethodHandler[Any, Any]":
    _, make = METHOD_KINDS[method.client_streaming, method.server_streaming]
    parse = message_factory.GetMessageClass(method.input_type).FromString
    read = _READ.get(f"{method.containing_service.name}.{method.name}", parse)
    behaviour = getattr(service, method.name)
    return make(behaviour if method.server_streaming else _ending(behaviour), read, _written)


def _ending(behaviour: Callable[[Any, Context], Awaitable[Any]]) -> Callable[[Any, Context], Awaitable[Any]]:
    """Returns what answers a call once: an error of the protocol ends the call with its status."""

    async def answer(request: Any, context: Context) -> Any:
        try:
            return await behaviour(request, context)
        except ProtocolError as error:
            await end_call(context, error)

    return answer


def _written(response: Message | bytes) -> bytes:
    """Serializes a response; one with frames is already serialized, built around their bytes."""
    return response if isinstance(response, bytes) else response.SerializeToString()

"""Adds the gateway's services to a server, and says how their messages are read and written."""

from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from headrace.gateway.core import Gateway
from headrace.gateway.services.admin import AdminService
from headrace.gateway.services.engine import EngineService
from headrace.gateway.services.malformed import METHOD_KINDS
from headrace.gateway.services.received import delivered, received
from headrace.gateway.services.sink import SinkService
from headrace.gateway.services.source import SourceService
from headrace.protocol.v1 import admin_pb2, engine_pb2, sink_pb2, source_pb2

_READ: dict[str, Callable[[bytes], Any]] = {"SourceService.Ingest": received, "EngineService.Deliver": delivered}
"""How requests are read that may have a frame in them: with the bytes of the frame, which are handed on."""


def add_services(gateway: Gateway, server: grpc.aio.Server) -> None:
    """Adds everything that the gateway serves, other than its health and reflection."""
    for service, file in (
        (SourceService(gateway), source_pb2),
        (SinkService(gateway), sink_pb2),
        (EngineService(gateway), engine_pb2),
        (AdminService(gateway), admin_pb2),
    ):
        descriptor = file.DESCRIPTOR.services_by_name[type(service).__name__]
        handlers = {method.name: _handler(service, method) for method in descriptor.methods}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(descriptor.full_name, handlers),))


def _handler(service: object, method: MethodDescriptor) -> "grpc.RpcMethodHandler[Any, Any]":
    _, make = METHOD_KINDS[method.client_streaming, method.server_streaming]
    parse = message_factory.GetMessageClass(method.input_type).FromString
    read = _READ.get(f"{method.containing_service.name}.{method.name}", parse)
    return make(getattr(service, method.name), read, _written)


def _written(response: Message | bytes) -> bytes:
    """A response; one with frames in it is bytes already, made around those of the frames."""
    return response if isinstance(response, bytes) else response.SerializeToString()

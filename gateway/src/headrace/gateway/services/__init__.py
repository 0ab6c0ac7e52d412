"""The gateway's gRPC services: they translate calls into operations on the core, and its errors into status codes."""

from headrace.gateway.services.admin import AdminService
from headrace.gateway.services.engine import EngineService
from headrace.gateway.services.serve import add_services, interceptors
from headrace.gateway.services.sink import SinkService
from headrace.gateway.services.source import SourceService

__all__ = ["AdminService", "EngineService", "SinkService", "SourceService", "add_services", "interceptors"]

"""The gateway's gRPC services: they translate calls into what the core does, and its errors into statuses."""

from headrace.gateway.services._admin import AdminService
from headrace.gateway.services._engine import EngineService
from headrace.gateway.services._garbage import RefuseGarbage
from headrace.gateway.services._received import add_source_service
from headrace.gateway.services._sink import SinkService
from headrace.gateway.services._source import SourceService

__all__ = ["AdminService", "EngineService", "RefuseGarbage", "SinkService", "SourceService", "add_source_service"]

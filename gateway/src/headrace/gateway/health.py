"""The health service. It requires no token, so the resources that a caller can use are limited."""

from collections import Counter
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2

from headrace.contract.limits import MAX_NAME_BYTES
from headrace.gateway.statuses import abort

WATCHES_PER_CONNECTION = 10
WATCHES = 1_000
"""The maximum number of watches on all connections; each takes about 20 kB."""


class Health(health.aio.HealthServicer):  # type: ignore[misc]  # it has no types
    """Answers checks, and a limited number of concurrent watches."""

    def __init__(self) -> None:
        super().__init__()
        self._watching: Counter[str] = Counter()

    async def List(
        self,
        request: health_pb2.HealthListRequest,
        context: "grpc.aio.ServicerContext[Any, Any]",
    ) -> health_pb2.HealthListResponse:
        """Returns the state of every service; gRPC's own servicer does not implement this method."""
        statuses = {name: health_pb2.HealthCheckResponse(status=status) for name, status in self._server_status.items()}
        return health_pb2.HealthListResponse(statuses=statuses)

    async def Watch(
        self,
        request: health_pb2.HealthCheckRequest,
        context: "grpc.aio.ServicerContext[Any, Any]",
    ) -> None:
        """Streams the state of a service, as in grpc.health.v1; aborts if the limit of watches is reached."""
        if len(request.service) > MAX_NAME_BYTES:
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, f"a service's name has at most {MAX_NAME_BYTES} bytes")
        connection = context.peer()
        if self._watching[connection] >= WATCHES_PER_CONNECTION or self._watching.total() >= WATCHES:
            text = f"at most {WATCHES_PER_CONNECTION} watches on a connection, and {WATCHES} in all; use Check"
            await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._watching[connection] += 1
        try:
            await super().Watch(request, context)
        finally:
            self._watching[connection] -= 1
            if not self._watching[connection]:
                del self._watching[connection]

"""AdminService, for operators and scripts."""

from typing import Any

import grpc
import grpc.aio

from headrace.gateway.core import Gateway, snapshot
from headrace.gateway.core.checkpoints import forget
from headrace.gateway.identity import identity_of
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceServicer


class AdminService(AdminServiceServicer):
    """Reports the gateway's state, and forgets pipelines."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def GetStatus(
        self, request: pb.GetStatusRequest, context: grpc.aio.ServicerContext[pb.GetStatusRequest, pb.GetStatusResponse]
    ) -> pb.GetStatusResponse:
        """Returns a snapshot of the gateway's state."""
        await _permit(context)
        return snapshot(self._gateway)

    async def ForgetPipeline(
        self,
        request: pb.ForgetPipelineRequest,
        context: grpc.aio.ServicerContext[pb.ForgetPipelineRequest, pb.ForgetPipelineResponse],
    ) -> pb.ForgetPipelineResponse:
        """Forgets a pipeline. Rejects one that the configuration declares, and, without `force`, one that is attached."""
        await _permit(context)
        pipeline = self._gateway.pipelines.get(request.pipeline)
        if pipeline is None:
            known = ", ".join(sorted(self._gateway.pipelines)) or "none"
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no pipeline {request.pipeline!r}; known: {known}")
        if pipeline.attached and not request.force:
            text = f"pipeline {pipeline.name!r} is attached; stop its query first, or use force if its machine is gone"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        if pipeline.declared:
            text = f"pipeline {pipeline.name!r} is declared for {', '.join(pipeline.declared)}; remove it from the configuration"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        forget(self._gateway, pipeline)
        return pb.ForgetPipelineResponse()


async def _permit(context: "grpc.aio.ServicerContext[Any, Any]") -> None:
    identity = identity_of(context)
    if not identity.may_administer():
        text = f"the token of {identity.name!r} does not allow this; set admin = true for it"
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)

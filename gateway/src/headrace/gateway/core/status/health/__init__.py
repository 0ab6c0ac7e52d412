"""What should be true now, and what is wrong where it is not: the degraded parts of a status, each with its first cause.

- Every file of the gateway is valid, its own work succeeds, and something is connected to it: `of_gateway`.
- Every connector is connected and works, also in deployments: `of_connectors`.
- Every stream that has messages left and credit sends, and somebody reads it: `of_streams`.
- Every sink that a query writes to is served, and answers: `of_sinks`.
- Every file of a deployment is valid, and every log of it can be written: `of_files` and `of_logs`.
- Every attached pipeline commits, and its driver alone writes its checkpoint: `of_pipelines`.

A part may be degraded because of another one: a query waits because its sink is away, and the sink's connector has reported why.
Its problem then has the cause of the part where it began, the root.
"""

from headrace.gateway.core.status.health.of_connectors import of_connectors
from headrace.gateway.core.status.health.of_deployments import of_files, of_logs
from headrace.gateway.core.status.health.of_gateway import of_gateway, of_nothing_connected
from headrace.gateway.core.status.health.of_pipelines import of_pipeline
from headrace.gateway.core.status.health.of_sinks import of_sink
from headrace.gateway.core.status.health.of_streams import of_parked_stream, of_stream
from headrace.gateway.core.status.health.site import Site
from headrace.gateway.core.status.problem import Problem
from headrace.protocol.v1 import admin_pb2 as pb

__all__ = ["problems"]


def problems(status: pb.GetStatusResponse, stuck_after_ms: int, slow_after_ms: int) -> list[Problem]:
    """Returns the problems of a status, roots before what follows from them; none if all is well.

    Args:
        status: The status.
        stuck_after_ms: After how many milliseconds without a commit a micro-batch is stuck.
        slow_after_ms: After how many milliseconds without an answer a sink or a commit log is slow.
    """
    site = Site(status, stuck_after_ms, slow_after_ms)
    site.add(of_gateway(status.gateway))
    of_connectors(site)
    for stream in status.streams:
        site.add(of_stream(site, stream))
    for sink in status.sinks:
        site.add(of_sink(site, sink))
    for pipeline in status.pipelines:
        site.add(of_pipeline(site, pipeline))
    site.add(site.runs.down)
    for stream in status.streams:
        if stream.state == pb.STREAM_STATE_PARKED:
            site.add(of_parked_stream(site, stream))
    site.add(of_files(status))
    site.add(of_logs(status))
    if not any(problem.is_fault for problem in site.found.values()):
        site.add(of_nothing_connected(status))
    return list(site.found.values())

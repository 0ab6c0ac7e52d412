"""Every process of a deployment has a log that can be written: nobody learns otherwise why it fails."""

from collections.abc import Iterator

from headrace.gateway.core.status.problem import Kind, Problem
from headrace.protocol.v1 import admin_pb2 as pb


def of_logs(status: pb.GetStatusResponse) -> Iterator[Problem]:
    """Yields the logs of processes that cannot be written, as their supervisors report."""
    for deployment in status.deployments:
        for process in deployment.processes:
            if process.log_fault:
                part = f"log of process {process.name} of {deployment.deployment}"
                remedy = "make room in its folder, or restore the folder; the process runs on, and the log is tried again"
                yield Problem(part, Kind.LOG_FAILS, process.log_fault, process.log_fault_age_ms, remedy)

"""A pipeline as the gateway sees it: its positions, its micro-batches, its driver."""

from headrace.gateway.core.pipelines.batch import Batch, BatchStream, Stage
from headrace.gateway.core.pipelines.bootstrap import Bootstrap, held
from headrace.gateway.core.pipelines.drivers import Driver, Drivers
from headrace.gateway.core.pipelines.pipeline import Follower, Pipeline, Run
from headrace.gateway.core.pipelines.run_faults import Fault, after_report
from headrace.gateway.core.pipelines.timeline import LoggedBatch, Timeline

__all__ = [
    "Batch",
    "BatchStream",
    "Bootstrap",
    "Driver",
    "Drivers",
    "Fault",
    "Follower",
    "LoggedBatch",
    "Pipeline",
    "Run",
    "Stage",
    "Timeline",
    "after_report",
    "held",
]

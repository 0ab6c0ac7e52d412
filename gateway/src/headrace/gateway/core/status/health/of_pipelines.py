"""Every attached pipeline commits what its streams have received, and one driver alone writes its checkpoint."""

from collections.abc import Iterator

from headrace.gateway.core.connections import Role
from headrace.gateway.core.status.health.of_gateway import CONNECTS_WITHIN_MS
from headrace.gateway.core.status.health.of_sinks import FAILS_REMEDY
from headrace.gateway.core.status.health.of_streams import of_unmatched
from headrace.gateway.core.status.health.site import Site, paused
from headrace.gateway.core.status.problem import Kind, Problem
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import metrics_pb2

ENDS_WITHIN_MS = 30_000
"""How long a driver may take to end because of a fault that it has reported, in milliseconds."""
_AGAIN = "nothing is lost: the micro-batch runs again once the query is started, which a supervisor does by itself"
_REMEDIES: dict[int, str] = {
    metrics_pb2.RUN_FAULT_ORIGIN_UNSPECIFIED: f"look at what the error names, and at the log of the query; {_AGAIN}",
    metrics_pb2.RUN_FAULT_ORIGIN_FUNCTION: f"correct the function, and start the application again; {_AGAIN}",
    metrics_pb2.RUN_FAULT_ORIGIN_SOURCE: f"look at the source that the error names, and its connector; {_AGAIN}",
    metrics_pb2.RUN_FAULT_ORIGIN_STORAGE: (
        f"make room on the storage that the error names, repair it, or let the user of the query write there; {_AGAIN}"
    ),
    metrics_pb2.RUN_FAULT_ORIGIN_SPARK: f"give Spark what the error says that it lacks, such as memory or processes; {_AGAIN}",
    metrics_pb2.RUN_FAULT_ORIGIN_OTHER_RUN: "stop one of the two drivers: one checkpoint serves one query at a time",
}
"""What to do about a micro-batch that has failed, by where its fault began."""


def of_pipeline(site: Site, pipeline: pb.PipelineStatus) -> Iterator[Problem]:
    """Yields the problem of a pipeline; its root is a sink or a stream that it cannot continue without, if there is one."""
    part = f"pipeline {pipeline.pipeline}"
    if pipeline.HasField("rival"):
        yield _rival(part, pipeline)
        return
    streams = site.problems_of_streams(pipeline)
    fatal = [problem for problem in streams if problem.kind is Kind.POSITION_LOST]
    fatal += site.problems_of_sinks(pipeline.pipeline)
    faults = [problem for problem in fatal if problem.is_fault]
    if faults:
        yield faults[0].within(part)
    elif pipeline.fault.kind:
        ended = _ended_otherwise(site, pipeline)
        yield from _reported(site, pipeline, part) if ended is None else (ended,)
    elif pipeline.state != pb.PIPELINE_STATE_ATTACHED:
        yield from _not_attached(site, pipeline, part)
    elif (failed := site.runs.failed.get(pipeline.pipeline)) is not None:
        # Its lease ends later.
        yield failed
    elif pipeline.HasField("silent_ms"):
        cause = "its driver no longer reports, although its query is attached"
        remedy = (
            "look at the process of its driver and at its machine: it is frozen, or waits for the storage of its checkpoint; "
            "if it does not continue, restart it, which loses nothing"
        )
        yield Problem(part, Kind.PIPELINE_SILENT, cause, pipeline.silent_ms, remedy)
    elif pipeline.HasField("planner_silent_ms"):
        cause = "the process that plans its micro-batches no longer calls, although its driver reports"
        remedy = (
            "look at the Python processes of its driver: one of them is frozen, or cannot reach the gateway; if it does not "
            "continue, restart the query, which loses nothing"
        )
        yield Problem(part, Kind.PIPELINE_SILENT, cause, pipeline.planner_silent_ms, remedy)
    else:
        for unmatched in pipeline.unmatched:
            yield from of_unmatched(site, part, unmatched)
        yield from _awaits_tables(part, pipeline)
    if pipeline.state == pb.PIPELINE_STATE_ATTACHED or pipeline.HasField("paused"):
        yield from _waits(site, pipeline, part, streams, fatal)


def _awaits_tables(part: str, pipeline: pb.PipelineStatus) -> Iterator[Problem]:
    """Yields the tables that a query reads before other streams, and cannot read to their present end."""
    for table in pipeline.awaited_tables:
        if table.is_blocked and table.age_ms >= CONNECTS_WITHIN_MS:
            cause = f"it reads table {table.table} before {', '.join(table.held)}, and waits for {', '.join(table.waits_for)}"
            remedy = "start the connector of the table, or look at its log; a source tells where it ends once it has caught up"
            yield Problem(part, Kind.NOT_SENT, cause, table.age_ms, remedy)


def _rival(part: str, pipeline: pb.PipelineStatus) -> Problem:
    """Returns that two drivers use one checkpoint."""
    rival = pipeline.rival
    has_taken_over = f"from {rival.current_peer} has taken over" if rival.current_peer else "has taken over"
    cause = (
        f"two drivers use its checkpoint: {rival.run} calls from {rival.peer}, although run {pipeline.run} {has_taken_over}; "
        "each ends what the other one has begun"
    )
    return Problem(part, Kind.SECOND_DRIVER, cause, rival.age_ms, _REMEDIES[metrics_pb2.RUN_FAULT_ORIGIN_OTHER_RUN])


def _reported(site: Site, pipeline: pb.PipelineStatus, part: str) -> Iterator[Problem]:
    """Yields why a run makes no progress, as its driver says. A sink that has failed it is named as the root."""
    fault = pipeline.fault
    batch = f"batch {fault.batch}: " if fault.HasField("batch") else ""
    cause = f"{batch}{fault.message}"
    if fault.kind == metrics_pb2.RUN_FAULT_KIND_EXECUTORS_LOST:
        remedy = "look at the cluster: why executors ended, and why it does not start others"
        yield Problem(part, Kind.EXECUTOR_LOST, cause, fault.age_ms, remedy)
    elif fault.kind == metrics_pb2.RUN_FAULT_KIND_FUNCTION_RUNS:
        remedy = "if the function does not return by itself, stop the application, correct the function, and start it again"
        yield Problem(part, Kind.BATCH_STUCK, cause, fault.age_ms, remedy)
    elif fault.origin == metrics_pb2.RUN_FAULT_ORIGIN_SINK and (sink := _sink_of(site, pipeline)):
        root = site.found.get(f"sink {sink}")
        if root is None or not root.is_fault:
            root = Problem(f"sink {sink}", Kind.SINK_FAILS, cause, fault.age_ms, FAILS_REMEDY)
            yield root
        yield root.within(part)
    else:
        yield Problem(part, Kind.PIPELINE_FAILS, cause, fault.age_ms, _REMEDIES.get(fault.origin, _REMEDIES[0]))


def _ended_otherwise(site: Site, pipeline: pb.PipelineStatus) -> Problem | None:
    """Returns why the process of a pipeline has ended again, long after its driver has reported a fault, and for another one."""
    age_ms, ended = site.runs.ends.get(pipeline.pipeline, (0, None))
    if ended is None or pipeline.fault.age_ms - age_ms < ENDS_WITHIN_MS:
        return None
    # Not the place in the user's code, which follows.
    said = pipeline.fault.message.partition(" (")[0]
    return None if said in ended.cause else ended


def _sink_of(site: Site, pipeline: pb.PipelineStatus) -> str:
    """Returns the sink that has failed a pipeline; empty if it is not known which one."""
    if pipeline.fault.about:
        return pipeline.fault.about
    writes = [sink.sink for sink in site.status.sinks if pipeline.pipeline in sink.writers]
    return writes[0] if len(writes) == 1 else ""


def _not_attached(site: Site, pipeline: pb.PipelineStatus, part: str) -> Iterator[Problem]:
    """Yields why a pipeline is not attached that should be: its lease has ended, or a source waits for it."""
    held_ms, only = site.held_ms.get(pipeline.pipeline), f"only if it is never to run again: headrace forget {pipeline.pipeline}"
    is_missed = pipeline.state == pb.PIPELINE_STATE_AWAY or held_ms is not None
    if part in site.refused.current or (is_missed and part in site.refused.by_part):
        yield site.refused.by_part[part]
    elif is_missed and (process := site.runs.of_pipeline(pipeline.pipeline)) is not None:
        yield process
    elif pipeline.state == pb.PIPELINE_STATE_AWAY:
        cause = "its lease has ended: it no longer calls"
        away = Problem(part, Kind.PIPELINE_AWAY, cause, pipeline.away_ms, f"start the query again; {only}")
        yield site.refused.why(away, Role.QUERY)
    elif pipeline.state == pb.PIPELINE_STATE_DETACHED and held_ms is not None:
        cause = "its query has stopped, and has not read all that was received"
        yield Problem(part, Kind.PIPELINE_DETACHED, cause, pipeline.idle_ms, f"start the query; {only}")
    elif pipeline.state == pb.PIPELINE_STATE_AWAITED and held_ms is not None:
        cause = "acknowledgements wait for it, and it has not attached since the gateway started"
        remedy = "start its query, or remove it from [[streams]] of the gateway's configuration"
        yield site.refused.why(Problem(part, Kind.PIPELINE_AWAITED, cause, held_ms, remedy), Role.QUERY)


def _waits(site: Site, pipeline: pb.PipelineStatus, part: str, streams: list[Problem], fatal: list[Problem]) -> Iterator[Problem]:
    """Yields why an attached pipeline commits nothing.

    Args:
        site: The site.
        pipeline: The pipeline.
        part: Its part.
        streams: The problems of the streams that it reads.
        fatal: Those of what it cannot continue without.
    """
    if pipeline.voted_ms >= site.slow_after_ms:
        cause = "its sinks have voted for its micro-batch, and its commit log lacks it"
        remedy = "look at the storage of its checkpoint; it must take a small file within seconds"
        yield Problem(part, Kind.COMMIT_SLOW, cause, pipeline.voted_ms, remedy)
    # What waits for a table is held for as long as that is read.
    stuck_ms = pipeline.batch_ms if pipeline.awaited_tables else max(pipeline.batch_ms, site.held_ms.get(pipeline.pipeline, 0))
    if pipeline.batch_ms < site.stuck_after_ms:
        yield from paused(part, pipeline)
        if fatal:
            # It waits for a paused sink.
            yield fatal[0].within(part)
    if pipeline.state != pb.PIPELINE_STATE_ATTACHED or stuck_ms < site.stuck_after_ms:
        return
    if streams:
        yield min(streams, key=lambda problem: not problem.is_fault).within(part)
        return
    what = "its micro-batch is planned" if pipeline.batch_ms else "it plans no micro-batch"
    cause = f"{what}, and it has committed nothing since"
    remedy = "look at the query in Spark: its executors, and the time that its functions take"
    yield Problem(part, Kind.BATCH_STUCK, cause, stuck_ms, remedy)

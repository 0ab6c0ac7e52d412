"""Statuses of whole sites that are well, and faults that change them as a gateway would show each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.gateway.core import Kind
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import connector_pb2
from headrace.protocol.v1 import metrics_pb2 as metrics
from headrace.protocol.v1.sink_pb2 import Transaction

AGE_MS = 3_600_000
"""How old all parts are."""
LASTS_MS = 60_000
"""How long faults last."""
RUNNING = connector_pb2.CONNECTOR_STATE_RUNNING


def site(sources: int, partitions: int, pipelines: int, *, is_deployed: bool) -> pb.GetStatusResponse:
    """A site that is well: each pipeline reads all sources and writes to a sink of its own."""
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(uptime_ms=AGE_MS))
    running = pb.ReportedStatus(state=RUNNING, state_age_ms=AGE_MS)
    deployment = pb.DeploymentStatus(deployment="deploy.toml", age_ms=AGE_MS)
    for s in range(sources):
        status.sessions.add(
            session=f"s{s}", connector="kafka", instance=f"from{s}", age_ms=AGE_MS, streams=partitions, reported=running
        )
        deployment.connectors.add(name=f"in{s}", instance=f"from{s}", source=f"source{s}")
        for n in range(partitions):
            status.streams.add(
                stream=f"source{s}/{n}",
                state=pb.STREAM_STATE_LIVE,
                instance=f"from{s}",
                last_instance=f"from{s}",
                session=f"s{s}",
                readers=pipelines,
                state_age_ms=AGE_MS,
                lag_messages=5,
            )
    for p in range(pipelines):
        status.pipelines.add(
            pipeline=f"totals{p}",
            run=1,
            attached=True,
            state=pb.PIPELINE_STATE_ATTACHED,
            patterns=[f"source{s}/*" for s in range(sources)],
            batch_ms=200,
        )
        status.sinks.add(sink=f"out{p}", instances=[f"to{p}"], writers=[f"totals{p}"])
        status.sink_sessions.add(
            session=f"k{p}", sink=f"out{p}", connector="http-sink", instance=f"to{p}", age_ms=AGE_MS, reported=running
        )
        deployment.connectors.add(name=f"out{p}", instance=f"to{p}", sink=f"out{p}")
        deployment.processes.add(
            name=f"app{p}",
            kind=pb.PROCESS_KIND_APPLICATION,
            pipelines=[f"totals{p}"],
            reads=status.pipelines[-1].patterns,
            state=pb.PROCESS_STATE_KIND_RUNS,
            state_age_ms=AGE_MS,
        )
    if is_deployed:
        status.deployments.append(deployment)
    return status


@dataclass(frozen=True)
class Fault:
    """A fault, and how health names it.

    Attributes:
        name: Its name.
        inject: Changes the status of a site as the gateway would.
        root: The part where it begins.
        kind: The kind of its problem.
        remedy: A part of the text of the remedy.
        is_of_the_flow: Whether it delays data.
    """

    name: str
    inject: Callable[[pb.GetStatusResponse], None]
    root: str
    kind: Kind
    remedy: str
    is_of_the_flow: bool = True

    def __str__(self) -> str:
        return self.name


def of_gateway(**fields: Any) -> Callable[[pb.GetStatusResponse], None]:
    return lambda status: status.gateway.MergeFrom(pb.GatewayStatus(**fields))


def own(kind: Kind) -> Callable[[pb.GetStatusResponse], None]:
    fault = pb.GatewayFault(part="file f", kind=kind, cause="it is wrong", remedy="replace or correct it", age_ms=LASTS_MS)
    return of_gateway(own_faults=[fault])


def of_pipeline(**fields: Any) -> Callable[[pb.GetStatusResponse], None]:
    return lambda status: status.pipelines[0].MergeFrom(pb.PipelineStatus(**fields))


def failed(origin: "metrics.RunFaultOrigin.ValueType", about: str = "") -> Callable[[pb.GetStatusResponse], None]:
    fault = metrics.RunFault(
        kind=metrics.RUN_FAULT_KIND_BATCH_FAILED, batch=7, message="why", age_ms=LASTS_MS, origin=origin, about=about
    )
    return of_pipeline(fault=fault)


def of_sink(**fields: Any) -> Callable[[pb.GetStatusResponse], None]:
    return lambda status: status.sinks[0].MergeFrom(pb.SinkStatus(**fields))


def first(status: pb.GetStatusResponse, *, is_source: bool) -> list[Any]:
    """The session of the first source or sink; none if another fault has ended it."""
    sessions = status.sessions if is_source else status.sink_sessions
    return [session for session in sessions if session.instance == ("from0" if is_source else "to0")]


def silent(*, is_source: bool) -> Callable[[pb.GetStatusResponse], None]:
    def inject(status: pb.GetStatusResponse) -> None:
        for session in first(status, is_source=is_source):
            session.silent_ms = LASTS_MS

    return inject


def reports(state: "connector_pb2.ConnectorState.ValueType", *, is_source: bool) -> Callable[[pb.GetStatusResponse], None]:
    def inject(status: pb.GetStatusResponse) -> None:
        told = pb.ReportedStatus(state=state, state_age_ms=LASTS_MS, reason="connection refused")
        for session in first(status, is_source=is_source):
            session.reported.CopyFrom(told)
        if not is_source:
            # Its results wait meanwhile.
            of_sink(outstanding="instance to0 has not written partition 0", outstanding_ms=LASTS_MS)(status)

    return inject


def without_source(status: pb.GetStatusResponse) -> None:
    """The connector of a source was killed."""
    del status.sessions[0]
    for stream in status.streams:
        if stream.session == "s0":
            stream.session, stream.instance, stream.state = "", "", pb.STREAM_STATE_DETACHED
            stream.state_age_ms = LASTS_MS


def without_sink(status: pb.GetStatusResponse) -> None:
    """The connector of a sink was killed."""
    del status.sink_sessions[0]
    del status.sinks[0].instances[:]
    status.sinks[0].absent_ms = LASTS_MS


def without_pipeline(status: pb.GetStatusResponse) -> None:
    """A driver was killed, and its lease has ended."""
    pipeline = status.pipelines[0]
    pipeline.attached, pipeline.state, pipeline.away_ms, pipeline.idle_ms = False, pb.PIPELINE_STATE_AWAY, LASTS_MS, LASTS_MS
    pipeline.ClearField("batch_ms")
    del status.sinks[0].writers[:]
    for process in (process for deployment in status.deployments for process in deployment.processes):
        if pipeline.pipeline in process.pipelines:
            process.state, process.reason, process.state_age_ms = pb.PROCESS_STATE_KIND_WAITS, "killed by SIGKILL", LASTS_MS


def without_anything(status: pb.GetStatusResponse) -> None:
    """Nothing has reached the gateway since its start."""
    status.CopyFrom(pb.GetStatusResponse(gateway=pb.GatewayStatus(uptime_ms=LASTS_MS, unconnected_ms=LASTS_MS)))


def full_checkpoint(status: pb.GetStatusResponse) -> None:
    """A sink had failed a batch that now fails because the disk of the checkpoint is full."""
    of_sink(failure="instance to0: of before", failure_age_ms=2 * LASTS_MS)(status)
    failed(metrics.RUN_FAULT_ORIGIN_STORAGE, "/data/checkpoint")(status)


def stalled(status: pb.GetStatusResponse) -> None:
    """A connector has stopped reading a partition."""
    status.streams[0].stalled_ms = LASTS_MS


def lost(status: pb.GetStatusResponse) -> None:
    """A source no longer has what a query must read."""
    stream = status.streams[0]
    stream.state, stream.detail, stream.state_age_ms = pb.STREAM_STATE_LOST, "its earliest message is 90", LASTS_MS


def unread(status: pb.GetStatusResponse) -> None:
    """A connector offers a stream that no query reads."""
    status.streams.add(stream="other/0", state=pb.STREAM_STATE_PARKED, instance="from0", session="s0", state_age_ms=LASTS_MS)


def closed(status: pb.GetStatusResponse) -> None:
    """A connector has closed a stream, and has not said that it has ended."""
    stream = status.streams[0]
    stream.state, stream.instance, stream.state_age_ms = pb.STREAM_STATE_DETACHED, "", LASTS_MS


def refused(status: pb.GetStatusResponse) -> None:
    """A connector that was killed finds no room in the gateway when it comes back."""
    without_source(status)
    status.gateway.refusals.add(
        role="source",
        part=FROM,
        peer="there",
        cause="UNAVAILABLE: max_sessions is 2 and all are taken",
        remedy="raise max_sessions",
        age_ms=LASTS_MS,
        last_ms=1_000,
    )


def reconnects(status: pb.GetStatusResponse) -> None:
    """The sessions of a connector end each second."""
    status.gateway.reconnecting.add(part=FROM, sessions=40, ended="taken over", age_ms=LASTS_MS)


def without_supervisor(status: pb.GetStatusResponse) -> None:
    """A supervisor was killed, and its processes run on."""
    status.gateway.lost_supervisors.add(deployment="lost.toml", peer="there", lost_ms=LASTS_MS)


def failing(status: pb.GetStatusResponse) -> None:
    """The process of a connector ends again and again."""
    without_source(status)
    listed = (one for deployment in status.deployments for one in deployment.connectors if one.name == "in0")
    connector = next(listed, None)
    if connector is None:
        deployment = status.deployments.add(deployment="connectors.toml")
        connector = deployment.connectors.add(name="in0", instance="from0", source="source0")
    connector.failure, connector.failing_ms = "exit code 1: no such topic", LASTS_MS


def without_query(
    state: "pb.PipelineState.ValueType", process: "pb.ProcessStateKind.ValueType | None" = None
) -> Callable[[pb.GetStatusResponse], None]:
    """A query does not run, and a stream waits for it. It is one of a deployment if its process has a state."""

    def inject(status: pb.GetStatusResponse) -> None:
        pipeline = status.pipelines[0]
        pipeline.attached, pipeline.state, pipeline.idle_ms = False, state, LASTS_MS
        pipeline.ClearField("batch_ms")
        del status.sinks[0].writers[:]
        status.streams[0].holders.add(pipeline=pipeline.pipeline, state=state, held_ms=LASTS_MS)
        for deployment in status.deployments:
            others = [one for one in deployment.processes if pipeline.pipeline not in one.pipelines]
            del deployment.processes[:]
            deployment.processes.extend(others)
        if process is not None:
            deployment = status.deployments[0] if status.deployments else status.deployments.add(deployment="own.toml")
            deployment.processes.add(
                name="app0",
                kind=pb.PROCESS_KIND_APPLICATION,
                pipelines=[pipeline.pipeline],
                reads=pipeline.patterns,
                state=process,
                state_age_ms=LASTS_MS,
            )

    return inject


def without_log(status: pb.GetStatusResponse) -> None:
    """A deployment whose log folder is full."""
    process = status.deployments.add(deployment="full.toml").processes.add(name="app0", state=pb.PROCESS_STATE_KIND_RUNS)
    process.log_fault, process.log_fault_age_ms = "run/app0.log: No space left on device", LASTS_MS


def without_valid_file(status: pb.GetStatusResponse) -> None:
    """A deployment whose file has become invalid."""
    status.deployments.add(deployment="bad.toml", file_fault="line 3: no such connector", file_fault_age_ms=LASTS_MS)


def unmatched(pattern: str) -> Callable[[pb.GetStatusResponse], None]:
    """A query has no stream to read for a pattern."""
    one = pb.UnmatchedPattern(pattern=pattern, age_ms=LASTS_MS)
    return of_pipeline(patterns=[pattern], unmatched=[one])


def hindered(kind: "metrics.RunFaultKind.ValueType") -> Callable[[pb.GetStatusResponse], None]:
    return of_pipeline(fault=metrics.RunFault(kind=kind, message="why", age_ms=LASTS_MS))


TO, FROM, TOTALS, OUT = "connector to0 of sink out0", "connector from0", "pipeline totals0", "sink out0"
FAULTS = (
    Fault("gateway_restarted", of_gateway(draining=True), "gateway", Kind.STOPPING, "start it again", False),
    Fault("clock_set", of_gateway(clock_jump_ms=9_000), "gateway", Kind.CLOCK_JUMPED, "time service", False),
    Fault("configuration_invalid", own(Kind.CONFIGURATION_INVALID), "file f", Kind.CONFIGURATION_INVALID, "correct", False),
    Fault("deployment_invalid", without_valid_file, "deployment bad.toml", Kind.CONFIGURATION_INVALID, "correct the file", False),
    Fault("certificate_invalid", own(Kind.CERTIFICATE_INVALID), "file f", Kind.CERTIFICATE_INVALID, "correct", False),
    Fault("certificate_expires", own(Kind.CERTIFICATE_EXPIRES), "file f", Kind.CERTIFICATE_EXPIRES, "replace", False),
    Fault("gateway_fails", own(Kind.GATEWAY_FAILS), "file f", Kind.GATEWAY_FAILS, "correct", False),
    Fault("descriptors_few", own(Kind.DESCRIPTORS_EXHAUSTED), "file f", Kind.DESCRIPTORS_EXHAUSTED, "correct", False),
    Fault("nothing_connected", without_anything, "gateway", Kind.NOT_CONNECTED, "NO_PROXY", False),
    Fault("connector_refused", refused, FROM, Kind.REFUSED, "raise max_sessions"),
    Fault("connector_reconnects", reconnects, FROM, Kind.CONNECTOR_RECONNECTS, "an instance of its own"),
    Fault("supervisor_lost", without_supervisor, "deployment lost.toml", Kind.NOT_CONNECTED, "start the deployment again", False),
    Fault("planner_frozen", of_pipeline(planner_silent_ms=LASTS_MS), TOTALS, Kind.PIPELINE_SILENT, "Python processes"),
    Fault("connector_fails", failing, FROM, Kind.CONNECTOR_FAILS, "correct what the error names"),
    Fault("stream_closed", closed, "stream source0/0", Kind.NOT_SENT, "check the connector's configuration"),
    Fault("source_never_started", unmatched("absent/*"), "source absent", Kind.CONNECTOR_AWAY, "start the connector"),
    Fault("pattern_wrong", unmatched("source0/x*"), TOTALS, Kind.NOT_SENT, "compare its option stream"),
    Fault("connector_killed", without_source, FROM, Kind.CONNECTOR_AWAY, "start the connector"),
    Fault("network_cut", silent(is_source=True), FROM, Kind.CONNECTOR_SILENT, "network"),
    Fault(
        "broker_stopped",
        reports(connector_pb2.CONNECTOR_STATE_WAITING, is_source=True),
        FROM,
        Kind.CONNECTOR_REPORTS,
        "restore the connector's system",
    ),
    Fault("source_stalled", stalled, "stream source0/0", Kind.SOURCE_STALLED, "restart the connector"),
    Fault("expired_position", lost, "stream source0/0", Kind.POSITION_LOST, "failOnDataLoss"),
    Fault("stream_unread", unread, "stream other/0", Kind.NOT_READ, "start the query"),
    Fault("sink_killed", without_sink, OUT, Kind.SINK_AWAY, "start its connector"),
    Fault("sink_silent", silent(is_source=False), TO, Kind.CONNECTOR_SILENT, "network"),
    Fault(
        "receiver_refuses",
        reports(connector_pb2.CONNECTOR_STATE_WAITING, is_source=False),
        TO,
        Kind.CONNECTOR_REPORTS,
        "restore the connector's system",
    ),
    Fault("disk_full_at_the_sink", of_sink(failure="no space", failure_age_ms=LASTS_MS), OUT, Kind.SINK_FAILS, "restore"),
    Fault("sink_hanging", of_sink(outstanding="has not voted", outstanding_ms=LASTS_MS), OUT, Kind.SINK_SLOW, "look at what"),
    Fault("sink_failed_the_batch", failed(metrics.RUN_FAULT_ORIGIN_SINK, "out0"), OUT, Kind.SINK_FAILS, "restore what the sink"),
    Fault(
        "sink_lost",
        of_sink(lost=[pb.LostVote(instance="to0", transaction=Transaction(pipeline="totals0", batch=7))]),
        OUT,
        Kind.SINK_LOST,
        "onSinkLoss=accept",
    ),
    Fault("function_raises", failed(metrics.RUN_FAULT_ORIGIN_FUNCTION), TOTALS, Kind.PIPELINE_FAILS, "correct the function"),
    Fault("source_failed_the_batch", failed(metrics.RUN_FAULT_ORIGIN_SOURCE), TOTALS, Kind.PIPELINE_FAILS, "look at the source"),
    Fault("checkpoint_disk_full", full_checkpoint, TOTALS, Kind.PIPELINE_FAILS, "make room"),
    Fault("descriptors_exhausted", failed(metrics.RUN_FAULT_ORIGIN_SPARK), TOTALS, Kind.PIPELINE_FAILS, "give Spark"),
    Fault("unknown_error", failed(metrics.RUN_FAULT_ORIGIN_UNSPECIFIED), TOTALS, Kind.PIPELINE_FAILS, "log of the query"),
    Fault(
        "function_never_returns",
        hindered(metrics.RUN_FAULT_KIND_FUNCTION_RUNS),
        TOTALS,
        Kind.BATCH_STUCK,
        "correct the function",
    ),
    Fault("executor_lost", hindered(metrics.RUN_FAULT_KIND_EXECUTORS_LOST), TOTALS, Kind.EXECUTOR_LOST, "look at the cluster"),
    Fault("driver_frozen", of_pipeline(silent_ms=LASTS_MS), TOTALS, Kind.PIPELINE_SILENT, "which loses nothing"),
    Fault(
        "second_driver",
        of_pipeline(rival=pb.RivalRun(run="run 2", peer="there", age_ms=LASTS_MS)),
        TOTALS,
        Kind.SECOND_DRIVER,
        "stop one of the two",
    ),
    Fault("query_stopped", without_query(pb.PIPELINE_STATE_DETACHED), TOTALS, Kind.PIPELINE_DETACHED, "start the query"),
    Fault("query_never_started", without_query(pb.PIPELINE_STATE_AWAITED), TOTALS, Kind.PIPELINE_AWAITED, "start its query"),
    Fault(
        "application_ended",
        without_query(pb.PIPELINE_STATE_DETACHED, pb.PROCESS_STATE_KIND_ENDED),
        TOTALS,
        Kind.PIPELINE_ENDED,
        "start the deployment again",
    ),
    Fault("log_folder_full", without_log, "log of process app0 of full.toml", Kind.LOG_FAILS, "make room", False),
    Fault("slow_commit_log", of_pipeline(voted_ms=LASTS_MS), TOTALS, Kind.COMMIT_SLOW, "storage of its checkpoint"),
    Fault("query_stuck", of_pipeline(batch_ms=AGE_MS), TOTALS, Kind.BATCH_STUCK, "look at the query in Spark"),
)
"""All faults that a status shows. `driver_killed` differs by whether a supervisor starts the driver again."""


def driver_killed(*, is_deployed: bool) -> Fault:
    """The fault of a driver that was killed."""
    if is_deployed:
        return Fault("driver_killed", without_pipeline, TOTALS, Kind.PIPELINE_FAILS, "the supervisor starts it again")
    return Fault("driver_killed", without_pipeline, TOTALS, Kind.PIPELINE_AWAY, "start the query again")

"""What is wrong, and why: the degraded parts of a status, each with its first cause.

A part may be degraded because of another one: a query waits because its sink is away, and the sink's connector has reported why.
Its problem then has the cause of the part where it began, the root.
"""

from collections.abc import Iterable, Iterator, Mapping

from headrace.contract.names import covers, source_of
from headrace.gateway.core.failing import failing
from headrace.gateway.core.heartbeat import SILENT_AFTER_S
from headrace.gateway.core.pauses import CONFIGURATION
from headrace.gateway.core.pipeline_processes import PipelineProcesses, pipeline_processes
from headrace.gateway.core.problem import Kind, Problem
from headrace.gateway.core.unresolved import errors_of_sink, errors_of_source
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import connector_pb2, metrics_pb2
from headrace.protocol.v1.connector_pb2 import ConnectorError

_CLOCK_MS = 1_000
"""How much earlier than a state its first error may have occurred, in milliseconds: both ages are rounded and sent."""


_RUN_FAULTS = {
    metrics_pb2.RUN_FAULT_KIND_BATCH_FAILED: (
        Kind.PIPELINE_FAILS,
        "correct the application and start it again; nothing is lost: the micro-batch runs again",
    ),
    metrics_pb2.RUN_FAULT_KIND_EXECUTORS_LOST: (
        Kind.EXECUTOR_LOST,
        "look at the cluster: why executors ended, and why it does not start others",
    ),
    metrics_pb2.RUN_FAULT_KIND_FUNCTION_RUNS: (
        Kind.BATCH_STUCK,
        "if the function does not return by itself, stop the application, correct the function, and start it again",
    ),
}
"""The kinds of problems that drivers report, and what to do."""


def problems(status: pb.GetStatusResponse, stuck_after_ms: int, slow_after_ms: int) -> list[Problem]:
    """Returns the problems of a status, roots before what follows from them; none if all is well.

    Args:
        status: The status.
        stuck_after_ms: After how many milliseconds without a commit a micro-batch is stuck.
        slow_after_ms: After how many milliseconds without an answer a sink or a commit log is slow.
    """
    found: dict[str, Problem] = {}
    _add(found, _gateway(status.gateway))
    by_session: dict[str, Problem | None] = dict.fromkeys(session.session for session in status.sessions)
    live_ms = {stream.stream: stream.state_age_ms for stream in status.streams if stream.state == pb.STREAM_STATE_LIVE}
    for session in status.sessions:
        of_session = list(_session(session, live_ms))
        _add(found, of_session)
        if of_session:
            by_session[session.session] = of_session[0]
    sinks_failing = {sink.sink for sink in status.sinks if sink.failure}
    for serving in status.sink_sessions:
        errors = errors_of_sink(serving, fails=serving.sink in sinks_failing)
        _add(found, _silent(_connector_of(serving.sink, serving.instance), serving))
        _add(found, _reports(_connector_of(serving.sink, serving.instance), serving.reported, errors))
    processes, absent = failing(status), dict[str, Problem]()
    _add(found, processes.all)
    for stream in status.streams:
        _add(found, _stream(stream, by_session, absent, processes.of_stream(stream.stream)))
    ages = {(session.sink, session.instance): session.age_ms for session in status.sink_sessions}
    for sink in status.sinks:
        _add(found, _sink(sink, ages, slow_after_ms, found, processes.by_sink.get(sink.sink)))
    holders, runs = _holders(status.streams), pipeline_processes(status)
    suspects = [stream.stream for stream in status.streams if f"stream {stream.stream}" in found]
    for pipeline in status.pipelines:
        held_ms = holders.get(pipeline.pipeline)
        _add(found, _pipeline(pipeline, status, held_ms, runs, stuck_after_ms, slow_after_ms, suspects, found))
    _add(found, runs.down)
    for stream in status.streams:
        if stream.state == pb.STREAM_STATE_PARKED:
            _add(found, _parked(stream, status.pipelines, runs, found))
    return list(found.values())


def _add(found: dict[str, Problem], problems: Iterable[Problem]) -> None:
    """Adds problems of parts that have none yet."""
    for problem in problems:
        found.setdefault(problem.part, problem)


def _connector_of(sink: str, instance: str) -> str:
    """Returns the part that is an instance of a sink: instances of sources and of other sinks may have the same name."""
    return f"connector {instance} of sink {sink}"


def _gateway(gateway: pb.GatewayStatus) -> Iterator[Problem]:
    if gateway.draining:
        yield Problem("gateway", Kind.STOPPING, "the gateway is stopping", 0, "start it again, or wait for its successor")
    if gateway.HasField("clock_jump_ms"):
        way = "forward" if gateway.clock_jump_ms > 0 else "back"
        cause = f"the clock of its machine was set {way} by {abs(gateway.clock_jump_ms) / 1000:.1f} s"
        remedy = "check the machine's time service; functions that use the time of day may have been wrong"
        yield Problem("gateway", Kind.CLOCK_JUMPED, cause, gateway.clock_jump_age_ms, remedy)


def _session(session: pb.SessionStatus, live_ms: Mapping[str, int]) -> Iterator[Problem]:
    part = f"connector {session.instance}"
    yield from _silent(part, session)
    yield from _reports(part, session.reported, errors_of_source(session, live_ms))
    yield from _paused(part, session)


def _silent(part: str, session: pb.SessionStatus | pb.SinkSessionStatus) -> Iterator[Problem]:
    """Yields that a connector sends nothing. It comes before what the connector has reported, which is out of date."""
    if session.HasField("silent_ms"):
        cause = f"it is connected from {session.peer}, and has sent nothing for more than {SILENT_AFTER_S:.0f} s"
        remedy = "check the network between its host and the gateway, and whether its process runs; its session goes on meanwhile"
        yield Problem(part, Kind.CONNECTOR_SILENT, cause, session.silent_ms, remedy)


def _reports(part: str, reported: pb.ReportedStatus, errors: list[ConnectorError]) -> Iterator[Problem]:
    """Yields what a connector reports: the first error of its state, not the last.

    Args:
        part: The connector.
        reported: What it reports.
        errors: The errors that count if it says that it runs.
    """
    remedy = "restore the connector's system, or correct its configuration; its log has more"
    if reported.state in (connector_pb2.CONNECTOR_STATE_DEGRADED, connector_pb2.CONNECTOR_STATE_WAITING):
        of_state = [error for error in reported.errors if error.age_ms <= reported.state_age_ms + _CLOCK_MS]
        cause = ": ".join(text for text in (reported.reason, of_state[0].message if of_state else "") if text)
        what = "is degraded" if reported.state == connector_pb2.CONNECTOR_STATE_DEGRADED else "waits for its system"
        cause = cause or f"it reports that it {what}, and no reason"
        yield Problem(part, Kind.CONNECTOR_REPORTS, cause, reported.state_age_ms, remedy)
    elif errors:
        yield Problem(part, Kind.CONNECTOR_REPORTS, errors[0].message, errors[0].age_ms, remedy)


def _stream(
    stream: pb.StreamStatus, by_session: Mapping[str, Problem | None], absent: dict[str, Problem], process: Problem | None
) -> Iterator[Problem]:
    """Yields the problem of a stream. What counts is what its own session has said, not one that shares its instance's name.

    Args:
        stream: The stream.
        by_session: The first problem of each source's session; None for one that has none.
        absent: The connectors that have no session, each as the first of its streams tells.
        process: Why the process of its connector fails, if its supervisor knows.
    """
    part = f"stream {stream.stream}"
    if stream.state == pb.STREAM_STATE_LOST:
        remedy = "restore the source and restart the query, or restart it with failOnDataLoss=false to skip what is lost"
        yield Problem(part, Kind.POSITION_LOST, stream.detail, stream.state_age_ms, remedy)
    elif stream.state == pb.STREAM_STATE_DETACHED and (stream.readers or stream.lag_messages):
        if stream.session in by_session:
            cause = f"instance {stream.last_instance} is connected, and no longer sends this stream"
            remedy = "check the connector's configuration and its log; restart it if its source still has the stream"
            if not stream.HasField("paused"):
                # A paused stream is opened again in a moment.
                yield Problem(part, Kind.NOT_SENT, cause, stream.state_age_ms, remedy)
            yield from _paused(part, stream)
            return
        if process is not None:
            yield process.within(part)
            return
        if stream.last_instance:
            connector = f"connector {stream.last_instance}"
            cause = f"its session has ended: {stream.last_error}" if stream.last_error else "its session has ended"
        else:
            connector, cause = (
                f"source {source_of(stream.stream)}",
                "no connector has opened its streams since the gateway started",
            )
        remedy = "start the connector; if it runs, its log says why it has no session"
        away = absent.setdefault(connector, Problem(connector, Kind.CONNECTOR_AWAY, cause, stream.state_age_ms, remedy))
        yield away
        yield away.within(part)
    elif stream.HasField("stalled_ms"):
        yield _stalled(part, stream)
    elif stream.state in (pb.STREAM_STATE_LIVE, pb.STREAM_STATE_PARKED) and (root := by_session.get(stream.session)):
        yield root.within(part)
    yield from _paused(part, stream)


def _stalled(part: str, stream: pb.StreamStatus) -> Problem:
    """Returns that a stream has stalled. Its connector says that it works, so what it has reported is not the cause."""
    if stream.lag_messages or stream.lag_bytes:
        lag = f"{stream.lag_messages:,} messages" if stream.lag_messages else f"{stream.lag_bytes:,} bytes"
    else:
        lag = f"everything up to sequence {stream.latest_sequence}"
    lasts_s = stream.stalled_ms // 1000
    cause = f"it lags by {lag}, and instance {stream.instance}, which has credit, has sent nothing of it for {lasts_s} s"
    remedy = "restart the connector, which loses nothing; if this comes back, its log and its system may have more"
    return Problem(part, Kind.SOURCE_STALLED, cause, stream.stalled_ms, remedy)


def _paused(part: str, status: pb.StreamStatus | pb.SessionStatus | pb.PipelineStatus | pb.SinkStatus) -> Iterator[Problem]:
    """Yields the pause of a part: not a fault, but the first cause of what waits for the part."""
    if status.HasField("paused"):
        pause = status.paused
        remedy = f"run: headrace resume {pause.part}"
        if pause.by == CONFIGURATION:
            remedy = "remove it from [paused] in the gateway's configuration, and run: headrace gateway reload"
        yield Problem(pause.part, Kind.PAUSED, f"paused by {pause.by}", pause.age_ms, remedy).within(part)


def _sink(
    sink: pb.SinkStatus,
    ages: Mapping[tuple[str, str], int],
    slow_after_ms: int,
    found: Mapping[str, Problem],
    process: Problem | None,
) -> Iterator[Problem]:
    part = f"sink {sink.sink}"
    for lost in sink.lost:
        cause = (
            f"instance {lost.instance} voted for batch {lost.transaction.batch} of pipeline {lost.transaction.pipeline}, "
            "and has come back without it"
        )
        remedy = "restore its storage and restart the connector, or restart the query with onSinkLoss=accept"
        yield Problem(part, Kind.SINK_LOST, cause, ages.get((sink.sink, lost.instance), 0), remedy)
    for instance in sink.instances:
        if root := found.get(_connector_of(sink.sink, instance)):
            yield root.within(part)
    if process is not None and (sink.away or not sink.instances):
        yield process.within(part)
    if not sink.instances and (sink.writers or sink.pending_transactions):
        cause = (
            f"no connector serves it; the last one ended with: {sink.last_error}" if sink.last_error else "no connector serves it"
        )
        remedy = "start its connector; if it runs, its log says why it has no session"
        yield Problem(part, Kind.SINK_AWAY, cause, sink.absent_ms, remedy)
    elif sink.failure:
        remedy = "restore what the sink writes to; transactions are retried"
        yield Problem(part, Kind.SINK_FAILS, sink.failure, sink.failure_age_ms, remedy)
    elif sink.away:
        cause = f"instance {', '.join(sink.away)} has left, and holds transactions that are not visible yet"
        yield Problem(part, Kind.SINK_AWAY, cause, 0, "start this instance again: only it has what it has prepared")
    elif sink.outstanding_ms >= slow_after_ms:
        remedy = "look at what the sink writes to: it takes what it is given, and does not complete it"
        yield Problem(part, Kind.SINK_SLOW, sink.outstanding, sink.outstanding_ms, remedy)
    yield from _paused(part, sink)


def _holders(streams: Iterable[pb.StreamStatus]) -> dict[str, int]:
    """Returns for how long each pipeline has held acknowledgements of a stream without progress, in milliseconds."""
    held: dict[str, int] = {}
    for stream in streams:
        for holder in stream.holders:
            held[holder.pipeline] = max(holder.held_ms, held.get(holder.pipeline, 0))
    return held


def _pipeline(
    pipeline: pb.PipelineStatus,
    status: pb.GetStatusResponse,
    held_ms: int | None,
    runs: PipelineProcesses,
    stuck_after_ms: int,
    slow_after_ms: int,
    suspects: list[str],
    found: Mapping[str, Problem],
) -> Iterator[Problem]:
    """Yields the problem of a pipeline; its root is a sink or a stream that it cannot continue without, if there is one."""
    part, name = f"pipeline {pipeline.pipeline}", pipeline.pipeline
    streams = [found[f"stream {stream}"] for stream in suspects if any(covers(p, stream) for p in pipeline.patterns)]
    fatal = [problem for problem in streams if problem.kind is Kind.POSITION_LOST]
    for sink in status.sinks:
        problem = found.get(f"sink {sink.sink}")
        if problem is not None and (name in sink.writers or any(lost.transaction.pipeline == name for lost in sink.lost)):
            fatal.append(problem)
    faults = [problem for problem in fatal if problem.is_fault]
    if faults:
        yield faults[0].within(part)
    elif pipeline.fault.kind in _RUN_FAULTS:
        kind, remedy = _RUN_FAULTS[pipeline.fault.kind]
        batch = f"batch {pipeline.fault.batch}: " if pipeline.fault.HasField("batch") else ""
        yield Problem(part, kind, f"{batch}{pipeline.fault.message}", pipeline.fault.age_ms, remedy)
    elif (pipeline.state == pb.PIPELINE_STATE_AWAY or held_ms is not None) and (process := runs.of_pipeline(name)):
        yield process
    elif pipeline.state == pb.PIPELINE_STATE_AWAY:
        cause = f"its lease has ended: it has not called for {pipeline.idle_ms // 1000} s"
        remedy = f"restart the query if its machine has failed, or run: headrace forget {name}"
        yield Problem(part, Kind.PIPELINE_AWAY, cause, pipeline.away_ms, remedy)
    elif pipeline.state == pb.PIPELINE_STATE_DETACHED and held_ms is not None:
        cause = "its query has stopped, and has not read all that was received"
        yield Problem(part, Kind.PIPELINE_DETACHED, cause, pipeline.idle_ms, f"start the query, or run: headrace forget {name}")
    elif pipeline.state == pb.PIPELINE_STATE_AWAITED and held_ms is not None:
        cause = "acknowledgements wait for it, and it has not attached since the gateway started"
        remedy = "start its query, or remove it from [[streams]] of the gateway's configuration"
        yield Problem(part, Kind.PIPELINE_AWAITED, cause, held_ms, remedy)
    elif pipeline.voted_ms >= slow_after_ms:
        cause = "its sinks have voted for its micro-batch, and its commit log does not have it"
        remedy = "look at the storage of its checkpoint; it must take a small file within seconds"
        yield Problem(part, Kind.COMMIT_SLOW, cause, pipeline.voted_ms, remedy)
    elif pipeline.HasField("paused") and pipeline.batch_ms < stuck_after_ms:
        yield from _paused(part, pipeline)
    elif fatal and pipeline.batch_ms < stuck_after_ms:
        # It waits for a paused sink.
        yield fatal[0].within(part)
    elif pipeline.state == pb.PIPELINE_STATE_ATTACHED:
        stuck_ms = max(pipeline.batch_ms, held_ms or 0)
        if stuck_ms < stuck_after_ms:
            return
        if streams:
            yield min(streams, key=lambda problem: not problem.is_fault).within(part)
            return
        what = (
            f"its micro-batch was planned {pipeline.batch_ms // 1000} s ago" if pipeline.batch_ms else "it plans no micro-batch"
        )
        cause = f"{what}, and it has committed nothing since"
        remedy = "look at the query in Spark: its executors, and the time that its functions take"
        yield Problem(part, Kind.BATCH_STUCK, cause, stuck_ms, remedy)


def _parked(
    stream: pb.StreamStatus, pipelines: Iterable[pb.PipelineStatus], runs: PipelineProcesses, found: Mapping[str, Problem]
) -> Iterator[Problem]:
    """Yields the problem of a stream that a connector offers and no query reads."""
    part = f"stream {stream.stream}"
    readers = [p for p in pipelines if any(covers(pattern, stream.stream) for pattern in p.patterns)]
    for reader in readers:
        if root := found.get(f"pipeline {reader.pipeline}"):
            yield root.within(part)
    if process := runs.of_stream(stream.stream):
        yield process
        yield process.within(part)
    names = ", ".join(reader.pipeline for reader in readers)
    cause = f"pipeline {names} reads it, and has not said where it resumes" if names else "no query reads it"
    remedy = "start the query; compare its option stream with the stream's name"
    yield Problem(part, Kind.NOT_READ, cause, stream.state_age_ms, remedy)

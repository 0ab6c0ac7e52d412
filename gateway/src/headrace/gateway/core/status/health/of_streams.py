"""Every stream that has messages left and credit sends, from a position that its source still has, and a query reads it."""

from collections.abc import Iterator

from headrace.contract.counts import counted
from headrace.contract.names import covers, source_of
from headrace.gateway.core.connections import Role
from headrace.gateway.core.status.health.of_gateway import CONNECTS_WITHIN_MS
from headrace.gateway.core.status.health.site import Site, paused
from headrace.gateway.core.status.problem import Kind, Problem
from headrace.protocol.v1 import admin_pb2 as pb


def of_stream(site: Site, stream: pb.StreamStatus) -> Iterator[Problem]:
    """Yields the problem of a stream. What counts is what its own session has said, not one that shares its instance's name."""
    part = f"stream {stream.stream}"
    if stream.state == pb.STREAM_STATE_LOST:
        remedy = "restore the source and restart the query, or restart it with failOnDataLoss=false to skip what is lost"
        yield Problem(part, Kind.POSITION_LOST, stream.detail, stream.state_age_ms, remedy)
    elif stream.state == pb.STREAM_STATE_DETACHED and (stream.readers or stream.lag_messages):
        yield from _detached(site, stream, part)
        return
    elif stream.HasField("stalled_ms"):
        yield _stalled(part, stream)
    elif stream.state in (pb.STREAM_STATE_LIVE, pb.STREAM_STATE_PARKED) and (root := site.of_session.get(stream.session)):
        yield root.within(part)
    yield from paused(part, stream)


def of_unmatched(site: Site, part: str, unmatched: pb.UnmatchedPattern) -> Iterator[Problem]:
    """Yields why a query has no stream to read for one of its patterns. A connector that has opened none may have nothing yet.

    Args:
        site: The site.
        part: The pipeline.
        unmatched: The pattern.
    """
    source = source_of(unmatched.pattern)
    if (process := site.processes.by_source.get(source)) is not None:
        yield process.within(part)
        return
    if unmatched.age_ms < CONNECTS_WITHIN_MS or any(not session.streams for session in site.status.sessions):
        return
    if any(covers(f"{source}/*", stream.stream) for stream in site.status.streams):
        cause = f"it reads {unmatched.pattern!r}, and no stream of this source has such a name"
        remedy = "compare its option stream with the names of the streams, which headrace status lists; or open the stream"
        yield Problem(part, Kind.NOT_SENT, cause, unmatched.age_ms, remedy)
        return
    connector, cause = f"source {source}", f"no connector sends {unmatched.pattern!r}"
    if (awaited := _replay_awaited(site, source, [part.removeprefix("pipeline ")], cause, unmatched.age_ms)) is not None:
        # Not within the pipeline, whose faults it would hide.
        yield awaited
        return
    remedy = "start the connector; if it runs, its log says why it has no session, or compare the query's option stream"
    yield from _away(site, part, Problem(connector, Kind.CONNECTOR_AWAY, cause, unmatched.age_ms, remedy))


def _replay_awaited(site: Site, source: str, readers: list[str], cause: str, age_ms: int) -> Problem | None:
    """Returns that a source without a connector is sent by replays, if a deployment can replay what its readers write."""
    connectors = [one for deployment in site.status.deployments for one in deployment.connectors]
    replays = sorted({one.replays for one in connectors} & site.sinks.keys())
    letters = next((name for name in replays if not {*site.sinks[name].writers}.isdisjoint(readers)), None)
    if letters is None or any(one.source == source for one in connectors):
        return None
    cause = f"{cause}, which may be for replays of dead letters: the pipeline writes them to {letters}"
    remedy = f"none for replays: headrace dead-letters replay {letters} --source {source}; else start the connector"
    return Problem(f"source {source}", Kind.REPLAY_AWAITED, cause, age_ms, remedy)


def _away(site: Site, part: str, problem: Problem) -> Iterator[Problem]:
    """Yields that a connector is away, in the words of the first part that misses it, and that this part waits for it."""
    away = site.absent.get(problem.part)
    if away is None:
        away = site.absent[problem.part] = site.refused.why(problem, Role.SOURCE)
    yield away
    yield away.within(part)


def _detached(site: Site, stream: pb.StreamStatus, part: str) -> Iterator[Problem]:
    """Yields why a stream that somebody needs is not open."""
    if stream.session in site.of_session:
        if refusal := site.refused.by_part.get(part):
            yield refusal
        cause = f"instance {stream.last_instance} is connected, and no longer sends this stream"
        remedy = "check the connector's configuration and its log; restart it if its source still has the stream"
        if not stream.HasField("paused"):
            # A paused stream is opened again in a moment.
            yield Problem(part, Kind.NOT_SENT, cause, stream.state_age_ms, remedy)
        yield from paused(part, stream)
        return
    if (process := site.processes.of_stream(stream.stream)) is not None:
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
        readers = [one.pipeline for one in site.status.pipelines if any(covers(each, stream.stream) for each in one.patterns)]
        awaited = _replay_awaited(site, source_of(stream.stream), readers, cause, stream.state_age_ms)
        if awaited is not None and not stream.lag_messages:
            # It was replayed through an earlier gateway, and is in the checkpoint.
            yield awaited
            return
    remedy = "start the connector; if it runs, its log says why it has no session"
    yield from _away(site, part, Problem(connector, Kind.CONNECTOR_AWAY, cause, stream.state_age_ms, remedy))


def _stalled(part: str, stream: pb.StreamStatus) -> Problem:
    """Returns that a stream has stalled. Its connector says that it works, so what it has reported is not the cause."""
    if stream.lag_messages or stream.lag_bytes:
        lag = counted(stream.lag_messages, "message") if stream.lag_messages else counted(stream.lag_bytes, "byte")
    else:
        lag = f"everything up to sequence {stream.latest_sequence}"
    cause = f"it lags by {lag}, and instance {stream.instance}, which has credit, sends nothing of it"
    remedy = "restart the connector, which loses nothing; if this comes back, its log and its system may have more"
    return Problem(part, Kind.SOURCE_STALLED, cause, stream.stalled_ms, remedy)


def of_parked_stream(site: Site, stream: pb.StreamStatus) -> Iterator[Problem]:
    """Yields the problem of a stream that a connector offers and no query reads. Pipelines were looked at before."""
    part = f"stream {stream.stream}"
    readers = [p for p in site.status.pipelines if any(covers(pattern, stream.stream) for pattern in p.patterns)]
    for reader in readers:
        if root := site.found.get(f"pipeline {reader.pipeline}"):
            yield root.within(part)
    if process := site.runs.of_stream(stream.stream):
        yield process
        yield process.within(part)
    names = ", ".join(reader.pipeline for reader in readers)
    cause = f"pipeline {names} reads it, and has not said where it resumes" if names else "no query reads it"
    remedy = "start the query; compare its option stream with the stream's name"
    yield Problem(part, Kind.NOT_READ, cause, stream.state_age_ms, remedy)

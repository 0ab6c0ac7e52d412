"""A status while its problems are looked for: what was found so far, and who has to do with whom."""

from collections.abc import Iterable, Iterator
from functools import cached_property

from headrace.contract.names import covers
from headrace.gateway.core.status.health.of_deployments import Failing, failing
from headrace.gateway.core.status.health.of_gateway import Refused
from headrace.gateway.core.status.pipeline_processes import PipelineProcesses, pipeline_processes
from headrace.gateway.core.status.problem import Kind, Problem
from headrace.gateway.core.streams import CONFIGURATION
from headrace.protocol.v1 import admin_pb2 as pb


class Site:
    """A status, and the problems that were found in it so far.

    Attributes:
        status: The status.
        stuck_after_ms: After how many milliseconds without a commit a micro-batch is stuck.
        slow_after_ms: After how many milliseconds without an answer a sink or a commit log is slow.
        found: The problems by part. Parts are looked at in the order in which causes spread, so a root comes first.
        of_session: The first problem of each source's session, by its id; None for one that has none.
        absent: The connectors that have no session, each as the first of its streams tells.
    """

    def __init__(self, status: pb.GetStatusResponse, stuck_after_ms: int, slow_after_ms: int) -> None:
        self.status = status
        self.stuck_after_ms = stuck_after_ms
        self.slow_after_ms = slow_after_ms
        self.found: dict[str, Problem] = {}
        self.of_session: dict[str, Problem | None] = dict.fromkeys(session.session for session in status.sessions)
        self.absent: dict[str, Problem] = {}

    def add(self, problems: Iterable[Problem]) -> None:
        """Adds problems of parts that have none yet."""
        for problem in problems:
            self.found.setdefault(problem.part, problem)

    @cached_property
    def refused(self) -> Refused:
        """Whom the gateway has refused."""
        return Refused(self.status)

    @cached_property
    def processes(self) -> Failing:
        """The connectors of deployments that are not connected."""
        return failing(self.status, self.refused)

    @cached_property
    def runs(self) -> PipelineProcesses:
        """Why pipelines of deployments are not attached, as far as their supervisors know."""
        return pipeline_processes(self.status)

    @cached_property
    def live_ms(self) -> dict[str, int]:
        """For how long each stream has been live, in milliseconds."""
        return {one.stream: one.state_age_ms for one in self.status.streams if one.state == pb.STREAM_STATE_LIVE}

    @cached_property
    def reconnecting(self) -> dict[str, pb.ReconnectingPart]:
        """The connectors whose sessions end again and again."""
        return {one.part: one for one in self.status.gateway.reconnecting}

    @cached_property
    def sinks(self) -> dict[str, pb.SinkStatus]:
        """The sinks, by name."""
        return {sink.sink: sink for sink in self.status.sinks}

    @cached_property
    def session_ages(self) -> dict[tuple[str, str], int]:
        """How old the session of each instance of a sink is, in milliseconds."""
        return {(session.sink, session.instance): session.age_ms for session in self.status.sink_sessions}

    @cached_property
    def faults(self) -> dict[str, pb.PipelineStatus]:
        """The pipelines whose drivers report why they make no progress, by name."""
        return {one.pipeline: one for one in self.status.pipelines if one.fault.kind}

    @cached_property
    def held_ms(self) -> dict[str, int]:
        """For how long each pipeline has held acknowledgements of a stream without progress, in milliseconds."""
        held: dict[str, int] = {}
        for stream in self.status.streams:
            for holder in stream.holders:
                held[holder.pipeline] = max(holder.held_ms, held.get(holder.pipeline, 0))
        return held

    @cached_property
    def suspects(self) -> list[str]:
        """The streams that have a problem. Asked for only once all streams were looked at."""
        return [stream.stream for stream in self.status.streams if f"stream {stream.stream}" in self.found]

    def problems_of_streams(self, pipeline: pb.PipelineStatus) -> list[Problem]:
        """Returns the problems of the streams that a pipeline reads."""
        read = (stream for stream in self.suspects if any(covers(pattern, stream) for pattern in pipeline.patterns))
        return [self.found[f"stream {stream}"] for stream in read]

    def problems_of_sinks(self, pipeline: str) -> list[Problem]:
        """Returns the problems of the sinks that a pipeline writes to, or that have lost what it has written."""
        found = []
        for sink in self.status.sinks:
            problem = self.found.get(f"sink {sink.sink}")
            if problem is not None and (
                pipeline in sink.writers or any(one.transaction.pipeline == pipeline for one in sink.lost)
            ):
                found.append(problem)
        return found


def paused(part: str, status: pb.StreamStatus | pb.SessionStatus | pb.PipelineStatus | pb.SinkStatus) -> Iterator[Problem]:
    """Yields the pause of a part: not a fault, but the first cause of what waits for the part."""
    if status.HasField("paused"):
        pause = status.paused
        remedy = f"run: headrace resume {pause.part}"
        if pause.by == CONFIGURATION:
            remedy = "remove it from [paused] in the gateway's configuration, and run: headrace gateway reload"
        yield Problem(pause.part, Kind.PAUSED, f"paused by {pause.by}", pause.age_ms, remedy).within(part)

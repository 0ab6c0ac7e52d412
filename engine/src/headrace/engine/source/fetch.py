"""Fetches the messages of ranges from the gateway, in as many calls as necessary."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import grpc

from headrace.engine._errors import FrameError, GatewayAway, MessagesLost, SourceSilent
from headrace.engine.checkpoint.position import Position
from headrace.engine.codec import Columns, columns, cut
from headrace.engine.source.options import Options
from headrace.engine.source.ranges import Range
from headrace.engine.wire.connection import Connection, to_error
from headrace.engine.wire.retry import Retry
from headrace.protocol.v1 import engine_pb2 as pb

PROGRESS_TIMEOUT_S = 10.0
"""How long, in seconds, the gateway waits for a source that sends none of the messages that a batch needs."""
_REQUEST_CURSORS_BYTES = 2**19
"""How large the cursors in one request are, at most, in bytes."""


@dataclass(frozen=True)
class PipelineRun:
    """One run of a pipeline, as identified to the gateway in every call.

    Attributes:
        name: The pipeline's name.
        number: The number of the run: one more than the number of the run before it.
        run_id: The run's unique id.
        checkpoint: The checkpoint's id.
        attachment: How many times the run has attached to a gateway.
    """

    name: str
    number: int
    run_id: str
    checkpoint: str
    attachment: int = 0

    def to_proto(self, options: Options) -> pb.Pipeline:
        """The wire form."""
        return pb.Pipeline(
            name=self.name,
            run=self.number,
            streams=options.streams,
            skip_lost=not options.fail_on_data_loss,
            run_id=self.run_id,
            checkpoint=self.checkpoint,
            attachment=self.attachment,
            driver=options.driver,
        )


def fetch(connection: Connection, pipeline: pb.Pipeline, ranges: Sequence[Range], retry: Retry) -> Iterator[Columns]:
    """Yields every message of the ranges exactly once, in order within each range.

    If a call breaks, the next one resumes after the last message received of each range.

    Raises:
        GatewayError: The gateway rejected a call, it or a source was unavailable until the timeout, or a source lost messages.
        FrameError: The columns of a frame are inconsistent.
    """
    left = list(ranges)
    progress_s = min(PROGRESS_TIMEOUT_S, retry.timeout_s)
    while left:
        try:
            for index, frame in _call(connection, pipeline, left, None, progress_s):
                retry.reset()
                part = cut(frame, left[index].low, left[index].end.sequence)
                if part is not None:
                    yield part
                    left[index] = replace(left[index], start=Position(left[index].end.epoch, part.last))
            _check_whole(pipeline, left)
            return
        except grpc.RpcError as error:
            away = _source_silent(error) or to_error(error, connection)
            if not isinstance(away, GatewayAway):
                raise away from None
            left = [r for r in left if r.low < r.end.sequence]
            retry.wait(away)


def fetch_once(connection: Connection, pipeline: pb.Pipeline, ranges: Sequence[Range], timeout_s: float) -> list[Columns]:
    """All messages of the ranges, fetched in one call with a deadline.

    Raises:
        GatewayError: The call failed, or exceeded the deadline.
        FrameError: The columns of a frame are inconsistent.
    """
    try:
        frames = _call(connection, pipeline, ranges, timeout_s, timeout_s)
        left = list(ranges)
        parts = []
        for index, frame in frames:
            part = cut(frame, left[index].low, left[index].end.sequence)
            if part is not None:
                parts.append(part)
                left[index] = replace(left[index], start=Position(left[index].end.epoch, part.last))
        _check_whole(pipeline, left)
        return parts
    except grpc.RpcError as error:
        raise to_error(error, connection) from None


def _source_silent(error: grpc.RpcError) -> SourceSilent | None:
    """The error if the gateway waited for a source in vain; None for other errors. The call itself has no deadline."""
    if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return SourceSilent(error.details() or "the source sends nothing")
    return None


def _check_whole(pipeline: pb.Pipeline, left: Sequence[Range]) -> None:
    """Checks that the last message of each range has arrived: only a redelivering stream may lack it.

    Raises:
        MessagesLost: A range ended early.
    """
    for r in left:
        is_resumable = r.batch_end.begin is not None
        must_arrive = is_resumable or (r.end.epoch == 0 and not pipeline.skip_lost)
        if must_arrive and r.end == r.batch_end and r.low < r.end.sequence:
            raise MessagesLost(
                f"stream {r.stream}: the messages after sequence {r.low} up to {r.end.sequence} were planned and did not arrive; "
                "restore the source, or set failOnDataLoss to false to continue without the lost messages"
            )


def _call(
    connection: Connection, pipeline: pb.Pipeline, ranges: Sequence[Range], timeout_s: float | None, progress_s: float
) -> Iterator[tuple[int, Columns]]:
    first = 0
    for part in _in_parts(ranges):
        request = pb.FetchRequest(
            pipeline=pipeline, ranges=[r.to_proto() for r in part], progress_timeout_ms=int(progress_s * 1000)
        )
        call = connection.stub().Fetch(request, metadata=connection.metadata, timeout=timeout_s)
        try:
            for response in call:
                for found in response.frames:
                    if found.range >= len(part):
                        raise FrameError(f"received a frame of range {found.range}, but requested only {len(part)} ranges")
                    yield first + found.range, columns(part[found.range].stream, found.frame)
        finally:
            call.cancel()
        first += len(part)


def _in_parts(ranges: Sequence[Range]) -> Iterator[Sequence[Range]]:
    """Divides ranges into requests that any gateway reads, in order: each range has four cursors, of up to 64 KiB each."""
    begin = size = 0
    for index, r in enumerate(ranges):
        more = sum(len(at.cursor or b"") for at in (r.committed, r.start, r.end, r.batch_end) if at is not None)
        if size + more > _REQUEST_CURSORS_BYTES and index > begin:
            yield ranges[begin:index]
            begin, size = index, 0
        size += more
    yield ranges[begin:]

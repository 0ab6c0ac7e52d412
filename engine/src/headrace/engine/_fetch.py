"""Fetches the messages of ranges from the gateway, over as many calls as it takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import grpc

from headrace.engine._connection import Connection, to_error
from headrace.engine._decode import Columns, columns, cut
from headrace.engine._errors import FrameError, GatewayAway, MessagesLost, SourceSilent
from headrace.engine._options import Options
from headrace.engine._patience import Patience
from headrace.engine._position import Position
from headrace.engine._ranges import Range
from headrace.protocol.v1 import engine_pb2 as pb

PROGRESS_TIMEOUT_S = 10.0
"""How long the gateway waits for a source that sends nothing of what a batch needs, before it says so."""


@dataclass(frozen=True)
class PipelineRun:
    """One run of a pipeline, as the gateway is told with every call.

    Attributes:
        name: The pipeline's name.
        run: The run's number.
        run_id: The run's unique id; empty where the checkpoint is from before there were such ids.
        checkpoint: The checkpoint's id; empty likewise.
    """

    name: str
    run: int
    run_id: str = ""
    checkpoint: str = ""

    def to_proto(self, options: Options) -> pb.Pipeline:
        """The wire form."""
        return pb.Pipeline(
            name=self.name,
            run=self.run,
            streams=options.streams,
            skip_lost=not options.fail_on_data_loss,
            run_id=self.run_id,
            checkpoint=self.checkpoint,
        )


def fetch(connection: Connection, pipeline: pb.Pipeline, ranges: Sequence[Range], patience: Patience) -> Iterator[Columns]:
    """Every message of the ranges exactly once, in order within each range.

    A call that breaks is taken up again after the last message of each range that came through.

    Raises:
        GatewayError: the gateway refused, it or a source was away for too long, or a source lost messages.
        FrameError: a frame's sequences do not add up.
    """
    left = list(ranges)
    progress_s = min(PROGRESS_TIMEOUT_S, patience.timeout_s)
    while left:
        try:
            for index, frame in _call(connection, pipeline, left, None, progress_s):
                patience.answered()
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
            patience.wait(away)


def fetch_once(connection: Connection, pipeline: pb.Pipeline, ranges: Sequence[Range], timeout_s: float) -> list[Columns]:
    """Every message of the ranges, in one call that must end in time.

    Raises:
        GatewayError: the call failed, or took too long.
        FrameError: a frame's sequences do not add up.
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
    """The gateway's word that it waits for a source; None where the call, which has no deadline of its own, ended otherwise."""
    if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return SourceSilent(error.details() or "the source sends nothing")
    return None


def _check_whole(pipeline: pb.Pipeline, left: Sequence[Range]) -> None:
    """Refuses to commit a batch whose last messages did not come: a replayable stream has the message that it ends with.

    Raises:
        MessagesLost: a range ended early.
    """
    for r in left:
        if r.end.epoch == 0 and r.end == r.batch_end and r.low < r.end.sequence and not pipeline.skip_lost:
            raise MessagesLost(
                f"stream {r.stream}: what follows sequence {r.low} was planned up to {r.end.sequence} and did not come; "
                "restore the source, or set failOnDataLoss to false to go on without what is lost"
            )


def _call(
    connection: Connection, pipeline: pb.Pipeline, ranges: Sequence[Range], timeout_s: float | None, progress_s: float
) -> Iterator[tuple[int, Columns]]:
    request = pb.FetchRequest(
        pipeline=pipeline, ranges=[r.to_proto() for r in ranges], progress_timeout_ms=int(progress_s * 1000)
    )
    call = connection.stub().Fetch(request, metadata=connection.metadata, timeout=timeout_s)
    try:
        for response in call:
            for found in response.frames:
                if found.range >= len(ranges):
                    raise FrameError(f"a frame of range {found.range} came, and {len(ranges)} were asked for")
                yield found.range, columns(ranges[found.range].stream, found.frame)
    finally:
        call.cancel()

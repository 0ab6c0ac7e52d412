"""The micro-batches of a pipeline as protocol messages."""

from collections.abc import Iterator

from headrace.contract.limits import MAX_BATCH_STREAMS
from headrace.gateway.core.base.position import BEGINNING, to_proto
from headrace.gateway.core.base.slices import in_slices
from headrace.gateway.core.pipelines import Batch, BatchStream, Pipeline, Stage
from headrace.protocol.v1 import admin_pb2 as pb


async def list_batches(
    pipeline: Pipeline, limit: int, number: int | None = None, streams: int = MAX_BATCH_STREAMS
) -> pb.ListBatchesResponse:
    """Returns the last micro-batches of a pipeline, newest first, as they are at the call.

    Hundreds of them name tens of thousands of streams, so they are converted in slices.

    Args:
        pipeline: The pipeline.
        limit: How many of the last ones are considered.
        number: The only one that is returned, if the pipeline has it; None for all.
        streams: How many streams of each are named.
    """
    batches = [batch for batch in pipeline.timeline.batches(limit) if number in (None, batch.number)]
    response = pb.ListBatchesResponse(pipeline=pipeline.name)

    def steps() -> Iterator[int]:
        for batch in batches:
            response.batches.append(_batch(batch, streams))
            yield 1 + len(batch.streams[:streams])

    await in_slices(steps())
    return response


def stage_to_proto(stage: Stage) -> pb.BatchStage.ValueType:
    """Converts a stage to the protocol."""
    return pb.BatchStage.Value(f"BATCH_STAGE_{stage.name}")


def _batch(batch: Batch, streams: int) -> pb.BatchStatus:
    return pb.BatchStatus(
        batch=batch.number,
        rebuilt=batch.rebuilt,
        stages=[
            pb.BatchStageTime(stage=stage_to_proto(stage), at_ms=round(at * 1000))
            for stage in Stage
            if (at := batch.time(stage)) is not None
        ],
        streams=map(_stream, batch.streams[:streams]),
        streams_in_all=batch.streams_in_all,
        redelivered=batch.redelivered,
    )


def _stream(read: BatchStream) -> pb.BatchStreamStatus:
    status = pb.BatchStreamStatus(stream=read.stream, end=to_proto(read.end), messages=read.messages)
    if read.after > BEGINNING:
        status.after.CopyFrom(to_proto(read.after))
    return status

"""Decides where the streams of a source begin for a pipeline that is new to it.

A pipeline is new to a source if it has no position in any of its streams: then the connector chooses, and the checkpoint records
it. The connector's answer is planned as ranges without messages, in a separate batch, so that the checkpoint has the starts of
all streams of the source or of none.
"""

from collections.abc import Iterator, Mapping

from headrace.contract.names import source_of
from headrace.contract.position import Position
from headrace.gateway.config import Limits
from headrace.gateway.core.base.errors import MalformedMessage
from headrace.gateway.core.base.position import BEGINNING, from_proto
from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.streams.frame_limits import check_cursor
from headrace.gateway.core.streams.stream import Stream
from headrace.protocol.v1 import source_pb2


def ask_for_start(stream: Stream) -> None:
    """Asks the connector where a stream begins, if a pipeline needs to know."""
    for pipeline in stream.readers:
        if _waits(pipeline, stream):
            pipeline.undecided.add(stream.name)
        else:
            pipeline.undecided.discard(stream.name)
    attachment = stream.attachment
    if attachment is None or attachment.start_wanted or attachment.closed:
        return
    if any(stream.name in pipeline.undecided for pipeline in stream.readers):
        attachment.start_wanted = True
        wanted = source_pb2.StartsWanted(stream_id=attachment.stream_id)
        attachment.session.send(source_pb2.IngestResponse(starts_wanted=wanted))


def _waits(pipeline: Pipeline, stream: Stream) -> bool:
    """Returns whether a pipeline waits to learn where a stream begins."""
    decided = stream.name in pipeline.begins or pipeline.position(stream.name) > BEGINNING
    # A pipeline that is known only from its fetches states in each of them the position from which it reads.
    return stream.chooses_start and pipeline.complete and not decided and _is_new_to(pipeline, source_of(stream.name))


def _is_new_to(pipeline: Pipeline, source: str) -> bool:
    return source not in pipeline.sources and not any(source_of(name) == source for name in pipeline.begins)


def check_start(stream: Stream, entry: source_pb2.Starts.Stream, limits: Limits) -> Position:
    """Returns the position that a connector has chosen, after which its stream begins.

    Raises:
        MalformedMessage: the position is invalid, or the stream was opened without chooses_start.
    """
    if not stream.chooses_start:
        raise MalformedMessage(
            f"stream {stream.name}: Starts names it, but it was opened without chooses_start", stream=stream.name
        )
    if not entry.HasField("position"):
        return BEGINNING
    position = from_proto(entry.position)
    if position.epoch:
        text = f"stream {stream.name}: a start in epoch {position.epoch}; a replayable stream has epoch 0"
        raise MalformedMessage(text, stream=stream.name)
    try:
        check_cursor("a start with a cursor", position.cursor or b"", limits)
    except MalformedMessage as error:
        raise error.within(f"stream {stream.name}", stream=stream.name) from None
    return position


def begin(starts: Mapping[Stream, Position]) -> list[Stream]:
    """Sets the starts of streams for each pipeline that waits for them; returns the affected streams."""
    waiting = {p.name: p for stream in starts for p in stream.readers if stream.name in p.undecided}
    concerned = []
    for stream, start in starts.items():
        for pipeline in stream.readers:
            if pipeline.name in waiting and stream.name not in pipeline.begins and pipeline.position(stream.name) == BEGINNING:
                # A planned, uncommitted start is in the offset log: it is an earlier answer, which must be kept.
                pipeline.begins[stream.name] = pipeline.planned.get(stream.name, start)
                concerned.append(stream)
    return concerned


def begin_with_first(pipeline: Pipeline, stream: str) -> bool:
    """Makes a stream begin with its first message, because its pipeline fetches from there; returns whether that is new."""
    if stream not in pipeline.undecided and pipeline.begins.get(stream, BEGINNING) == BEGINNING:
        return False
    pipeline.begins[stream] = BEGINNING
    pipeline.undecided.discard(stream)
    return True


def starts_of(streams: Mapping[str, Stream], pipeline: Pipeline) -> Iterator[tuple[Stream, Position]]:
    """Yields the streams whose starts the pipeline's checkpoint must record, and these starts."""
    for name, position in pipeline.begins.items():
        if position > BEGINNING and name in streams:
            yield streams[name], position

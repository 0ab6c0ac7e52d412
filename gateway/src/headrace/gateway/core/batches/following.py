"""Sends a run in real-time mode what arrives in its streams, before it is planned."""

from collections.abc import AsyncIterator, Mapping

from headrace.contract.position import Position
from headrace.gateway.core.base.errors import NotReplayable, Superseded
from headrace.gateway.core.intake import held_by
from headrace.gateway.core.pipelines import Follower, Pipeline
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.streams import HeldFrame, Stream

LOOKS_EVERY_S = 1.0
"""How often a call without news checks whether it has been replaced."""

Arrived = list[tuple[int, HeldFrame]]
"""Frames, each with the index of its stream among the followed ones."""


async def follow(gateway: Gateway, pipeline: Pipeline, positions: Mapping[str, Position]) -> AsyncIterator[Arrived]:
    """Yields the frames after each position, in groups as available, then frames that arrive. Ends only with an error.

    Args:
        gateway: The gateway.
        pipeline: The pipeline that follows.
        positions: The pipeline's position in each stream.

    Raises:
        NotReplayable: a stream is redelivering.
        Superseded: a newer call follows in place of this one, or another run has taken over.
    """
    at = dict(positions)
    indices = {name: index for index, name in enumerate(at)}
    run, follower = pipeline.run, Follower(frozenset(at), dict.fromkeys(at))
    older, pipeline.follower = pipeline.follower, follower
    if older is not None:
        older.news.notify()
    try:
        while True:
            if pipeline.follower is not follower:
                raise Superseded(f"pipeline {pipeline.name}: a newer call follows its streams")
            if pipeline.run != run:
                raise Superseded(f"pipeline {pipeline.name}: {pipeline.run} has taken over from {run}")
            arrived: Arrived = []
            for name in follower.take_news():
                stream = gateway.streams.get(name)
                if held_by(gateway, pipeline) is not None:
                    continue
                if stream is not None and (frames := _after(stream, at[name])):
                    at[name] = Position(at[name].epoch, frames[-1].last)
                    arrived += ((indices[name], frame) for frame in frames)
            if arrived:
                yield arrived
            elif not follower.fresh:
                await follower.news.wait(LOOKS_EVERY_S)
    finally:
        if pipeline.follower is follower:
            pipeline.follower = None


def _after(stream: Stream, position: Position) -> list[HeldFrame]:
    """The held frames after a position; none while the source has to send the first of them again."""
    if stream.live_epoch or not stream.replayable:
        raise NotReplayable(
            f"stream {stream.name}: its source delivers messages again under new sequences; real-time mode needs replayable "
            "sources. Run the application without it"
        )
    if stream.pause is not None:
        return []
    at = max(position, stream.horizon)
    return list(stream.after(at)) if stream.start <= at else []

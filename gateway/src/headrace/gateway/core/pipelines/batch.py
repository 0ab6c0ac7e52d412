"""A pipeline's micro-batch as the commit timeline shows it: its streams, and when it reached each stage."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.contract.limits import MAX_BATCH_STREAMS
from headrace.contract.position import Position


class Stage(StrEnum):
    """The stages of a micro-batch, in order."""

    PLANNED = "planned"
    """The gateway has answered how far it reads."""
    READ = "read"
    """The last fetch of its messages was served."""
    PROCESSED = "processed"
    """The last row of its results has arrived."""
    STAGED = "staged"
    """Its sinks have staged all of them."""
    VOTED = "voted"
    """Its sinks have voted for it."""
    COMMITTED = "committed"
    """`commits/N` is known to exist."""
    SINK_COMMITTED = "sink_committed"
    """Its two-phase sinks have made it visible."""
    ACKNOWLEDGED = "acknowledged"
    """All of its messages are acknowledged to their sources."""


@dataclass(frozen=True, slots=True)
class BatchStream:
    """The part of one stream that a micro-batch reads."""

    stream: str
    after: Position
    end: Position
    messages: int | None = None
    """None if it is known only from the checkpoint."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch."""

    number: int | None = None
    """Its number in Spark's logs; None until the gateway learns it."""
    rebuilt: bool = False
    """Whether some of it comes from the checkpoint, because the gateway was not there."""
    stages: Mapping[Stage, float] = field(default_factory=dict)
    """When it reached each stage, in seconds since 1970."""
    streams: tuple[BatchStream, ...] = ()
    """By name; at most `MAX_BATCH_STREAMS`."""
    streams_in_all: int = 0
    redelivered: bool = False
    """Whether a source delivers some of its messages again, because its session ended before their acknowledgement."""

    def time(self, stage: Stage) -> float | None:
        """Returns when it reached a stage, in seconds since 1970, and never before an earlier stage; None if it has not."""
        if stage not in self.stages:
            return None
        return max(at for reached, at in self.stages.items() if _ORDER[reached] <= _ORDER[stage])

    def last_stage(self) -> tuple[Stage, float] | None:
        """Returns the last stage that it has reached, and when."""
        for stage in reversed(Stage):
            if (at := self.time(stage)) is not None:
                return stage, at
        return None


_ORDER = {stage: place for place, stage in enumerate(Stage)}


def largest(streams: Sequence[BatchStream]) -> tuple[BatchStream, ...]:
    """Returns the streams to keep, by name."""
    kept = streams
    if len(streams) > MAX_BATCH_STREAMS:
        kept = heapq.nlargest(MAX_BATCH_STREAMS, streams, key=lambda read: read.messages or 0)
    return tuple(sorted(kept, key=lambda read: read.stream))

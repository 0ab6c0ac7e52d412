"""Reads tables to their present end before the streams that meet them, which are not planned meanwhile.

The query's checkpoint decides: its offset names the tables that were read to their end, and its planner asks for the others. So a
gateway that has restarted looks for the present end again, and a micro-batch that is repeated reads what it has read.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from headrace.contract.counts import counted
from headrace.contract.names import covers
from headrace.gateway.core.batches.available_now import MAX_AWAY, exhausted, has_read, note_ends
from headrace.gateway.core.intake import grant_ahead
from headrace.gateway.core.pipelines import Bootstrap, Pipeline
from headrace.gateway.core.streams import Stream

MAX_NAMED = 10
"""How many streams a table is said to wait for at most."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A reason why a table is not read to its present end, for people.

    Attributes:
        name: The stream, the pattern, or how many streams.
        why: Why it is missing; empty if it is merely to be read.
        is_blocked: Whether that has no connector, or has not said where it ends.
    """

    name: str
    why: str
    is_blocked: bool

    @property
    def text(self) -> str:
        """The stream, pattern or number, and why."""
        return f"{self.name}, {self.why}" if self.why else self.name


def bootstrapped(pipeline: Pipeline, streams: Mapping[str, Stream], *, accepts_away: bool = False) -> list[str]:
    """Returns the tables that are planned or committed to their present end, and grants credit to the streams of the others.

    Call it once the next micro-batch is planned.

    Args:
        pipeline: The pipeline.
        streams: All streams, by name.
        accepts_away: Whether a table needs only the streams that a run with available_now waits for.
    """
    done = []
    for table in pipeline.bootstraps:
        mine = _streams_of(pipeline, table, streams)
        note_ends(pipeline, mine)
        is_without = accepts_away and all(each.is_blocked for each in missing(pipeline, table, streams))
        if next(missing(pipeline, table, streams), None) is None or (is_without and exhausted(pipeline, mine)):
            done.append(table.table)
            continue
        for stream in mine:
            if stream.received <= pipeline.planned.get(stream.name, pipeline.reads_after(stream.name)):
                # The streams that wait may hold all credit of its session, and return none before the table is read.
                grant_ahead(stream)
    return done


def missing(pipeline: Pipeline, table: Bootstrap, streams: Mapping[str, Stream]) -> Iterator[Missing]:
    """Yields what a table waits for."""
    mine = _streams_of(pipeline, table, streams)
    there = [stream for stream in mine if _is_there(pipeline, stream)]
    for pattern in table.streams:
        if pattern not in pipeline.over and not any(covers(pattern, stream.name) for stream in there):
            yield Missing(pattern, "of which no stream is there", True)
    if len(there) < table.least_streams:
        yield Missing(counted(table.least_streams, "stream"), f"of which there is {len(there)}", True)
    for stream in mine:
        if not has_read(pipeline, stream):
            yield _unread(pipeline, stream)


def tables_away(pipeline: Pipeline, streams: Mapping[str, Stream], away: Collection[str]) -> list[str]:
    """Returns what tables lack that reading does not bring, in words; without what is away anyway."""
    found = [
        f"of table {table.table}: {each.text}"
        for table in pipeline.bootstraps
        for each in missing(pipeline, table, streams)
        if each.is_blocked and each.name not in away
    ]
    return found[: MAX_AWAY - len(away)]


def _unread(pipeline: Pipeline, stream: Stream) -> Missing:
    if stream.attachment is None and not stream.ended:
        return Missing(stream.name, "which has no connector", True)
    if stream.pause is not None:
        return Missing(stream.name, "which is paused", False)
    target = pipeline.targets.get(stream.name)
    if target is None:
        return Missing(stream.name, "whose source has not said where it ends", True)
    return Missing(f"{stream.name} up to sequence {target.sequence}", "", False)


def _is_there(pipeline: Pipeline, stream: Stream) -> bool:
    return stream.attachment is not None or stream.ended or stream.name in pipeline.ended


def _streams_of(pipeline: Pipeline, table: Bootstrap, streams: Mapping[str, Stream]) -> Collection[Stream]:
    return [stream for name, stream in streams.items() if table.has(name) and pipeline in stream.readers]

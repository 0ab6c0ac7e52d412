"""Acknowledges messages to sources once every query that reads the stream has committed them, and releases their frames."""

from headrace.contract.position import Position
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.streams.stream import Stream


def acknowledge(stream: Stream) -> None:
    """Releases frames that no running reader needs, and sends the connector the position that every reader has committed."""
    position = committed_by_all(stream)
    committed = BEGINNING if position is None else position
    stream.release(_needed_after(stream, committed), committed)
    if committed == BEGINNING:
        return
    attachment = stream.attachment
    if attachment is not None and attachment.opened and committed.epoch == attachment.epoch and committed > attachment.told:
        attachment.session.acknowledge(attachment, committed)
    for former in stream.former:
        until = min(committed, former.end)
        if until.epoch == former.epoch and until > former.told:
            former.session.acknowledge(former, until)
    told = max((other.told for other in (attachment, *stream.former) if other is not None), default=BEGINNING)
    stream.told = max(stream.told, told)
    for pipeline in stream.readers:
        pipeline.timeline.acknowledge(stream.name, told)
    stream.former = [former for former in stream.former if former.told < former.end]


def committed_by_all(stream: Stream) -> Position | None:
    """Returns the position that every reader, also an absent one, has committed; None if it is not known."""
    if not stream.readers or not all(p.knows(stream.name) for p in stream.readers):
        return None
    return min(p.position(stream.name) for p in stream.readers)


def _needed_after(stream: Stream, committed: Position) -> Position:
    """Returns the position after which running readers need frames.

    A replayable source resends what other readers need when they resume. A redelivering source cannot, so its frames are kept
    until every reader has committed them.
    """
    running = [p for p in stream.readers if p.attached]
    if not stream.replayable or not all(p.knows(stream.name) for p in running):
        return committed
    served = [p for p in running if not (stream.must_be_rewound_for(p) or stream.is_lost_for(p))]
    return min((p.reads_after(stream.name) for p in served), default=committed)

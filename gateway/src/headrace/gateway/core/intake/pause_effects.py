"""Applies pauses to streams: paused streams are closed at their connectors, and opened again when they are resumed."""

from collections.abc import Iterator

from headrace.gateway.core.pipelines import Pipeline
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.streams import Attachment, PartKind, Pause, Stream, reconcile
from headrace.protocol.v1 import source_pb2


def apply_pauses(gateway: Gateway) -> None:
    """Brings every stream in line with what is paused now, and wakes whoever waits for the end of a pause."""
    for stream in gateway.streams.values():
        before, stream.pause = stream.pause, gateway.pauses.of_stream(stream.name, stream.last_instance)
        if stream.pause is None and before is not None:
            reconcile(stream)
        stream.tell_readers()
    close_paused(gateway)
    for pipeline in gateway.pipelines.values():
        pipeline.news.notify()
        if pipeline.follower is not None:
            for name in pipeline.follower.streams:
                pipeline.follower.notice(name)
    gateway.credit.rebalance()


def close_paused(gateway: Gateway) -> None:
    """Closes the paused streams of which nothing is in flight.

    The connector opens such a stream again, which then waits. A stream that waits can get no acknowledgement, so the batches
    in flight are acknowledged first. A redelivering stream stays open: closing it would void its messages.
    """
    for stream in gateway.streams.values():
        attachment = stream.attachment
        if stream.pause is None or attachment is None or not attachment.opened or attachment.closed or stream.redelivering:
            continue
        if not _is_in_use(stream, attachment):
            _give_up_credit(gateway, stream)
            stream.leave()
            text = f"{stream.pause.part} was paused by {stream.pause.by}; open the stream again: it begins when it is resumed"
            attachment.session.reject(attachment.stream_id, source_pb2.REJECT_REASON_REOPEN, text)
            stream.tell_readers()


def paused_sinks(gateway: Gateway, reader: str) -> Iterator[Pause]:
    """Yields the pauses of the sinks that a reader's query writes to."""
    for commit_log in gateway.commit_logs.values():
        if reader in commit_log.readers and not commit_log.closed:
            for name in commit_log.sinks:
                pause = gateway.pauses.of(PartKind.SINK, name) if name not in commit_log.former else None
                if pause is not None:
                    yield pause


def held_by(gateway: Gateway, pipeline: Pipeline) -> Pause | None:
    """Returns the pause that keeps a pipeline from planning: its own, or the pause of a sink that it writes to."""
    return gateway.pauses.of(PartKind.PIPELINE, pipeline.name) or next(paused_sinks(gateway, pipeline.name), None)


def _is_in_use(stream: Stream, attachment: Attachment) -> bool:
    """Returns whether a running batch reads the stream, or its acknowledgement has not been written to the connector yet."""
    if any(p.attached and stream.name in p.planned for p in stream.readers):
        return True
    return attachment.session.acknowledges(attachment.stream_id)


def _give_up_credit(gateway: Gateway, stream: Stream) -> None:
    """Charges what is held of a stream to the gateway, so that the other streams of its session do not wait for it."""
    for frame in stream.frames:
        if frame.account is not None and frame.account is not gateway.credit.held_back:
            frame.account.move(gateway.credit.held_back, frame.charged, frame.count)
            frame.account = gateway.credit.held_back

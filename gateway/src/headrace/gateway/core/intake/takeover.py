"""Opens the streams of source connectors, and lets a newer session take over from an older one."""

import logging

from headrace.contract.position import Position
from headrace.gateway.core.base.errors import MalformedMessage, Superseded, TooManyStreams
from headrace.gateway.core.base.position import BEGINNING, check_name
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.streams import Attachment, Backlog, Session, Stream, reconcile
from headrace.protocol.v1 import source_pb2

OWNED_RETRY_MS = 1000

log = logging.getLogger("headrace.gateway")


def open_stream(gateway: Gateway, session: Session, request: source_pb2.OpenStream) -> None:
    """Parks a stream until a pipeline that reads it is attached, or opens it immediately.

    Raises:
        MalformedMessage: the name, the kind or the id is not valid.
        TooManyStreams: the session's limit of streams is reached.
    """
    name = check_name(request.stream)
    if request.kind not in source_pb2.SourceKind.values() or not request.kind:
        raise MalformedMessage(f"stream {name}: kind {request.kind} is not one of the SourceKinds", stream=name)
    if request.chooses_start and request.kind != source_pb2.SOURCE_KIND_REPLAYABLE:
        raise MalformedMessage(f"stream {name}: only a replayable stream can have chooses_start", stream=name)
    if request.stream_id in session.attachments or request.stream_id in session.retired:
        text = f"stream {name}: stream id {request.stream_id} was used before in this session; use a new one"
        raise MalformedMessage(text, stream=name)
    if len(session.not_closed) >= gateway.limits.max_streams_per_session:
        most = gateway.limits.max_streams_per_session
        text = f"max_streams_per_session is {most} and all are taken"
        raise TooManyStreams(text, limit="max_streams_per_session", maximum=most)
    stream = gateway.stream(name)
    gateway.was_gone.pop(name, None)
    gateway.refusals.admit(f"stream {name}")
    owner = stream.attachment
    if owner is not None and not owner.closed:
        if owner.session is session:
            text = f"stream {name} is open in this session already, as stream id {owner.stream_id}"
            raise MalformedMessage(text, stream=name)
        if owner.session.instance != session.instance:
            text = f"stream {name} is owned by instance {owner.session.instance!r}, from {owner.session.peer}"
            session.reject(request.stream_id, source_pb2.REJECT_REASON_OWNED, text, OWNED_RETRY_MS)
            return
        _take_over(gateway, gateway.sessions[owner.session.id], session)
        stream = gateway.stream(name)
    elif owner is not None and not _hand_over(stream, owner):
        text = f"stream {name} was closed by instance {owner.session.instance!r}, which waits for its last acknowledgements"
        session.reject(request.stream_id, source_pb2.REJECT_REASON_OWNED, text, OWNED_RETRY_MS)
        return
    if stream.kind != request.kind:
        stream.kind = request.kind
        stream.restart(BEGINNING)
    stream.chooses_start = request.chooses_start
    stream.attachment = Attachment(session, stream, request.stream_id)
    stream.last_instance = session.instance
    stream.pause = gateway.pauses.of_stream(name, session.instance)
    session.attachments[request.stream_id] = stream.attachment
    session.not_closed.add(request.stream_id)
    stream.epochs.settle(session.id, session.opened_at)
    stream.backlog = Backlog()
    reconcile(stream)
    if stream.forgetting:
        # It waits for the pipelines that have yet to drop the previous stream of this name from their checkpoints.
        stream.tell_readers()
    elif not stream.gone:
        gateway.gone.pop(name, None)
    gateway.credit.rebalance()


def _hand_over(stream: Stream, owner: Attachment) -> bool:
    """Returns whether a closed stream can move to another session. The previous session still receives its acknowledgements.

    A redelivering stream can move only once it is fully acknowledged: its queue redelivers the rest when the session ends.
    """
    if not owner.opened:
        return True
    if not stream.redelivering:
        if owner.told < stream.received:
            owner.end = stream.received
            stream.former.append(owner)
        return True
    return owner.last_sequence < 0 or Position(owner.epoch, owner.last_sequence) <= owner.told


def _take_over(gateway: Gateway, older: Session, newer: Session) -> None:
    log.info("session taken over", extra={"instance": newer.instance, "older": older.id, "newer": newer.id})
    text = f"a newer session of instance {newer.instance!r}, from {newer.peer}, has taken over"
    older.end(Superseded(text, instance=newer.instance, session=newer.id))
    for attachment in older.attachments.values():
        if attachment.stream.attachment is attachment:
            gateway.detach(attachment.stream)

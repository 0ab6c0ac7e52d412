"""Credit for a stream that requests it: immediately and exclusively if a batch waits for it, otherwise as the budget allows.

A batch that is read again may need messages of one stream while other streams of the session hold all its credit, which returns
only once that batch is committed. So requests are kept, and checked again when a batch is announced.
"""

from headrace.gateway.core.base.errors import UnknownStream
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.streams import OVERHEAD_BYTES, Attachment, RequestedCredit, Session, Stream, check_credit_request
from headrace.protocol.v1 import source_pb2


def request_credit(gateway: Gateway, session: Session, request: source_pb2.CreditRequest) -> None:
    """Records that a frame of a stream waits for credit; has no effect if the stream was closed in the meantime.

    Raises:
        FrameTooLarge: such a frame would exceed a limit.
        UnknownStream: the stream was never opened.
    """
    limits = gateway.limits
    check_credit_request(request, limits, gateway.credit.window_messages)
    attachment = session.attachments.get(request.stream_id)
    if attachment is None and request.stream_id not in session.retired:
        text = f"CreditRequest for stream id {request.stream_id}: it was never opened in this session"
        raise UnknownStream(text, stream_id=request.stream_id)
    if attachment is None or not attachment.opened or attachment.closed:
        return
    attachment.requested_credit = RequestedCredit(
        request.bytes + OVERHEAD_BYTES,
        request.messages,
        min(request.ready_bytes, limits.max_frame_bytes) + OVERHEAD_BYTES if request.HasField("ready_bytes") else None,
        min(request.ready_messages, limits.max_frame_messages) if request.HasField("ready_messages") else None,
    )
    if not grant_where_awaited(attachment.stream):
        session.account.request(request.stream_id, request.bytes + OVERHEAD_BYTES)
        gateway.credit.rebalance()


def grant_where_awaited(stream: Stream) -> bool:
    """Grants a stream its requested credit if a batch waits for it; returns whether it did."""
    attachment = stream.attachment
    if attachment is None or attachment.requested_credit is None or attachment.closed or not stream.is_awaited():
        return False
    attachment.session.grant_to_stream(attachment, attachment.requested_credit)
    return True


def grant_ahead(stream: Stream) -> None:
    """Grants a stream its requested credit, for one frame, although no batch waits for it yet."""
    attachment = stream.attachment
    if attachment is not None and attachment.requested_credit is not None and not attachment.closed:
        attachment.session.grant_to_stream(attachment, attachment.requested_credit)


def clear_credit_request(session: Session, attachment: Attachment) -> None:
    """Clears a stream's credit request, because the frame has arrived or never will; the session keeps unused credit."""
    if attachment.requested_credit is not None:
        attachment.requested_credit, attachment.granted_bytes, attachment.granted_messages = None, 0, 0
        session.account.clear_request(attachment.stream_id)

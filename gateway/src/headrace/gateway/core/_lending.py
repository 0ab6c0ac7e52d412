"""Credit for a stream that asks for it: for it alone and at once where a batch waits for it, else as the budget allows.

A batch that is read again may need messages of one stream while others of the session hold all its credit, which comes back only
once that batch is committed. So requests are remembered, and looked at again when a batch is announced.
"""

from headrace.gateway.core._errors import LimitExceeded, UnknownStream
from headrace.gateway.core._frames import OVERHEAD_BYTES
from headrace.gateway.core._gateway import Gateway
from headrace.gateway.core._session import Session
from headrace.gateway.core._stream import Attachment, Stream, Wanted
from headrace.protocol.v1 import source_pb2


def request_credit(gateway: Gateway, session: Session, request: source_pb2.CreditRequest) -> None:
    """Notes that a frame of a stream waits for credit. Of a stream that was closed meanwhile, nothing waits.

    Raises:
        LimitExceeded: such a frame is above the limit.
        UnknownStream: the stream was never opened.
    """
    limits, window = gateway.limits, gateway.credit.window_messages
    if request.bytes > limits.max_frame_bytes:
        raise LimitExceeded(f"CreditRequest for a frame of {request.bytes} bytes: max_frame_bytes is {limits.max_frame_bytes}")
    if request.messages > limits.max_frame_messages:
        text = f"max_frame_messages is {limits.max_frame_messages}"
        raise LimitExceeded(f"CreditRequest for a frame of {request.messages} messages: {text}")
    if request.messages > window:
        text = f"a session never has more than {window} outstanding (session_messages); send smaller frames"
        raise LimitExceeded(f"CreditRequest for a frame of {request.messages} messages: {text}")
    attachment = session.attachments.get(request.stream_id)
    if attachment is None and request.stream_id not in session.retired:
        raise UnknownStream(f"CreditRequest for stream id {request.stream_id}: it was never opened in this session")
    if attachment is None or not attachment.opened or attachment.closed:
        return
    attachment.wanted = Wanted(
        request.bytes + OVERHEAD_BYTES,
        request.messages,
        min(request.ready_bytes, limits.max_frame_bytes) + OVERHEAD_BYTES if request.HasField("ready_bytes") else None,
        min(request.ready_messages, limits.max_frame_messages) if request.HasField("ready_messages") else None,
    )
    if not lend_where_awaited(attachment.stream):
        session.account.want(request.stream_id, request.bytes + OVERHEAD_BYTES)
        gateway.credit.settle()


def lend_where_awaited(stream: Stream) -> bool:
    """Gives a stream credit of its own where it has asked and a batch waits for it; says whether it is so."""
    attachment = stream.attachment
    if attachment is None or attachment.wanted is None or attachment.closed or not stream.is_awaited():
        return False
    attachment.session.lend(attachment, attachment.wanted)
    return True


def answered(session: Session, attachment: Attachment) -> None:
    """Notes that the frame which a stream asked credit for has come, or never will; what is left is the session's."""
    if attachment.wanted is not None:
        attachment.wanted, attachment.lent_bytes, attachment.lent_messages = None, 0, 0
        session.account.want_no_more(attachment.stream_id)

"""The limits of a frame: its size and its messages, alone, together with others in a message, and before it is sent."""

from headrace.contract.counts import counted
from headrace.gateway.config import Limits
from headrace.gateway.core.base.errors import FrameTooLarge, MalformedMessage, ProtocolError
from headrace.gateway.core.streams.frame_columns import check_columns, check_only_cursor
from headrace.protocol.v1 import frame_pb2, source_pb2


def check_frame(frame: frame_pb2.Frame, size: int, limits: Limits, stream: str) -> int:
    """Checks that a frame is within the limits and that its columns are consistent; returns its last sequence.

    That of a frame without messages is the sequence after which it stands.

    Raises:
        FrameTooLarge: the frame is too large.
        MalformedMessage: its columns are inconsistent; the error names stream, sequence and column.
        SequenceOutOfRange: a sequence is larger than 2^63 - 1.
    """
    try:
        if size > limits.max_frame_bytes:
            raise _bytes_error(size, limits, f"frame of {size} bytes", "; send smaller frames")
        check_cursor("frame with a cursor", frame.cursor, limits)
        if frame.count < 1:
            check_only_cursor(frame)
            return frame.first_sequence
        if frame.count > limits.max_frame_messages:
            raise _messages_error(frame.count, limits, f"frame of {counted(frame.count, 'message')}", "; send smaller frames")
        return check_columns(frame)
    except ProtocolError as error:
        sequence = frame.first_sequence
        raise error.within(f"stream {stream}, sequence {sequence}", stream=stream, sequence=sequence) from None


def check_cursor(what: str, cursor: bytes, limits: Limits) -> None:
    """Checks the size of a cursor; `what` names where it came.

    Raises:
        MalformedMessage: it is larger than the gateway has announced.
    """
    if len(cursor) > limits.max_cursor_bytes:
        raise MalformedMessage(f"{what} of {len(cursor)} bytes: the largest is {limits.max_cursor_bytes}")


def check_several(sizes: list[int], limits: Limits) -> None:
    """Checks the frames of one message together.

    Raises:
        FrameTooLarge: all of them are larger than one may be.
    """
    size = sum(sizes)
    if size > limits.max_frame_bytes:
        what = f"{counted(len(sizes), 'frame')} of {size} bytes in one message"
        raise _bytes_error(size, limits, what, "; send fewer in each message")


def check_credit_request(request: source_pb2.CreditRequest, limits: Limits, window: int) -> None:
    """Checks the frame that a source asks credit for.

    Args:
        request: The request.
        limits: The limits.
        window: How many messages a session may have outstanding.

    Raises:
        FrameTooLarge: such a frame would exceed a limit.
    """
    if request.bytes > limits.max_frame_bytes:
        raise _bytes_error(request.bytes, limits, f"CreditRequest for a frame of {request.bytes} bytes")
    if request.messages > limits.max_frame_messages:
        raise _messages_error(request.messages, limits, f"CreditRequest for a frame of {counted(request.messages, 'message')}")
    if request.messages > window:
        text = f"a session never has more than {window} outstanding (session_messages); send smaller frames"
        text = f"CreditRequest for a frame of {counted(request.messages, 'message')}: {text}"
        raise FrameTooLarge(text, limit="session_messages", maximum=window, actual=request.messages)


def _bytes_error(size: int, limits: Limits, what: str, advice: str = "") -> FrameTooLarge:
    most = limits.max_frame_bytes
    return FrameTooLarge(f"{what}: max_frame_bytes is {most}{advice}", limit="max_frame_bytes", maximum=most, actual=size)


def _messages_error(count: int, limits: Limits, what: str, advice: str = "") -> FrameTooLarge:
    text, most = f"{what}: max_frame_messages is {limits.max_frame_messages}{advice}", limits.max_frame_messages
    return FrameTooLarge(text, limit="max_frame_messages", maximum=most, actual=count)

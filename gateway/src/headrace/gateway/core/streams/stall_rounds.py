"""Which streams should send, and whether they may: what the gateway's rounds see of the streams of a session."""

from headrace.contract.position import Position
from headrace.gateway.core.streams.session import Session
from headrace.gateway.core.streams.stall import Outlook, Stall
from headrace.gateway.core.streams.stream import Attachment


def pass_round_of_streams(session: Session, seconds: float) -> None:
    """Lets a round of this many seconds count towards stalls of the streams of a session."""
    # A connector that says why it does not send, or that is silent, is named for that.
    explained = session.draining or session.reported.is_impaired or session.heartbeat.silent_ms is not None
    for attachment in session.attachments.values():
        behind = attachment.opened and attachment.stream.is_behind
        if not behind and attachment.stall is None:
            continue
        attachment.stall = attachment.stall or Stall()
        should = behind and not explained and _should_send(attachment)
        backlog = attachment.stream.backlog
        seen = Outlook(attachment.last_sequence, backlog.messages, backlog.bytes) if should else None
        attachment.stall.pass_round(seconds, seen, has_credit=should and _has_credit(session, attachment))


def _should_send(attachment: Attachment) -> bool:
    """Returns whether a stream that is behind has nothing to wait for but credit."""
    stream = attachment.stream
    if attachment.closed or stream.attachment is not attachment or stream.pause is not None:
        return False
    if stream.replayable or attachment.last_sequence < 0:
        return True
    # A queue gives a consumer only so many messages before the first of them are acknowledged.
    return Position(attachment.epoch, attachment.last_sequence) <= attachment.told


def _has_credit(session: Session, attachment: Attachment) -> bool:
    """Returns whether a stream may send. If it waits for credit, it has requested some (SRC-33).

    A connector with a single stream need not do so: it may send if at most three quarters of its credit are used.
    """
    account = session.account
    if attachment.requested_credit is not None or account.bytes_left <= 0 or account.messages_left <= 0:
        return False
    if len(session.not_closed) > 1:
        return True
    return account.bytes_left * 3 >= account.bytes_held and account.messages_left * 3 >= account.messages_held

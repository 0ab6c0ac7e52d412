"""Streams: the frames that are held, the sessions that send them, and the positions at which they open."""

from headrace.gateway.core.streams.credit import CreditAccount, CreditPool
from headrace.gateway.core.streams.frame_columns import check_order, check_times
from headrace.gateway.core.streams.frame_limits import check_credit_request, check_frame, check_several
from headrace.gateway.core.streams.frames import OVERHEAD_BYTES, HeldFrame, count_up_to, trim
from headrace.gateway.core.streams.pauses import CONFIGURATION, PartKind, Pause, Pauses
from headrace.gateway.core.streams.previews import previews
from headrace.gateway.core.streams.reconciling import acknowledge, reconcile
from headrace.gateway.core.streams.session import Session, pass_round_of_streams
from headrace.gateway.core.streams.starts import begin, begin_with_first, check_start, starts_of
from headrace.gateway.core.streams.stream import Attachment, Backlog, Loss, RequestedCredit, Stream
from headrace.gateway.core.streams.totals import Totals

__all__ = [
    "CONFIGURATION",
    "OVERHEAD_BYTES",
    "Attachment",
    "Backlog",
    "CreditAccount",
    "CreditPool",
    "HeldFrame",
    "Loss",
    "PartKind",
    "Pause",
    "Pauses",
    "RequestedCredit",
    "Session",
    "Stream",
    "Totals",
    "acknowledge",
    "begin",
    "begin_with_first",
    "check_credit_request",
    "check_frame",
    "check_order",
    "check_several",
    "check_start",
    "check_times",
    "count_up_to",
    "pass_round_of_streams",
    "previews",
    "reconcile",
    "starts_of",
    "trim",
]

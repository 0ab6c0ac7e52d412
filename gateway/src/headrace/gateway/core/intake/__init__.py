"""Takes what source connectors send, and closes and forgets their streams."""

from headrace.gateway.core.intake.credit_requests import grant_ahead, grant_where_awaited, request_credit
from headrace.gateway.core.intake.forgetting import begin_to_forget, end_again, forget_gone, leave_out, to_forget
from headrace.gateway.core.intake.intake import close_stream, lose_position, note_backlog, take_frame, take_starts
from headrace.gateway.core.intake.pause_effects import apply_pauses, close_paused, held_by
from headrace.gateway.core.intake.takeover import open_stream

__all__ = [
    "apply_pauses",
    "begin_to_forget",
    "close_paused",
    "close_stream",
    "end_again",
    "forget_gone",
    "grant_ahead",
    "grant_where_awaited",
    "held_by",
    "leave_out",
    "lose_position",
    "note_backlog",
    "open_stream",
    "request_credit",
    "take_frame",
    "take_starts",
    "to_forget",
]

"""The errors of JetStream in words of the setting that is their cause, and of what to do. Pure functions."""

from dataclasses import dataclass

_FULL = 10077
_MAX_CONSUMERS = 10026
_PASSING = {408, 429}


@dataclass(frozen=True, slots=True)
class _Cause:
    """Attributes: what the setting is, what to do, and whether a retry may help whatever the status of the error."""

    setting: str
    remedy: str
    passes: bool | None = None


_OF_FULL = (
    ("per subject", _Cause("max_msgs_per_subject of the stream", "consume or delete messages of the subject, or raise it")),
    ("maximum messages", _Cause("max_msgs of the stream", "consume or delete messages, or raise it")),
    ("maximum bytes", _Cause("max_bytes of the stream", "consume or delete messages, or raise it")),
)
_CAUSES = {
    10002: _Cause("the limits of the account", "free its storage, or raise them", passes=True),
    10023: _Cause("max_file_store or max_memory_store of the server", "free its storage, or raise it"),
    10028: _Cause("max_memory_store of the server", "free its memory, or raise it"),
    10047: _Cause("max_file_store of the server, or its disk", "free its storage, or raise it"),
    _MAX_CONSUMERS: _Cause("max_consumers of the stream or the account", "delete consumers, or raise it", passes=True),
    10054: _Cause("max_msg_size of the stream", "raise it"),
    10099: _Cause("the retention workqueue of the stream", "use its consumer, or set subjects that no other consumer reads"),
    10100: _Cause("the retention workqueue of the stream", "set subjects that no other consumer reads"),
    10109: _Cause("sealed of the stream", "write to another one"),
    10111: _Cause(
        "allow_rollup_hdrs of the stream, and the header Nats-Rollup", "allow it, or leave the header out", passes=False
    ),
    10121: _Cause("max_ack_pending of the stream's consumer_limits or of the server", "lower the parameter, or raise the limit"),
    10153: _Cause("inactive_threshold of the stream's consumer_limits or of the server", "raise it"),
    10158: _Cause("another message with this id, which is not stored yet", "wait", passes=True),
    10165: _Cause("the header Nats-TTL", "write a duration of at least a second, such as 10s"),
    10166: _Cause("allow_msg_ttl of the stream, and the header Nats-TTL", "allow it, or leave the header out"),
}


def passes(code: int, error: int | None) -> bool:
    """Returns whether an error of JetStream is temporary, by its status and its error code."""
    cause = _CAUSES.get(error or 0)
    if cause is not None and cause.passes is not None:
        return cause.passes
    return code >= 500 or code in _PASSING


def reported(text: str | None, error: int | None) -> str:
    """Describes an error of JetStream: what it says, the setting that is the cause, and what to do, as far as that is known."""
    said = f"JetStream reports: {text} ({error})"
    cause = _cause(text or "", error)
    return said if cause is None else f"{said}; the cause is {cause.setting}: {cause.remedy}"


def is_full_subject(text: str, error: int | None) -> bool:
    """Returns whether the limit of a single subject is reached, which says nothing about others."""
    return error == _FULL and "per subject" in text


def _cause(text: str, error: int | None) -> _Cause | None:
    """Returns the cause of an error, if it is known."""
    if error == _FULL:
        return next((cause for part, cause in _OF_FULL if part in text), None)
    return _CAUSES.get(error or 0)

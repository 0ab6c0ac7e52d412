"""The log's lines about calls of unknown callers, and of callers without the right for their call. They never show the token."""

import structlog

log = structlog.get_logger("headrace.gateway")
_MAX_ERROR_CHARACTERS = 1_000


def log_refusal(call: str, peer: str, error: str, caller: str | None = None) -> None:
    """Logs that a call was refused.

    Repeats are held back by the filter of the log, to which the address makes no difference. It tells lines apart by the call,
    which must therefore be one that the gateway has, and not whatever a stranger names.

    Args:
        call: The method, or the path as in the gateway's rules, which has no names and no query.
        peer: The address of the caller.
        error: Its error.
        caller: The name of its token; None if it has none that is known.
    """
    known = {} if caller is None else {"caller": caller}
    log.warning("call refused", call=call, **known, peer=peer, error=error[:_MAX_ERROR_CHARACTERS])


def log_dropped(protocol: str, peer: str) -> None:
    """Logs that a connection was dropped, to make room for others.

    Args:
        protocol: Its protocol.
        peer: The address of the client.
    """
    text = f"there are too many {protocol} connections of this address, or in all, and it has no call of a known caller"
    log.warning("connection dropped", peer=peer, error=text)


def log_full(protocol: str, most: int) -> None:
    """Logs that nearly all connections have calls in progress, so that further ones are refused.

    Args:
        protocol: Their protocol.
        most: How many there may be.
    """
    log.warning("connections refused", error=f"{full(protocol, most)}; allow more descriptors (ulimit -n), and restart")


def full(protocol: str, most: int) -> str:
    """Returns words for that: nearly all connections have calls in progress."""
    return f"nearly all of {most} {protocol} connections have calls in progress, and further ones are refused"

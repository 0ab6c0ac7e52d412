"""Waits until a connector has a session again, as the gateway itself sees it: a supervisor's word is not enough."""

from headrace.contract import clock
from headrace.gateway.core.state import Gateway, Supervised


async def has_session_since(gateway: Gateway, connector: Supervised, since: float, timeout_s: float) -> bool:
    """Waits for a session of a connector's instance that was opened after a time, and still lasts.

    Args:
        gateway: The gateway.
        connector: The connector, which serves a source or a sink.
        since: The time, on the monotonic clock.
        timeout_s: How long to wait, in seconds.

    Returns:
        Whether there is one; False if there is none in time.
    """
    deadline = clock.monotonic() + timeout_s
    while not _has_session(gateway, connector, since):
        left = deadline - clock.monotonic()
        if left <= 0 or not await gateway.sessions_changed.wait(left):
            return _has_session(gateway, connector, since)
    return True


def _has_session(gateway: Gateway, connector: Supervised, since: float) -> bool:
    if connector.sink:
        serving = [session for session in gateway.sink_sessions.values() if session.hello.sink == connector.sink]
        opened = [session.opened_at for session in serving if session.instance == connector.instance]
    else:
        opened = [session.opened_at for session in gateway.sessions.values() if session.instance == connector.instance]
    return any(at > since for at in opened)

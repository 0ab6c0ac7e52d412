"""What the gateway looks after once a second: the pace of its connectors, leases, and queries that will not come back."""

import asyncio
import time

import structlog

from headrace.gateway.core._checkpoints import forget
from headrace.gateway.core._forgetting import forget_gone
from headrace.gateway.core._gateway import Gateway
from headrace.gateway.core._leases import end_leases, forgettable

INTERVAL_S = 1.0
FRAMES_PER_SECOND = 3_000
"""How many frames that are not full the gateway wants to take; well under what one core can (about 10,000)."""
SHORTEST_LINGER_MS = 5
LONGEST_LINGER_MS = 500
UNUSED_AFTER_S = 600.0
"""After how long names that nobody uses are forgotten."""

log = structlog.get_logger("headrace.gateway")


async def keep_house(gateway: Gateway) -> None:
    """Runs until it is cancelled."""
    interval_s = min(INTERVAL_S, gateway.limits.query_lease_ms / 1000)
    while True:
        await asyncio.sleep(interval_s)
        pace(gateway)
        end_leases(gateway)
        for pipeline in forgettable(gateway):
            log.warning("pipeline forgotten", pipeline=pipeline.name, silent_s=int(time.monotonic() - pipeline.called_at))
            forget(gateway, pipeline)
        forget_gone(gateway)
        forget_unused(gateway)


def pace(gateway: Gateway) -> None:
    """Has connectors gather messages for longer the more of them send at the same time."""
    since = time.monotonic() - 2 * INTERVAL_S
    senders = sum(1 for stream in gateway.streams.values() if stream.sent_at >= since)
    linger_ms = suitable_linger_ms(senders)
    for session in gateway.sessions.values():
        if abs(session.linger_ms - linger_ms) * 4 > session.linger_ms:
            session.pace(linger_ms)


def suitable_linger_ms(senders: int) -> int:
    """How long each of so many streams should gather messages, so that all of them together stay within the frame rate."""
    return min(max(SHORTEST_LINGER_MS, senders * 1000 // FRAMES_PER_SECOND), LONGEST_LINGER_MS)


def forget_unused(gateway: Gateway) -> None:
    """Forgets sinks, commit logs and streams that nobody has named for long, and of which nothing is left."""
    since = time.monotonic() - UNUSED_AFTER_S
    for name in [sink.name for sink in gateway.sinks.values() if sink.is_unused(since)]:
        del gateway.sinks[name]
    for name in [stream.name for stream in gateway.streams.values() if stream.is_unused(since)]:
        gateway.gone.pop(name, None)
        del gateway.streams[name]
    idle = [pipeline for pipeline, told_at in gateway.settled_at.items() if told_at < since]
    if idle:
        held = {t.pipeline for sink in gateway.sinks.values() for holdings in sink.holders() for t in holdings.transactions()}
        held |= {voter.pipeline for voter, _ in gateway.votes.lost()}
        for pipeline in set(idle) - held:
            del gateway.settled_at[pipeline]
            gateway.ledgers.pop(pipeline, None)
            gateway.voted.pop(pipeline, None)
            gateway.votes.forget(pipeline)

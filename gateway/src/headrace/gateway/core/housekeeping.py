"""Periodic work, once a second: checks clock, heartbeats and streams, paces connectors, ends leases, forgets what is unused."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from headrace.contract import clock
from headrace.gateway.background import lasting_step
from headrace.gateway.core.batches import end_leases, forget, forgettable
from headrace.gateway.core.control import look_for_sessions
from headrace.gateway.core.intake import close_paused, forget_gone
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.streams import pass_round_of_streams

INTERVAL_S = 1.0
FRAMES_PER_SECOND = 3_000
"""The rate of partly filled frames that the gateway aims for; well below the capacity of one core (about 10,000)."""
MIN_LINGER_MS = 5
FOLLOWED_LINGER_MS = 1
"""The same for a connector that has a stream which a run in real-time mode follows."""
MAX_LINGER_MS = 500
UNUSED_AFTER_S = 600.0
"""After how many seconds unused names are forgotten."""

log = logging.getLogger("headrace.gateway")


async def run_housekeeping(gateway: Gateway) -> None:
    """Runs the periodic work of a gateway until cancelled. An error of one step keeps no other step from its turn."""
    interval_s = min(INTERVAL_S, gateway.limits.query_lease_seconds)
    steps = round_of(gateway, interval_s)
    while True:
        await asyncio.sleep(interval_s)
        for name, step in steps.items():
            with lasting_step(name, gateway.own_faults):
                step()


def round_of(gateway: Gateway, interval_s: float) -> Mapping[str, Callable[[], None]]:
    """Returns the steps of a round, by name, for the seconds that it takes."""
    return {
        "checking the clock": gateway.clock_jumps.check,
        "looking for silence and stalls": lambda: pass_round(gateway, interval_s),
        "looking for sessions of deployments": lambda: look_for_sessions(gateway),
        "looking whether anything is connected": lambda: look_for_connections(gateway),
        "pacing connectors": lambda: pace(gateway),
        "ending leases": lambda: end_leases(gateway),
        "closing what is paused": lambda: close_paused(gateway),
        "forgetting pipelines": lambda: forget_silent(gateway),
        "forgetting streams that are gone": lambda: forget_gone(gateway),
        "forgetting supervisors that are gone": gateway.deployments.forget_lost,
        "forgetting what is unused": lambda: forget_unused(gateway),
    }


def forget_silent(gateway: Gateway) -> None:
    """Forgets queries that never had a batch, and queries that have been away for longer than the configuration allows."""
    for pipeline in forgettable(gateway):
        log.warning(
            "pipeline forgotten", extra={"pipeline": pipeline.name, "silent_s": int(clock.monotonic() - pipeline.called_at)}
        )
        forget(gateway, pipeline)


def pass_round(gateway: Gateway, seconds: float) -> None:
    """Lets a round of this many seconds count towards the silence of connectors and drivers, and towards stalls of streams."""
    for session in gateway.sessions.values():
        session.heartbeat.pass_round(seconds)
        pass_round_of_streams(session, seconds)
    for sink_session in gateway.sink_sessions.values():
        sink_session.heartbeat.pass_round(seconds)
    gateway.drivers.pass_round(seconds)
    for deployment in gateway.deployments.by_name.values():
        if deployment.reports is not None:
            deployment.reports.pass_round(seconds)
    for pipeline in gateway.pipelines.values():
        if pipeline.driver is not None:
            pipeline.driver.pass_round(seconds)
        if pipeline.planner is not None:
            pipeline.planner.pass_round(seconds)


def look_for_connections(gateway: Gateway) -> None:
    """Notes since when nothing at all is connected."""
    is_anything = gateway.sessions or gateway.sink_sessions or gateway.deployments.by_name
    if is_anything or any(pipeline.attached for pipeline in gateway.pipelines.values()):
        gateway.unconnected_since = None
    elif gateway.unconnected_since is None:
        gateway.unconnected_since = clock.monotonic()


def pace(gateway: Gateway) -> None:
    """Tells connectors how long to collect messages for a frame: longer if more streams are sending, shorter in real time."""
    since = clock.monotonic() - 2 * INTERVAL_S
    senders = sum(1 for stream in gateway.streams.values() if stream.sent_at >= since)
    followed = set().union(*(p.follower.streams for p in gateway.pipelines.values() if p.follower is not None))
    for session in gateway.sessions.values():
        is_followed = any(attachment.stream.name in followed for attachment in session.attachments.values())
        linger_ms = suitable_linger_ms(senders, FOLLOWED_LINGER_MS if is_followed else MIN_LINGER_MS)
        if abs(session.linger_ms - linger_ms) * 4 > session.linger_ms:
            session.pace(linger_ms)


def suitable_linger_ms(senders: int, shortest_ms: int = MIN_LINGER_MS) -> int:
    """Returns how long each of `senders` streams should collect messages, in milliseconds, to stay within the frame rate."""
    return min(max(shortest_ms, senders * 1000 // FRAMES_PER_SECOND), MAX_LINGER_MS)


def forget_unused(gateway: Gateway) -> None:
    """Forgets sinks, commit logs and streams that have been unused for a long time and hold no data."""
    since = clock.monotonic() - UNUSED_AFTER_S
    for name in [sink.name for sink in gateway.sinks.values() if sink.is_unused(since)]:
        del gateway.sinks[name]
    for stream in [stream for stream in gateway.streams.values() if stream.is_unused(since)]:
        gateway.gone.pop(stream.name, None)
        gateway.forget_stream(stream)
    idle = [pipeline for pipeline, told_at in gateway.commits_reported_at.items() if told_at < since]
    if idle:
        held = {t.pipeline for sink in gateway.sinks.values() for holdings in sink.holders() for t in holdings.transactions()}
        held |= {voter.pipeline for voter, _ in gateway.votes.lost()}
        for pipeline in set(idle) - held:
            del gateway.commits_reported_at[pipeline]
            gateway.commit_logs.pop(pipeline, None)
            gateway.votes.forget(pipeline)
            gateway.drivers.by_query.pop(pipeline, None)

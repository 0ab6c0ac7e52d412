"""Delays batches while a sink that they would write to is away: waiting tasks would occupy the slots of a cluster."""

import asyncio

from headrace.contract import clock
from headrace.gateway.core.sinks import CommitLog
from headrace.gateway.core.state import Gateway

RECENT_S = 10.0
"""A query that has reported no commits for this many seconds is not running, so its sinks are not awaited."""
INTRODUCTION_S = 2.0
"""How many seconds a query that writes to sinks may take to report the names under which it reads."""


def sinks_away(gateway: Gateway, reader: str) -> list[str]:
    """Returns the sorted names of the sinks that a reader's query waits for and that have no attached instance."""
    return sorted(
        {name for commit_log in _recent(gateway) if reader in commit_log.readers for name in _away(gateway, commit_log)}
    )


def writers_of(gateway: Gateway, sink: str) -> list[str]:
    """Returns the sorted names of the running pipelines that write to a sink; one that also reads has its names as a reader."""
    logs = [log for log in _recent(gateway) if not log.closed and sink in log.sinks and sink not in log.former]
    return sorted({name for log in logs for name in log.readers or (log.pipeline,)})


async def await_sinks(gateway: Gateway, reader: str, wait_s: float) -> list[str]:
    """Waits up to `wait_s` seconds until all sinks that a reader's query waits for have an instance; returns the missing ones."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        known = [commit_log for commit_log in _recent(gateway) if reader in commit_log.readers]
        candidates = known or [commit_log for commit_log in _recent(gateway) if not commit_log.readers]
        away = sorted({name for commit_log in candidates for name in _away(gateway, commit_log)})
        left = began + (wait_s if known else min(wait_s, INTRODUCTION_S)) - loop.time()
        if not away or left <= 0:
            return away if known else []
        await gateway.sinks_changed.wait(left)


def _recent(gateway: Gateway) -> list[CommitLog]:
    """Returns the commit logs of running queries."""
    now = clock.monotonic()
    return [
        commit_log
        for name, commit_log in gateway.commit_logs.items()
        if now - gateway.commits_reported_at.get(name, 0.0) < RECENT_S
    ]


def _away(gateway: Gateway, commit_log: CommitLog) -> list[str]:
    return [name for name in commit_log.awaited if not gateway.sink(name).sessions]

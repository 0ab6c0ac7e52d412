"""Keeps batches from tasks as long as a sink that they would write to is away: tasks that wait hold the slots of a cluster."""

import asyncio
import time

from headrace.gateway.core._gateway import Gateway
from headrace.gateway.core._ledger import Ledger

RECENT_S = 10.0
"""A query that has not settled for so long does not run: what it wrote to says nothing of who reads under its name now."""
INTRODUCTION_S = 2.0
"""So long a query that writes to sinks may take to say under which names it reads."""


def sinks_away(gateway: Gateway, reader: str) -> list[str]:
    """The sinks without which a reader's query plans nothing and that no instance serves, by name."""
    return sorted({name for ledger in _recent(gateway) if reader in ledger.readers for name in _away(gateway, ledger)})


async def await_sinks(gateway: Gateway, reader: str, wait_s: float) -> list[str]:
    """Waits until each sink is served without which a reader's query plans nothing; returns those that are not after a while."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        known = [ledger for ledger in _recent(gateway) if reader in ledger.readers]
        candidates = known or [ledger for ledger in _recent(gateway) if not ledger.readers]
        away = sorted({name for ledger in candidates for name in _away(gateway, ledger)})
        left = began + (wait_s if known else min(wait_s, INTRODUCTION_S)) - loop.time()
        if not away or left <= 0:
            return away if known else []
        await gateway.sinks_changed.wait(left)


def _recent(gateway: Gateway) -> list[Ledger]:
    """What is known of the commit logs of queries that run."""
    now = time.monotonic()
    return [ledger for name, ledger in gateway.ledgers.items() if now - gateway.settled_at.get(name, 0.0) < RECENT_S]


def _away(gateway: Gateway, ledger: Ledger) -> list[str]:
    return [name for name in ledger.awaited if not gateway.sink(name).sessions]

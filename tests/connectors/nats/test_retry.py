"""How long is waited between attempts, without waiting for it."""

import logging
from types import SimpleNamespace

from headrace.connectors.nats._errors import NatsAway
from headrace.connectors.nats._retry import Retry


async def test_waits_grow_to_five_seconds_without_end_and_are_told_now_and_then(monkeypatch, caplog):
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("headrace.connectors.nats._retry.asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr("headrace.connectors.nats._retry.time", SimpleNamespace(monotonic=lambda: sum(waits)))
    retry = Retry("stream s/S")
    with caplog.at_level(logging.WARNING):
        while sum(waits) < 600:
            await retry.wait(NatsAway("no network"))
        told = len(caplog.messages)
        retry.succeeded()
    assert all(0.05 <= wait <= 5.0 for wait in waits)
    assert waits[0] <= 0.1
    assert all(wait >= 2.5 for wait in waits[6:])
    assert len(set(waits)) == len(waits), "all that wait would come back at the same time"
    assert 40 <= told <= 60
    assert caplog.messages[0] == "stream s/S: no network; trying again"
    assert caplog.messages[-1] == "stream s/S: goes on"
    waits.clear()
    await retry.wait(NatsAway("no network"))
    assert waits[0] <= 0.1

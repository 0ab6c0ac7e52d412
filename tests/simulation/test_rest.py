"""The status at rest names only what has happened."""

import asyncio
import random

from headrace.protocol.v1 import admin_pb2 as pb
from headrace.simulation import rest
from headrace.simulation.loop import Loop
from headrace.simulation.record import Record

MAX_COUNT = 10_000


def judged(starts: int, before_s: float) -> list[str]:
    """Returns the violations of a status that has a source connect again and again, by how often it has started, and when."""
    loop = Loop(random.Random(1))  # type: ignore[abstract]
    record = Record(loop, random.Random(1), 0.0, traced=False)
    for _ in range(starts):
        record.started("log0")
    assert loop.run(loop.create_task(asyncio.sleep(before_s)), MAX_COUNT)
    status = pb.GetStatusResponse()
    status.gateway.reconnecting.add(part="connector log0-0", sessions=13, ended="the source has ended")
    return [each.text for each in rest.status_violations(status, [], {}, record, has_jumped=False)]


def test_a_connector_is_said_to_reconnect_only_if_it_was_started_again_and_again() -> None:
    assert judged(rest.OFTEN, 10.0) == []
    assert "connector-reconnects" in judged(rest.OFTEN - 1, 10.0)[0]
    assert "connector-reconnects" in judged(rest.OFTEN, rest.LATELY_S + 10.0)[0]

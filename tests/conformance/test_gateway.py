"""The gateway that the kit plays comes back at its address, whatever else the machine connects to meanwhile."""

from pathlib import Path

import pytest

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.trace import Trace
from headrace.conformance.sinks.session import SinkGateway

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()


def new_gateway() -> SinkGateway:
    return SinkGateway(Trace(), Changes())


async def test_its_port_is_none_that_an_outgoing_connection_could_take() -> None:
    first, last = map(int, EPHEMERAL)
    gateway = new_gateway()
    await gateway.start()
    port = gateway.port
    assert not first <= port <= last
    await gateway.stop()
    await gateway.start()
    assert gateway.port == port
    other = new_gateway()
    other.port = port
    with pytest.raises(RuntimeError, match="Failed to bind"):
        await other.start()
    await gateway.stop()

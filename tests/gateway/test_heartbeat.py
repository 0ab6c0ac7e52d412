"""When the gateway takes a connector for silent."""

from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway.core.connections.heartbeat import SILENT_AFTER_S, Heartbeat
from headrace.protocol.v1.source_pb2 import CAPABILITY_HEARTBEAT, CAPABILITY_PACE

PROMISED = (CAPABILITY_PACE, CAPABILITY_HEARTBEAT)


def rounds(of: Heartbeat, seconds: float) -> None:
    for _ in range(int(seconds)):
        of.pass_round(1.0)


def test_a_connector_is_silent_after_six_seconds_and_no_longer_once_it_is_heard() -> None:
    connector = Heartbeat(PROMISED)
    rounds(connector, SILENT_AFTER_S - 1)
    assert connector.silent_ms is None
    rounds(connector, 1)
    assert connector.silent_ms is not None
    connector.heard()
    assert connector.silent_ms is None


def test_a_connector_that_promises_no_heartbeats_is_never_silent() -> None:
    connector = Heartbeat([CAPABILITY_PACE])
    rounds(connector, 10 * SILENT_AFTER_S)
    assert connector.silent_ms is None


def test_a_gateway_that_was_held_up_itself_blames_no_connector() -> None:
    with clock.use(VirtualClock()) as now:
        connector = Heartbeat(PROMISED)
        now.advance(60)
        connector.pass_round(1.0)
        assert connector.silent_ms is None
        rounds(connector, SILENT_AFTER_S)
        assert connector.silent_ms == 60_000

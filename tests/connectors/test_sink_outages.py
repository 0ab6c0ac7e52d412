"""An outage of what a sink writes to fails no micro-batch: each bundled sink reports for whom it waits, and writes then.

The system refuses connections, or stands still: its kernel accepts connections then, and nobody answers.
"""

import asyncio

import grpc
import pytest
from tests.connectors.sink_systems import AT_LEAST_ONCE, CASES, LIMITS, OUTAGES, Network, sink_behind_a_network
from tests.fake_gateway.sinks import frame_of
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import Engine
from tests.gateway.wire import serve as gateway
from tests.sdk.python.test_sinks_with_gateway import serving, visible

from headrace.connectors import CONNECTORS
from headrace.protocol.v1 import admin_pb2, connector_pb2

WITHOUT_A_SYSTEM = {"file-sink", "stdout-sink"}
"""They write to files of their own machine: there is nobody to wait for."""


def test_each_sink_that_has_a_system_is_tried() -> None:
    assert {name for name, *_ in CASES.values()} | WITHOUT_A_SYSTEM == {
        known.name for known in CONNECTORS if known.kind == "sink"
    }


async def write(writer: Writer, batch: int) -> None:
    """Writes and commits a micro-batch of one message, as a query does."""
    await writer.deliver_packed(writer.part(batch), frame_of([b"%d" % batch], keys=[b"%d" % batch]))
    await writer.vote(batch)
    await visible(writer, batch)


def reports(status: admin_pb2.GetStatusResponse) -> list[tuple[int, str]]:
    """The reports of the sessions of sinks."""
    return [(session.reported.state, session.reported.reason) for session in status.sink_sessions]


@pytest.mark.each_value
@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("batch", [0, 1], ids=["first", "later"])
@pytest.mark.parametrize("case", CASES)
async def test_a_sink_waits_and_reports_for_whom(
    case: str, batch: int, outage: str, network: Network, request: pytest.FixtureRequest
) -> None:
    async with gateway() as (_, address), sink_behind_a_network(case, "out", network, request) as (sink, system):
        writer, admin = Writer(address), Engine(address)
        async with serving(sink, address):
            await writer.report_commits()
            await admin.status_once(lambda status: len(status.sink_sessions) == 1)
            for done in range(batch):
                await write(writer, done)
            system.fail(outage)
            writing = asyncio.create_task(write(writer, batch))
            waiting = await admin.status_once(
                lambda status: [state for state, _ in reports(status)] == [connector_pb2.CONNECTOR_STATE_WAITING]
            )
            ((_, reason),) = reports(waiting)
            assert f"127.0.0.1:{system.network.port}" in reason
            assert not writing.done()
            system.repair(outage)
            await writing
            await admin.status_once(lambda status: reports(status) == [(connector_pb2.CONNECTOR_STATE_RUNNING, "")])
        stored, expected = await system.stored(), [b"%d" % number for number in range(batch + 1)]
        assert (sorted({*stored}) if case in AT_LEAST_ONCE else stored) == expected
        await writer.close()
        await admin.close()


@pytest.mark.each_value
@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("case", LIMITS)
async def test_an_outage_beyond_the_limit_names_the_setting_to_raise(
    case: str, outage: str, network: Network, request: pytest.FixtureRequest
) -> None:
    setting, seconds = LIMITS[case]
    async with (
        gateway() as (_, address),
        sink_behind_a_network(case, "out", network, request, patience=seconds) as (sink, system),
    ):
        writer, admin = Writer(address), Engine(address)
        async with serving(sink, address):
            await writer.report_commits()
            await admin.status_once(lambda status: len(status.sink_sessions) == 1)
            await write(writer, 0)
            system.fail(outage)
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await write(writer, 1)
            why = failed.value.details() or ""
            assert "sink" in why
            assert f"since {setting} is {seconds:g} s: raise it to wait longer" in why
            assert why.count("raise it to wait longer") == 1
            system.repair(outage)
        await writer.close()
        await admin.close()

"""The last error of each part: in the status of a real gateway, with its age, its time, and whether it is over."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.wire import Connector, Engine, serve
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway import Http, Limits
from headrace.gateway.core import Gateway
from headrace.gateway.core.base.last_error import MAX_LENGTH, LastError, later
from headrace.gateway.observer import Observer
from headrace.gateway_status import status_document
from headrace.gateway_status.last_errors import LastErrors
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import connector_pb2

RUNNING, DEGRADED = connector_pb2.CONNECTOR_STATE_RUNNING, connector_pb2.CONNECTOR_STATE_DEGRADED


@pytest.fixture
async def rig() -> AsyncIterator[tuple[Gateway, Connector, Engine]]:
    """A gateway with a connector that sends orders/0, and a pipeline that reads it."""
    async with serve() as (gateway, address):
        connector, engine = Connector(address), Engine(address)
        await engine.attach()
        await connector.hello()
        await connector.open("orders/0", 1)
        await connector.expect("stream_opened")
        yield gateway, connector, engine
        await connector.close()
        await engine.close()


async def document(gateway: Gateway) -> dict[str, Any]:
    """The status as JSON."""
    observed = await Observer(gateway, Http()).observe()
    return dict(status_document("", observed.status, observed.taken_at))


async def report(rig: tuple[Gateway, Connector, Engine], *errors: connector_pb2.ConnectorError, **fields: Any) -> None:
    """Sends a report, and waits until the gateway has read it."""
    _, connector, engine = rig
    await connector.send(report=connector_pb2.Report(**{"state": RUNNING, **fields}, errors=errors))
    await engine.status_once(lambda status: any(session.reported.errors for session in status.sessions))


async def test_an_old_error_of_a_stream_that_runs_is_over(rig: tuple[Gateway, Connector, Engine]) -> None:
    await report(rig, connector_pb2.ConnectorError(message="no route to host", age_ms=540_000, stream="orders/0"))
    found = await document(rig[0])
    (stream,) = [one for one in found["streams"] if one["stream"] == "orders/0"]
    assert (stream["state"], stream["last_error"]["message"]) == ("live", "no route to host")
    assert stream["last_error"]["is_over"]
    assert stream["last_error_age_ms"] >= 540_000
    ago = datetime.now(UTC) - datetime.fromisoformat(stream["last_error"]["at"].replace("Z", "+00:00"))
    assert ago >= timedelta(seconds=540)
    assert found["sessions"][0]["last_error"]["is_over"]


async def test_an_error_that_lasts_is_not_over(rig: tuple[Gateway, Connector, Engine]) -> None:
    error = connector_pb2.ConnectorError(message="no route to host", stream="orders/0")
    await report(rig, error, state=DEGRADED, reason="half of the reads fail")
    found = await document(rig[0])
    (stream,) = [one for one in found["streams"] if one["stream"] == "orders/0"]
    assert not stream["last_error"]["is_over"]
    session = found["sessions"][0]
    assert (session["last_error"]["message"], session["last_error"]["is_over"]) == ("half of the reads fail", False)


async def test_an_error_of_a_stream_that_another_connector_sends_is_not_taken(rig: tuple[Gateway, Connector, Engine]) -> None:
    rig[0].stream("payroll/0")
    await report(rig, connector_pb2.ConnectorError(message="it is broken", stream="payroll/0"))
    found = await document(rig[0])
    (stream,) = [one for one in found["streams"] if one["stream"] == "payroll/0"]
    assert (stream["last_error"], stream["last_error_age_ms"]) == (None, None)


@pytest.mark.parametrize(("kind", "is_over"), [("process-starts", True), ("paused", True), ("pipeline-fails", False)])
def test_an_error_is_over_while_its_part_only_starts_or_is_paused(kind: str, is_over: bool) -> None:
    status = pb.GetStatusResponse(problems=[pb.Problem(part="pipeline p", kind=kind)], problems_in_all=1)
    pipeline = pb.PipelineStatus(pipeline="p", error=pb.PartError(message="no price", age_ms=9_000))
    told = LastErrors(status, datetime.now(UTC)).of_part("pipeline p", pipeline)["last_error"]
    assert told is not None
    assert told["is_over"] is is_over


async def test_why_a_session_has_ended_stays_after_the_next_one_has_begun() -> None:
    with clock.use(VirtualClock()) as time:
        gateway = Gateway(Limits())
        stream, sink = gateway.stream("orders/0"), gateway.sink("totals")
        stream.note_end("the password is wrong")
        sink.note_failure("totals-0", "disk full")
        sink.note_success(_Session())  # type: ignore[arg-type]
        time.advance(540)
        stream.note_end("")
        found = await document(gateway)
    for part in (*found["streams"], *found["sinks"]):
        assert part["last_error"]["is_over"]
        assert part["last_error_age_ms"] == 540_000
    assert found["sinks"][0]["failure"] is None
    assert [part["last_error"]["message"] for part in (*found["streams"], *found["sinks"])] == [
        "the password is wrong",
        "instance totals-0: disk full",
    ]


class _Session:
    succeeded_at = 0.0


@given(st.lists(st.tuples(st.text(max_size=2 * MAX_LENGTH), st.integers(0, 2**64 - 1)), max_size=8))
def test_the_latest_error_counts_in_whatever_order_they_are_told(told: list[tuple[str, int]]) -> None:
    with clock.use(VirtualClock()):
        known: LastError | None = None
        for message, age_ms in told:
            known = later(known, message, age_ms)
        said = [(message, age_ms) for message, age_ms in told if message]
        assert (known is None) == (not said)
        if known is not None:
            status = known.status()
            assert len(status.message) <= MAX_LENGTH
            # The same error may be told twice, with ages that differ by two seconds.
            assert status.age_ms <= min(min(age_ms for _, age_ms in said), 2**53) + 2_000

"""Whether a connector reconnects: by the reason that the gateway gives, by the status if it gives none."""

import re

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from tests.docs.pages import section
from tests.sdk.python.sinks import Plain
from tests.sdk.python.test_session import VALUES, Log

from headrace.protocol.v1 import connector_pb2
from headrace.sdk import GatewayRefused, GatewayUnavailable, SessionTakenOver, StreamNotPermitted
from headrace.sdk.wire import BY_REASON, session_ended

S = grpc.StatusCode
PAGE = "docs/reference/protocol.md"


def test_the_table_has_every_reason_of_the_protocol_and_no_other() -> None:
    reasons = {name.removeprefix("ERROR_REASON_") for name in connector_pb2.ErrorReason.DESCRIPTOR.values_by_name}
    assert set(BY_REASON) == reasons - {"UNSPECIFIED"}


def test_the_table_is_that_of_the_page() -> None:
    _, refused, away = re.split("^Do not reconnect after:|^Reconnect after:", section(PAGE, "Reasons"), flags=re.MULTILINE)
    by_page = {reason: again for again, items in enumerate((refused, away)) for reason in re.findall("(?m)^- `([A-Z_]+)`", items)}
    assert by_page == {reason: kind is GatewayUnavailable for reason, kind in BY_REASON.items()}


@pytest.mark.parametrize("reason", BY_REASON)
def test_a_reason_counts_more_than_its_status(reason: str) -> None:
    for status in (S.UNAVAILABLE, S.ABORTED, S.INVALID_ARGUMENT):
        ended = session_ended("g:1", status, "why", ErrorInfo(reason=reason, domain="headrace", metadata={"limit": "l"}))

        assert type(ended) is BY_REASON[reason]
        assert (ended.status, ended.reason, ended.metadata) == (status.name, reason, {"limit": "l"})
        assert "gateway g:1: why" in str(ended)


@pytest.mark.parametrize(
    ("status", "details", "kind"),
    [
        (S.UNAVAILABLE, "", GatewayUnavailable),
        (S.DEADLINE_EXCEEDED, "", GatewayUnavailable),
        (S.CANCELLED, "", GatewayUnavailable),
        (S.INTERNAL, "", GatewayUnavailable),
        (S.UNKNOWN, "", GatewayUnavailable),
        (S.OK, "", GatewayUnavailable),
        (S.ABORTED, "", SessionTakenOver),
        (S.PERMISSION_DENIED, "", StreamNotPermitted),
        (S.RESOURCE_EXHAUSTED, "Received message larger than max", GatewayRefused),
        (S.RESOURCE_EXHAUSTED, "GOAWAY: ENHANCE_YOUR_CALM", GatewayUnavailable),
        (S.RESOURCE_EXHAUSTED, "Too many pings", GatewayUnavailable),
        (S.FAILED_PRECONDITION, "", GatewayRefused),
        (S.INVALID_ARGUMENT, "", GatewayRefused),
        (S.UNAUTHENTICATED, "", GatewayRefused),
        (S.UNIMPLEMENTED, "", GatewayRefused),
    ],
)
@pytest.mark.parametrize("info", [None, ErrorInfo(reason="OF_A_LATER_VERSION", domain="headrace")], ids=["none", "unknown"])
def test_without_a_known_reason_the_status_counts(
    status: grpc.StatusCode, details: str, kind: type[Exception], info: ErrorInfo | None
) -> None:
    assert type(session_ended("g:1", status, details, info)) is kind


async def test_a_source_is_told_the_reason(gateway, connect) -> None:
    task = connect(Log(VALUES))
    session = await gateway.session()
    text = "protocol version 1: this gateway (9.0) speaks 2; upgrade the connector's SDK to one that speaks 2"
    session.close_because(S.FAILED_PRECONDITION, "PROTOCOL_VERSION_UNSUPPORTED", text, upgrade="connector")

    with pytest.raises(GatewayRefused, match="upgrade the connector's SDK") as caught:
        await task
    assert (caught.value.reason, caught.value.metadata) == ("PROTOCOL_VERSION_UNSUPPORTED", {"upgrade": "connector"})


async def test_a_sink_reconnects_for_a_reason_whatever_the_status(sink_gateway, attach) -> None:
    task = attach(Plain())
    session = await sink_gateway.session()
    session.close_because(S.RESOURCE_EXHAUSTED, "TOO_MANY_SESSIONS", limit="max_sessions")

    await sink_gateway.session()
    assert not task.done()


async def test_a_source_does_not_reconnect_for_a_reason_whatever_the_status(gateway, connect) -> None:
    task = connect(Log(VALUES))
    (await gateway.session()).close_because(S.UNAVAILABLE, "TAKEN_OVER")

    with pytest.raises(SessionTakenOver):
        await task


@pytest.mark.parametrize(
    "details",
    [b"\xff\xff", b"\x08\x03\x12\x05other", b""],
    ids=["no status", "another status", "empty"],
)
async def test_details_that_are_no_status_of_the_call_do_not_count(gateway, connect, details: bytes) -> None:
    task = connect(Log(VALUES))
    (await gateway.session()).close(S.UNAVAILABLE, "away", trailing=(("grpc-status-details-bin", details),))

    await gateway.session()
    assert not task.done()


async def test_the_reason_of_another_domain_does_not_count(gateway, connect) -> None:
    task = connect(Log(VALUES))
    (await gateway.session()).close_because(S.UNAVAILABLE, "TAKEN_OVER", domain="proxy.example")

    await gateway.session()
    assert not task.done()

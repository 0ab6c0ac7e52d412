"""Ends of sessions in the vectors: the table is whole, its bytes hold what it says, and the SDK acts on it."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc.aio
import pytest
from google.rpc import error_details_pb2, status_pb2
from tests.docs.pages import section
from tests.fake_gateway.server import DEADLINE, FakeServer
from tests.vectors.files import ROOT, named, read

from headrace.protocol.v1 import connector_pb2
from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.source_pb2_grpc import SourceServiceServicer, add_SourceServiceServicer_to_server
from headrace.sdk import GatewayRefused, Message, Position, Settings, Source, serve

CASES = named(read("errors.json")["cases"])
PLAIN = {name: case for name, case in CASES.items() if name.startswith("the reason ")}
_VALUE = re.compile(r"((?:  // .*\n)+)  ERROR_REASON_(\w+) = ")


def comments() -> dict[str, str]:
    """The protocol's rule for each reason."""
    proto = (ROOT / "proto/headrace/protocol/v1/connector.proto").read_text()
    return {match[2]: re.sub(r"\s*\n?\s*// ", " ", match[1]) for match in _VALUE.finditer(proto)}


def test_every_reason_is_in_the_table_with_its_status_and_what_to_do() -> None:
    names = {name.removeprefix("ERROR_REASON_") for name in connector_pb2.ErrorReason.DESCRIPTOR.values_by_name}
    assert {case["reason"] for case in PLAIN.values()} == names - {"UNSPECIFIED"}
    for case in PLAIN.values():
        comment = comments()[case["reason"]]
        assert f" {case['status']};" in comment, case
        assert ("do not reconnect" not in comment) is case["reconnect"], case
        assert ("; reconnect" in comment) is case["reconnect"], case
        assert set(case["metadata"]) <= set(re.findall(r"`(\w+)`", comment)), case


def test_the_page_says_the_same_of_every_reason() -> None:
    _, final, transient = re.split(r"econnect after:", section("docs/reference/protocol.md", "Reasons"))
    rows = {
        reason: (status, reconnect)
        for part, reconnect in ((final, False), (transient, True))
        for reason, status in re.findall(r"^- `(\w+)` \(`(\w+)`\): ", part, re.MULTILINE)
    }
    assert rows == {case["reason"]: (case["status"], case["reconnect"]) for case in PLAIN.values()}


def test_every_status_is_in_the_table_without_a_reason() -> None:
    assert {case["status"] for case in CASES.values() if "reason" not in case} == {status.name for status in grpc.StatusCode}
    for case in CASES.values():
        assert grpc.StatusCode[case["status"]].value[0] == case["code"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "reason" in case])
def test_the_bytes_of_an_error_hold_its_reason(name: str) -> None:
    case = CASES[name]
    status = status_pb2.Status.FromString(bytes.fromhex(case["details_hex"]))
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (status.code, status.message) == (case["code"], case["text"])
    assert (info.domain, info.reason, dict(info.metadata)) == (case["domain"], case["reason"], case["metadata"])


class Idle(Source):
    """A source that has nothing."""

    name = "idle"

    def read(self, partition: str, position: Position | None) -> Iterator[Message | None]:
        while True:
            yield None


class EndingGateway(FakeServer, SourceServiceServicer):
    """Ends every session after Welcome, as a case says."""

    register = add_SourceServiceServicer_to_server

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self._case = case
        self.sessions = 0
        self.came_back = asyncio.Event()

    async def Ingest(self, request_iterator: AsyncIterator[pb.IngestRequest], context: Any) -> None:  # type: ignore[override]
        await anext(request_iterator)
        self.sessions += 1
        if self.sessions > 1:
            self.came_back.set()
        credit = pb.Credit(bytes=1 << 20, messages=1000)
        welcome = pb.Welcome(protocol_version=1, max_frame_bytes=1 << 20, max_frame_messages=1000, max_streams=10, credit=credit)
        await context.write(pb.IngestResponse(welcome=welcome))
        if self._case["status"] == "OK":
            return
        details = self._case.get("details_hex")
        trailing = () if details is None else (("grpc-status-details-bin", bytes.fromhex(details)),)
        await context.abort(grpc.StatusCode[self._case["status"]], self._case["text"], trailing)


@pytest.mark.parametrize("name", CASES)
async def test_the_sdk_reconnects_where_it_should_and_nowhere_else(name: str) -> None:
    gateway = EndingGateway(CASES[name])
    await gateway.start()
    settings = Settings(first_backoff_seconds=0.001, max_backoff_seconds=0.001)
    serving = asyncio.create_task(serve(Idle(), gateway=gateway.address, settings=settings))
    back = asyncio.create_task(gateway.came_back.wait())
    try:
        await asyncio.wait({serving, back}, return_when=asyncio.FIRST_COMPLETED, timeout=DEADLINE)
        assert back.done() is CASES[name]["reconnect"]
        if serving.done():
            assert isinstance(serving.exception(), GatewayRefused)
            assert CASES[name]["text"] in str(serving.exception())
    finally:
        serving.cancel()
        back.cancel()
        await asyncio.gather(serving, back, return_exceptions=True)
        await gateway.stop()

"""The checkpoint of a query of a resumable source keeps where a batch begins until another one records that it was read."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import grpc
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.fake_gateway.engine import DEADLINE_S, FakeGateway

from headrace.engine.checkpoint.position import Offset, Position, moved
from headrace.engine.source.confirmation import CONFIRM_AFTER_S, Confirmation
from headrace.engine.source.options import Defaults, parse
from headrace.engine.source.planner import Planner
from headrace.engine.source.ranges import Range, begins_of, ranges_of
from headrace.engine.wire.connection import Connection
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1.frame_pb2 import Begin
from headrace.protocol.v1.frame_pb2 import Position as Wire

ALL = ReadAllAvailable()
STREAM = "feed/0"
BEFORE = Position(7, 5, b"5")
AFTER = Position(7, 9, b"9", begin=BEFORE)


class Plans(FakeGateway):
    """A gateway that answers with the ranges of a test, one response for each call, and then with nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Wire] = []

    def Plan(self, request: pb.PlanRequest, context: grpc.ServicerContext) -> pb.PlanResponse:
        self.plans.append(request)
        ends = [self.answers.pop(0)] if self.answers else []
        ranges = [pb.PlannedRange(stream=STREAM, end=end, messages=4, bytes=40) for end in ends]
        return pb.PlanResponse(ranges=ranges, exhausted=not ends)


@pytest.fixture
def gateway() -> Iterator[Plans]:
    found = Plans()
    found.start()
    yield found
    found.stop()


def make(gateway: Plans) -> Planner:
    options = parse({"gateway": gateway.address, "stream": "feed/*", "pipeline": "p"}, Defaults(read_tasks=4))
    connection = Connection.of(options)
    grpc.channel_ready_future(connection.channel()).result(DEADLINE_S)
    return Planner(options, connection)


def offset(position: Position) -> dict[str, Any]:
    return Offset("p", {STREAM: position}, checkpoint="c").to_json()


def sent(request: pb.PlanRequest | pb.AttachRequest) -> Mapping[str, Wire]:
    return {each.stream: each.position for each in request.committed}


def test_an_offset_and_the_wire_keep_where_a_batch_begins() -> None:
    kept = Offset.from_json(json.loads(json.dumps(offset(AFTER)))).streams[STREAM]
    assert (kept, kept.cursor, kept.begin, kept.taken_as_unread().cursor) == (AFTER, b"9", BEFORE, b"5")
    assert kept.to_proto() == Wire(epoch=7, sequence=9, cursor=b"9", begin=Begin(epoch=7, sequence=5, cursor=b"5"))
    assert Position.from_proto(kept.to_proto()).begin == BEFORE
    first = Position(7, 3, b"3", begin=Position(0, -1))
    assert Position.from_proto(first.to_proto()).begin == Position(0, -1)
    assert moved({STREAM: AFTER.taken_as_read()}, {STREAM: AFTER}) == {STREAM: AFTER}


def test_only_the_run_that_planned_a_range_reads_it() -> None:
    start, end = {STREAM: BEFORE}, {STREAM: AFTER}
    assert ranges_of(start, end, as_planned=True) == [Range(STREAM, BEFORE, BEFORE, AFTER, AFTER)]
    assert ranges_of(start, end, as_planned=False) == []
    assert begins_of({STREAM: Position(6, 20, b"4")}, end) == {STREAM: BEFORE}
    assert begins_of(end, {STREAM: AFTER.taken_as_read()}) == {STREAM: AFTER}, "it is confirmed"
    assert begins_of(end, {STREAM: BEFORE}) == {STREAM: BEFORE}, "it is taken back"
    assert begins_of(end, {}) == {STREAM: AFTER}
    assert ranges_of(end, {STREAM: BEFORE}, as_planned=True) == [], "an offset that goes back reads nothing"


def test_a_run_acknowledges_what_it_has_read_and_records_it_with_the_next_batch(gateway: Plans) -> None:
    begin = Begin(epoch=7, sequence=9, cursor=b"9")
    gateway.answers = [AFTER.to_proto(), Wire(epoch=7, sequence=12, cursor=b"12", begin=begin)]
    planner = make(gateway)
    start = offset(BEFORE)
    first = planner.latest_offset(start, ALL)
    assert planner.plan_reads(start, first)
    second = planner.latest_offset(first, ALL)
    assert sent(gateway.plans[1])[STREAM] == AFTER.to_proto(), "it is committed, and not yet recorded as read"
    assert second["streams"][STREAM]["begin"] == {"epoch": 7, "sequence": 9, "cursor": "OQ=="}


def test_another_run_continues_from_where_a_batch_began_that_it_has_not_read(gateway: Plans) -> None:
    planner = make(gateway)
    end = offset(AFTER)
    assert planner.latest_offset(end, ALL) == end
    assert sent(gateway.attached[0])[STREAM] == BEFORE.to_proto()


def test_a_batch_that_is_read_again_reads_nothing_of_a_resumable_stream(gateway: Plans) -> None:
    planner = make(gateway)
    start, end = offset(BEFORE), offset(AFTER)
    assert planner.plan_reads(start, end) == []
    assert sent(gateway.attached[0])[STREAM] == BEFORE.to_proto()
    assert not gateway.attached[0].planned
    assert planner.latest_offset(end, ALL) == end
    assert not sent(gateway.plans[0]), "the gateway knows where it continues"


def test_a_bounded_run_records_at_its_end_that_its_last_batch_was_read(gateway: Plans) -> None:
    gateway.answers = [AFTER.to_proto()]
    planner = make(gateway)
    planner.prepare_available_now()
    start = offset(BEFORE)
    first = planner.latest_offset(start, ALL)
    planner.plan_reads(start, first)
    last = planner.latest_offset(first, ALL)
    assert last["streams"] == {STREAM: {"epoch": 7, "sequence": 9, "cursor": "OQ=="}}
    assert planner.plan_reads(first, last) == []
    assert planner.latest_offset(last, ALL) == last
    assert sent(gateway.plans[-1])[STREAM] == AFTER.taken_as_read().to_proto()


def test_a_batch_is_confirmed_once_nothing_else_was_planned_for_a_while() -> None:
    now = [100.0]
    confirmation = Confirmation(lambda: now[0])
    confirmation.look({"batch": 1})
    assert not confirmation.is_due
    now[0] += CONFIRM_AFTER_S
    assert confirmation.is_due
    confirmation.look({"batch": 1})
    assert confirmation.is_due
    confirmation.look({"batch": 2})
    assert not confirmation.is_due

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NoReturn

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from tests.engine.frames import Message
from tests.fake_gateway.engine import DEADLINE_S, FakeGateway

from headrace.engine import CheckpointError, GatewayAway, GatewayError, MessagesLost, NotAllowed, SinkAway, StreamAway, TakenOver
from headrace.engine.checkpoint.position import Offset
from headrace.engine.source.bootstraps import Bootstraps
from headrace.engine.source.options import Defaults, parse
from headrace.engine.source.planner import Planner
from headrace.engine.source.ranges import Ends
from headrace.engine.wire.connection import Connection
from headrace.protocol.v1 import engine_pb2 as pb

ALL = ReadAllAvailable()


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    gateway = FakeGateway().start()
    yield gateway
    gateway.stop()


def make(gateway: FakeGateway, **given: str) -> Planner:
    options = parse({"gateway": gateway.address, "stream": "orders/*", "pipeline": "p", **given}, Defaults(read_tasks=4))
    connection = Connection.of(options)
    # On a busy machine a first attempt to connect can time out, which a planner takes for a gateway that is unavailable.
    if gateway.is_running:
        grpc.channel_ready_future(connection.channel()).result(DEADLINE_S)
    return Planner(options, connection)


def poll(planner: Planner) -> NoReturn:
    """Asks again and again, as Spark does while a gateway is away, until an error ends that."""
    start = planner.initial_offset()
    while True:
        planner.latest_offset(start, ALL)


def messages(first: int, last: int) -> list[Message]:
    return [Message(i, b"value-%d" % i) for i in range(first, last + 1)]


def sequences(offset: dict[str, Any]) -> dict[str, int]:
    return {stream: position["sequence"] for stream, position in offset["streams"].items()}


def test_the_start_is_acknowledged_and_only_what_moved_is_sent(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    gateway.append("orders/1", messages(1, 5))
    planner = make(gateway)
    start = planner.initial_offset()
    assert start == {"pipeline": "p", "checkpoint": start["checkpoint"], "streams": {}}
    first = planner.latest_offset(start, ALL)
    assert sequences(first) == {"orders/0": 5, "orders/1": 5}
    assert gateway.committed("orders/0") == -1
    gateway.append("orders/1", messages(6, 7))
    second = planner.latest_offset(first, ALL)
    assert sequences(second) == {"orders/0": 5, "orders/1": 7}
    assert gateway.committed("orders/0") == gateway.committed("orders/1") == 5
    assert planner.latest_offset(second, ALL) == second
    assert [[p.stream for p in plan.committed] for plan in gateway.plans] == [[], ["orders/0", "orders/1"], ["orders/1"]]
    assert [p.position.cursor for p in gateway.plans[2].committed] == [b"7"]
    assert len(gateway.attached) == 1


def test_the_plans_of_a_run_are_numbered_whatever_the_gateway_has_forgotten(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    planner = make(gateway)
    start = planner.initial_offset()
    planner.latest_offset(start, ALL)
    first = planner.latest_offset(start, ALL)
    for _ in range(2):
        assert planner.latest_offset(first, ALL) == first
    gateway.append("orders/0", messages(6, 7))
    second = planner.latest_offset(first, ALL)
    gateway.forget()
    assert planner.latest_offset(second, ALL) == second
    assert make(gateway).latest_offset(second, ALL) == second
    numbers = [plan.number for plan in gateway.plans]
    assert numbers == [*range(1, len(numbers)), 1], "another run counts anew"


def test_an_unknown_start_is_refused_and_not_acknowledged(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    planner = make(gateway)
    end = json.loads(json.dumps(planner.latest_offset(planner.initial_offset(), ALL)))
    end["streams"]["orders/0"]["sequence"] = 4
    with pytest.raises(CheckpointError, match="no batch of this run ended"):
        planner.latest_offset(end, ALL)
    assert gateway.committed("orders/0") == -1


def test_planning_again_from_the_same_start(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    planner = make(gateway)
    start = planner.initial_offset()
    planner.latest_offset(start, ALL)
    gateway.append("orders/0", messages(6, 6))
    assert sequences(planner.latest_offset(start, ALL)) == {"orders/0": 6}


def test_the_name_is_generated_and_kept_in_the_checkpoint(gateway: FakeGateway) -> None:
    options = parse({"gateway": gateway.address, "stream": "orders/*"}, Defaults())
    start = Planner(options, Connection.of(options)).initial_offset()
    assert start["pipeline"].startswith("pipeline-")
    later = Planner(options, Connection.of(options))
    later.latest_offset(start, ALL)
    assert gateway.attached[0].pipeline.name == start["pipeline"]
    with pytest.raises(CheckpointError, match="belongs to pipeline"):
        make(gateway).latest_offset(start, ALL)


def test_a_generated_name_outlives_a_first_batch_that_was_not_committed(gateway: FakeGateway) -> None:
    """Spark asks for the initial offset again then, and for the batch as it was planned."""
    gateway.append("orders/0", messages(1, 5))
    options = parse({"gateway": gateway.address, "stream": "orders/*"}, Defaults())
    earlier, planner = (Planner(options, Connection.of(options)) for _ in range(2))
    end = earlier.latest_offset(earlier.initial_offset(), ALL)
    start = planner.initial_offset()
    assert start["pipeline"] != end["pipeline"]
    assert planner.plan_reads(start, end) == planner.plan_reads(start, end) != []
    planner.latest_offset(end, ALL)
    assert {attached.pipeline.name for attached in gateway.attached} == {end["pipeline"]}


def test_a_checkpoint_of_another_source_is_refused(gateway: FakeGateway) -> None:
    with pytest.raises(CheckpointError, match="another source"):
        make(gateway).latest_offset({"partition-0": 12}, ALL)


def test_a_gateway_that_restarted_is_told_everything(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    planner = make(gateway)
    end = planner.latest_offset(planner.initial_offset(), ALL)
    gateway.forget()
    assert planner.latest_offset(end, ALL) == end
    assert [[p.stream for p in a.committed] for a in gateway.attached] == [[], ["orders/0"]]
    assert gateway.committed("orders/0") == 5


def test_a_gateway_that_is_away_is_waited_for(gateway: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    gateway.append("orders/0", messages(1, 5))
    gateway.stop()
    planner = make(gateway)
    start = planner.initial_offset()
    for _ in range(5):
        assert planner.latest_offset(start, ALL) == start
    gateway.start()
    deadline = time.monotonic() + 120
    while (end := planner.latest_offset(start, ALL)) == start:
        assert time.monotonic() < deadline
    assert sequences(end) == {"orders/0": 5}
    # Also where the name was generated, the lines say whose query waits.
    away, available = (record for record in caplog.records if record.levelname == "WARNING")
    assert "available again" in available.getMessage()
    assert {vars(record)["pipeline"] for record in (away, available)} == {start["pipeline"]}


def test_a_gateway_that_stays_away_fails_the_query(gateway: FakeGateway) -> None:
    gateway.stop()
    planner = make(gateway, gatewayTimeout="300ms", token="t0p-s3cret")
    with pytest.raises(GatewayAway, match="gatewayTimeout") as caught:
        poll(planner)
    assert gateway.address in str(caught.value)
    assert "t0p-s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (grpc.StatusCode.DATA_LOSS, MessagesLost, "stream orders/0: after 5, up to 9"),
        (grpc.StatusCode.ABORTED, TakenOver, "another run"),
        (grpc.StatusCode.UNAUTHENTICATED, NotAllowed, "HEADRACE_TOKEN"),
        (grpc.StatusCode.PERMISSION_DENIED, NotAllowed, "does not permit"),
        (grpc.StatusCode.UNIMPLEMENTED, GatewayError, "Headrace gateway of an older version"),
    ],
)
def test_refusals_are_said_at_once(gateway: FakeGateway, code: grpc.StatusCode, kind: type[Exception], text: str) -> None:
    gateway.failure = (code, "stream orders/0: after 5, up to 9")
    planner = make(gateway)
    with pytest.raises(kind, match=text):
        # The first answer counts. On a busy machine, a call may take longer than the planner waits for one.
        poll(planner)


def test_the_token_goes_with_every_call(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    planner = make(gateway, token="t0p-s3cret")
    start = planner.initial_offset()
    end = planner.latest_offset(start, ALL)
    planner.read_inline(start, end, planner.plan_reads(start, end))
    planner.stop()
    assert len(gateway.metadata) == 4
    assert {m["authorization"] for m in gateway.metadata} == {"Bearer t0p-s3cret"}


def test_limits(gateway: FakeGateway) -> None:
    assert make(gateway).read_limit() == ALL
    assert make(gateway, maxBytesPerTrigger="1kb").read_limit() == ReadMaxBytes(1024)
    planner = make(gateway, maxMessagesPerTrigger="3", maxBytesPerTrigger="1mb")
    assert planner.read_limit() == ReadMaxRows(3)
    gateway.append("orders/0", messages(1, 5))
    start = planner.initial_offset()
    assert sequences(planner.latest_offset(start, planner.read_limit())) == {"orders/0": 3}
    planner.latest_offset(start, ALL)
    assert [(p.max_messages, p.max_bytes) for p in gateway.plans] == [(3, 2**20), (0, 0)]
    assert not gateway.plans[1].HasField("max_messages")


def test_a_run_that_must_catch_up_waits_until_all_is_planned(gateway: FakeGateway) -> None:
    gateway.stop()
    planner = make(gateway)
    planner.prepare_available_now()
    start = planner.initial_offset()
    gateway.append("orders/0", messages(1, 5))
    gateway.start()
    end = planner.latest_offset(start, ALL)
    assert sequences(end) == {"orders/0": 5}
    assert gateway.attached[0].available_now
    assert planner.latest_offset(end, ALL) == end
    assert gateway.committed("orders/0") == 5


def test_a_run_that_must_catch_up_reads_what_is_here_and_does_not_end_well_while_streams_are_away(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    gateway.streams_away = ["trades/*"]
    planner = make(gateway, stream="orders/*,trades/*", streamTimeout="300ms")
    planner.prepare_available_now()
    end = planner.latest_offset(planner.initial_offset(), ALL)
    assert sequences(end) == {"orders/0": 5}
    says = rf"gateway {gateway.address} provides a stream trades/\*; .* Start its connector.* option streamTimeout"
    with pytest.raises(StreamAway, match=says):
        planner.latest_offset(end, ALL)
    assert gateway.committed("orders/0") == 5


def test_a_run_that_must_catch_up_ends_once_the_streams_have_come(gateway: FakeGateway) -> None:
    gateway.streams_away = ["orders/*"]
    planner = make(gateway, streamTimeout="30s")
    planner.prepare_available_now()
    start = planner.initial_offset()
    with ThreadPoolExecutor(1) as pool:
        planning = pool.submit(planner.latest_offset, start, ALL)
        gateway.wait_until(lambda: len(gateway.plans) > 2, "the run waits")
        assert not planning.done()
        gateway.streams_away = []
        assert planning.result(DEADLINE_S) == start


def test_only_a_run_that_must_catch_up_and_does_not_accept_it_awaits_streams(gateway: FakeGateway) -> None:
    gateway.streams_away = ["orders/*"]
    for options in ({}, {"onStreamAway": "accept"}):
        planner = make(gateway, **options)
        if options:
            planner.prepare_available_now()
        start = planner.initial_offset()
        assert planner.latest_offset(start, ALL) == start
    assert not any(plan.awaits_streams for plan in gateway.plans)


def test_a_small_batch_is_read_inline(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 25))
    planner = make(gateway)
    start = planner.initial_offset()
    end = planner.latest_offset(start, ALL)
    lists = planner.plan_reads(start, end)
    frames = planner.read_inline(start, end, lists)
    assert frames is not None
    assert [(f.first, f.last) for f in frames] == [(1, 10), (11, 20), (21, 25)]
    assert gateway.fetches[0].ranges[0].batch_end.sequence == 25


def test_a_large_batch_is_for_the_executors(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 25))
    for planner in (make(gateway, inlineBytes="10"), make(gateway, inlineBytes="0")):
        start = planner.initial_offset()
        end = planner.latest_offset(start, ALL)
        assert planner.read_inline(start, end, planner.plan_reads(start, end)) is None
    assert gateway.fetches == []


def test_an_inline_read_that_fails_is_left_to_the_executors(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 25))
    gateway.fetch_failures = [(1, grpc.StatusCode.UNAVAILABLE, "gone")]
    planner = make(gateway)
    start = planner.initial_offset()
    end = planner.latest_offset(start, ALL)
    lists = planner.plan_reads(start, end)
    assert planner.read_inline(start, end, lists) is None
    assert len(lists) == 1


def test_a_replayed_batch_is_announced_and_read_by_the_executors(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 9))
    earlier = make(gateway, maxMessagesPerTrigger="5")
    start = earlier.latest_offset(earlier.initial_offset(), earlier.read_limit())
    end = earlier.latest_offset(start, earlier.read_limit())
    gateway.forget()
    planner = make(gateway)
    lists = planner.plan_reads(start, end)
    assert planner.read_inline(start, end, lists) is None
    assert sorted((r.low, r.end.sequence) for part in lists for r in part) == [(5, 6), (6, 7), (7, 8), (8, 9)]
    attach = gateway.attached[-1]
    assert [(p.stream, p.position.sequence) for p in attach.committed] == [("orders/0", 5)]
    assert [(p.stream, p.position.sequence) for p in attach.planned] == [("orders/0", 9)]
    assert planner.latest_offset(end, ALL) == end
    assert gateway.committed("orders/0") == 9


def test_a_replay_does_not_need_the_gateway_to_be_planned(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 9))
    earlier = make(gateway)
    start = earlier.initial_offset()
    end = earlier.latest_offset(start, ALL)
    gateway.stop()
    assert make(gateway).plan_reads(start, end)


PLANNER = """
import sys
from pyspark.sql.streaming.datasource import ReadAllAvailable
from headrace.engine.spark.format import HeadraceSource, SCHEMA

reader = HeadraceSource({"gateway": sys.argv[1], "stream": "orders/*", "pipeline": "p"}).streamReader(SCHEMA)
reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
try:
    print("planned", flush=True)
    sys.stdin.read()  # as Spark's planner waits for what it is asked next
finally:
    reader.stop()
"""


@pytest.mark.parametrize("by_signal", [True, False])
def test_a_process_that_plans_takes_leave_when_spark_ends_it(gateway: FakeGateway, by_signal: bool) -> None:
    gateway.append("orders/0", messages(1, 5))
    command = [sys.executable, "-c", PLANNER, gateway.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"planned\n"
        if by_signal:
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
        assert process.wait(120) == 0
    (leave,) = gateway.detached
    assert leave.pipeline.run == gateway.attached[0].pipeline.run
    assert not leave.committed


def test_the_lease_is_renewed_while_a_batch_runs_and_no_longer_than_the_run(gateway: FakeGateway) -> None:
    gateway.lease_ms = 100
    gateway.append("orders/0", messages(1, 5))
    planner = make(gateway)
    planner.latest_offset(planner.initial_offset(), ALL)
    plans = len(gateway.plans)
    gateway.wait_until(lambda: len(gateway.renewed) > 5, "renewals without any other call")
    assert len(gateway.plans) == plans
    assert {r.pipeline.run for r in gateway.renewed} == {gateway.attached[0].pipeline.run}
    planner.stop()
    assert not [thread.name for thread in threading.enumerate() if thread.name == "headrace-lease"]


def test_stopping_takes_leave_once(gateway: FakeGateway) -> None:
    planner = make(gateway)
    planner.latest_offset(planner.initial_offset(), ALL)
    planner.stop()
    planner.stop()
    assert [d.pipeline.run for d in gateway.detached] == [gateway.attached[0].pipeline.run]


def test_where_streams_begin_is_in_the_offset_and_is_not_read(gateway: FakeGateway) -> None:
    gateway.starts = {"orders/0": 100, "orders/1": 0}
    gateway.append("orders/0", messages(95, 105))
    gateway.append("orders/1", messages(1, 2))
    planner = make(gateway)
    nothing = planner.initial_offset()
    begun = planner.latest_offset(nothing, ALL)
    assert begun["streams"] == {name: {"epoch": 0, "sequence": start, "start": True} for name, start in gateway.starts.items()}
    assert planner.plan_reads(nothing, begun) == []
    end = planner.latest_offset(begun, ALL)
    assert gateway.committed("orders/0") == 100
    assert sequences(end) == {"orders/0": 105, "orders/1": 2}
    (parts,) = planner.plan_reads(begun, end)
    assert [(r.stream, r.low, r.end.sequence) for r in parts] == [("orders/0", 100, 105), ("orders/1", 0, 2)]
    # Another run does not read it either.
    again = make(gateway)
    assert again.plan_reads(nothing, begun) == []
    assert [p.position.sequence for p in gateway.attached[-1].planned] == [100, 0]
    assert next(r.low for part in again.plan_reads(begun, end) for r in part) == 100


def test_the_end_of_a_stream_is_in_the_checkpoint_and_so_the_same_when_the_batch_is_read_again(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    gateway.append("orders/1", messages(1, 5))
    planner = make(gateway, application="app")
    first = planner.latest_offset(planner.initial_offset(), ALL)
    gateway.ended.add("orders/0")
    second = planner.latest_offset(first, ALL)
    assert sequences(second) == sequences(first)
    assert [stream for stream, position in second["streams"].items() if position.get("ended")] == ["orders/0"]
    assert planner.ends(planner.initial_offset(), first) == Ends(opened=("orders/0", "orders/1"))
    assert planner.ends(first, second) == Ends(("orders/0",))
    assert planner.plan_reads(first, second) == []
    assert planner.latest_offset(second, ALL) == second
    assert list(gateway.plans[-1].ended) == ["orders/0"]

    gateway.append("orders/0", messages(6, 6))
    gateway.ended.clear()
    third = planner.latest_offset(second, ALL)
    assert not planner.ends(second, third)
    again = make(gateway, application="app")
    assert again.ends(first, second) == Ends(("orders/0",))
    gateway.forget()
    again.latest_offset(second, ALL)
    assert list(gateway.attached[-1].ended) == ["orders/0"]
    plain = make(gateway, pipeline="q")
    gateway.ended.update(gateway.streams)
    offset = plain.latest_offset(plain.initial_offset(), ALL)
    assert plain.latest_offset(offset, ALL) == offset, "a query without event time is not told"


def test_streams_without_messages_are_in_the_offset_until_they_have_some_or_have_ended(gateway: FakeGateway) -> None:
    for stream in ("orders/1", "orders/2"):
        gateway.append(stream, [])
    gateway.append("orders/0", messages(1, 5))
    planner = make(gateway, application="app")
    beginning = planner.initial_offset()
    first = planner.latest_offset(beginning, ALL)
    assert first["awaited"] == ["orders/1", "orders/2"]
    assert planner.ends(beginning, first).opened == ("orders/0", "orders/1", "orders/2")
    assert {r.stream for some in planner.plan_reads(beginning, first) for r in some} == {"orders/0"}
    gateway.append("orders/0", messages(6, 6))
    gateway.append("orders/1", messages(1, 1))
    gateway.ended.add("orders/2")
    second = planner.latest_offset(first, ALL)
    assert list(gateway.plans[-1].awaited) == ["orders/1", "orders/2"]
    assert "awaited" not in second
    for again in (planner, make(gateway, application="app")):
        assert again.ends(first, second) == Ends(("orders/2",)), "the same where the batch is read again"


def test_a_query_without_event_time_awaits_no_streams(gateway: FakeGateway) -> None:
    gateway.append("orders/1", [])
    gateway.append("orders/0", messages(1, 5))
    planner = make(gateway)
    assert "awaited" not in planner.latest_offset(planner.initial_offset(), ALL)


def test_streams_that_are_gone_are_left_out_of_the_next_offset(gateway: FakeGateway) -> None:
    for stream in ("orders/0", "orders/1"):
        gateway.append(stream, messages(1, 5))
    gateway.ended.add("orders/0")
    planner = make(gateway, application="app")
    first = planner.latest_offset(planner.initial_offset(), ALL)
    gateway.gone.add("orders/0")
    assert planner.latest_offset(first, ALL) == first
    gateway.append("orders/1", messages(6, 7))
    second = planner.latest_offset(first, ALL)
    assert sequences(second) == {"orders/1": 7}
    assert planner.ends(first, second) == Ends(forgotten=("orders/0",))
    assert {r.stream for some in planner.plan_reads(first, second) for r in some} == {"orders/1"}
    assert not gateway.plans[-1].forgotten, "it is not committed yet"

    again = make(gateway, application="app")
    assert again.ends(first, second) == Ends(forgotten=("orders/0",)), "also where the batch is done again"
    assert {r.stream for some in again.plan_reads(first, second) for r in some} == {"orders/1"}
    assert again.latest_offset(second, ALL) == second
    assert [(p.stream, p.position.sequence) for p in gateway.plans[-1].forgotten] == [("orders/0", 5)]
    again.latest_offset(second, ALL)
    assert not gateway.plans[-1].forgotten, "once is enough"

    gateway.gone.clear()
    gateway.append("orders/0", messages(1, 2))
    third = again.latest_offset(second, ALL)
    assert sequences(third) == {"orders/0": 2, "orders/1": 7}, "a new stream of the name"


def test_offsets_do_not_grow_with_streams_that_are_gone(gateway: FakeGateway) -> None:
    planner = make(gateway, application="app")
    at, sizes = planner.initial_offset(), []
    for day in range(20):
        gateway.append(f"orders/{day:02}", messages(1, 3))
        gateway.ended.add(f"orders/{day:02}")
        gateway.gone = {f"orders/{day - 1:02}"}
        at = planner.latest_offset(at, ALL)
        sizes.append(len(json.dumps(at)))
    assert max(sizes[5:]) <= max(sizes[:5])
    assert len(gateway.positions["p"]) <= 2


@pytest.mark.parametrize(
    ("bounded", "given", "finishes"),
    [(True, {}, True), (False, {}, False), (True, {"finish": "false"}, False), (False, {"finish": "true"}, True)],
)
def test_event_time_comes_to_its_end_once_all_streams_have_ended(
    gateway: FakeGateway, bounded: bool, given: dict[str, str], finishes: bool
) -> None:
    gateway.append("orders/0", messages(1, 5))
    gateway.append("orders/1", messages(1, 5))

    def run(start: dict[str, Any]) -> tuple[dict[str, Any], list[bool]]:
        planner = make(gateway, application="app", **given)
        if bounded:
            planner.prepare_available_now()
        at, ends = start or planner.initial_offset(), list[bool]()
        while (end := planner.latest_offset(at, ALL)) != at:
            ends.append(planner.ends(at, end).all)
            at = json.loads(json.dumps(end))
        return at, ends

    gateway.ended.add("orders/0")
    at, ends = run({})
    assert not any(ends), "orders/1 is read to its last message, and has not ended"
    gateway.ended.add("orders/1")
    at, ends = run(at)
    assert any(ends) == finishes
    assert run(at)[1] == [], "once is enough"
    gateway.append("orders/1", messages(6, 7))
    at, ends = run(at)
    assert ends.count(True) == finishes, "what came since has windows of its own"


def test_nothing_is_planned_while_sinks_are_away_and_not_for_ever(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    gateway.sinks_away = ["alerts"]
    planner = make(gateway, gatewayTimeout="300ms")
    start = planner.initial_offset()
    assert planner.latest_offset(start, ALL) == start
    gateway.sinks_away = []
    end = planner.latest_offset(start, ALL)
    assert sequences(end) == {"orders/0": 5}
    gateway.sinks_away = ["alerts"]
    gateway.append("orders/0", messages(6, 6))
    with pytest.raises(SinkAway, match=r"no connector serves sink alerts.*Start its connector"):
        list(iter(lambda: planner.latest_offset(end, ALL), None))


def test_a_batch_of_an_earlier_run_waits_for_sinks_before_its_tasks(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    earlier = make(gateway)
    start = earlier.initial_offset()
    end = earlier.latest_offset(start, ALL)
    assert len(earlier.plan_reads(start, end)) == 1
    gateway.sinks_away = ["alerts"]
    with pytest.raises(SinkAway, match="no connector serves sink alerts"):
        make(gateway, gatewayTimeout="10ms").plan_reads(start, end)


def test_while_streams_are_quiet_a_batch_without_messages_counts_the_time_that_has_passed(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    planner = make(gateway, application="app", tick="0")
    start = planner.latest_offset(planner.initial_offset(), ALL)
    end = planner.latest_offset(start, ALL)
    assert gateway.plans[-1].awaits_streams
    assert end["streams"] == start["streams"]
    assert end["clock"] > start["clock"]
    assert planner.plan_reads(start, end) == []
    assert planner.ends(start, end).clock == end["clock"]
    assert make(gateway, application="app", tick="0").ends(start, end).clock == end["clock"], "also for who reads it again"
    later = planner.latest_offset(end, ALL)
    assert later["clock"] > end["clock"]
    assert make(gateway, application="app", tick="0").latest_offset(later, ALL)["clock"] == later["clock"], (
        "a start counts nothing"
    )


def test_while_a_stream_has_no_connector_there_is_no_batch_without_messages(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    gateway.streams_away = ["orders/1"]
    planner = make(gateway, application="app", tick="0", streamTimeout="1ms")
    start = planner.latest_offset(planner.initial_offset(), ALL)
    for _ in range(3):
        assert planner.latest_offset(start, ALL) == start


def test_a_bounded_run_has_no_batch_without_messages(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    planner = make(gateway, application="app", tick="0")
    planner.prepare_available_now()
    start = planner.latest_offset(planner.initial_offset(), ALL)
    assert planner.latest_offset(start, ALL) == start


def test_the_present_is_in_the_checkpoint(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    before = time.time_ns() // 1000
    planner = make(gateway, application="app", asksForPresent="true")
    end = json.loads(json.dumps(planner.latest_offset(planner.initial_offset(), ALL)))
    planned_at = planner.planned_at(end)
    assert planned_at is not None
    assert before <= planned_at <= time.time_ns() // 1000
    assert make(gateway, application="app", asksForPresent="true").planned_at(end) == planned_at, "also for who reads it again"
    assert planner.latest_offset(end, ALL) == end
    plain = make(gateway, pipeline="q")
    assert plain.planned_at(plain.latest_offset(plain.initial_offset(), ALL)) is None


def test_the_present_does_not_run_backwards_and_a_repeat_tells_steps_the_same(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    first = make(gateway, application="app", asksForPresent="true")
    begin = first.initial_offset()
    start = first.latest_offset(begin, ALL)
    ahead = {**start, "plannedAt": start["plannedAt"] + 3_600_000_000}
    gateway.append("orders/0", messages(6, 9))
    planner = make(gateway, application="app", asksForPresent="true")
    end = json.loads(json.dumps(planner.latest_offset(ahead, ALL)))
    again = make(gateway, application="app", asksForPresent="true")
    assert again.ends(ahead, end).planned_at == planner.ends(ahead, end).planned_at == ahead["plannedAt"]
    gateway.append("orders/0", messages(10, 10))
    later = json.loads(json.dumps(planner.latest_offset(end, ALL)))
    assert planner.ends(end, later).planned_at == later["plannedAt"] > end["plannedAt"], (
        "time passes, although the clock is behind"
    )


def test_how_far_ahead_event_times_may_be_follows_the_clock_itself_also_after_it_was_wrong(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    planner = make(gateway, application="app", asksForPresent="true")
    begin = planner.initial_offset()
    start = planner.latest_offset(begin, ALL)
    assert "wallAt" not in start
    ahead = {**start, "plannedAt": start["plannedAt"] + 10 * 365 * 86_400 * 1_000_000}
    gateway.append("orders/0", messages(6, 9))
    before = time.time_ns() // 1000
    end = json.loads(json.dumps(make(gateway, application="app", asksForPresent="true").latest_offset(ahead, ALL)))
    for reader in (planner, make(gateway, application="app", asksForPresent="true")):
        planned_at = reader.planned_at(end)
        assert planned_at is not None
        assert before <= planned_at <= time.time_ns() // 1000
        assert reader.ends(ahead, end).planned_at == ahead["plannedAt"]


TABLE = json.dumps([{"table": "names", "streams": ["names/*"], "held": ["orders/*"], "least_streams": 0}])
READ = frozenset({("names", "names/*")})


def with_table(gateway: FakeGateway) -> Planner:
    return make(gateway, stream="orders/*,names/*", bootstraps=TABLE, application="a")


def test_a_table_is_read_to_its_present_end_before_others_also_by_the_next_run(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    gateway.append("names/0", messages(1, 3))
    gateway.table_ends["names/0"] = 4
    planner = with_table(gateway)
    start = planner.initial_offset()
    first = planner.latest_offset(start, ALL)
    assert sequences(first) == {"names/0": 3}
    assert "bootstrapped" not in first
    assert planner.ends(start, first).bootstrapped == frozenset()
    planner = with_table(gateway)
    assert planner.latest_offset(first, ALL) == first, "the table goes up to 4"
    gateway.append("names/0", messages(4, 4))
    second = planner.latest_offset(first, ALL)
    assert sequences(second) == {"names/0": 4}
    assert second["bootstrapped"] == {"names": ["names/*"]}
    assert planner.ends(first, second).bootstrapped == READ
    assert with_table(gateway).ends(first, json.loads(json.dumps(second))).bootstrapped == READ, "a repeat decides the same"
    gateway.append("names/0", messages(5, 5))
    third = with_table(gateway).latest_offset(second, ALL)
    assert sequences(third) == {"names/0": 5, "orders/0": 5}
    assert not gateway.plans[-1].bootstraps
    assert planner.ends(second, third).bootstrapped == READ, "steps that a version adds hear of it with every batch"


PATTERNS = st.sets(st.sampled_from(["names/*", "people/*", "names/0"]), min_size=1)


@settings(deadline=None)
@given(versions=st.lists(st.none() | PATTERNS, min_size=1, max_size=4))
def test_a_table_is_read_first_again_whenever_a_version_adds_a_pattern(versions: list[set[str] | None]) -> None:
    """None is a version that reads the table as any other."""
    offset, before = Offset("p", {}), set[str]()
    for patterns in versions:
        table = {"table": "names", "streams": sorted(patterns or ()), "held": ["orders/*"], "least_streams": 0}
        text = None if patterns is None else json.dumps([table])
        run = Bootstraps(text, {})
        added = (patterns or set()) - before
        assert run.holds("orders/0", offset) == bool(added)
        assert [sorted(each.streams) for each in run.pending(offset)] == ([sorted(patterns or ())] if added else [])
        run.note(pb.PlanResponse(bootstrapped=["names"]), offset)
        before = patterns or set()
        offset = Offset.from_json(json.loads(json.dumps(replace(offset, bootstrapped=run.done(offset)).to_json())))
        assert offset.bootstrapped == {("names", pattern) for pattern in before}


def test_an_empty_table_needs_no_batch_of_its_own(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    gateway.table_ends["names/0"] = 0
    planner = with_table(gateway)
    start = planner.initial_offset()
    assert planner.latest_offset(start, ALL) == start
    first = planner.latest_offset(start, ALL)
    assert sequences(first) == {"orders/0": 5}
    assert planner.ends(start, first).bootstrapped == READ
    planner = with_table(gateway)
    planner.prepare_available_now()
    assert sequences(planner.latest_offset(start, ALL)) == {"orders/0": 5}, "a bounded run looks again by itself"


def test_a_gateway_that_knows_no_tables_is_refused(gateway: FakeGateway) -> None:
    gateway.append("orders/0", messages(1, 5))
    gateway.knows_tables = False
    planner = with_table(gateway)
    with pytest.raises(GatewayError, match="orders/0 waits for a table with bootstrap=True, which this gateway does not know"):
        planner.latest_offset(planner.initial_offset(), ALL)

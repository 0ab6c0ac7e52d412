import threading
from collections.abc import Iterator

import grpc
import pytest
from tests.engine.frames import Message
from tests.fake_gateway.engine import FakeGateway

from headrace.engine import GatewayAway, MessagesLost
from headrace.engine._errors import SourceSilent
from headrace.engine.checkpoint.position import Position
from headrace.engine.codec import record_batches
from headrace.engine.source.fetch import PipelineRun, fetch
from headrace.engine.source.options import Defaults, parse
from headrace.engine.source.ranges import Range
from headrace.engine.wire.connection import Connection
from headrace.engine.wire.retry import Retry

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    gateway = FakeGateway().start()
    gateway.append("orders/0", [Message(i, b"%d" % i) for i in range(1, 101)])
    gateway.append("orders/1", [Message(i * 7, b"%d" % i) for i in range(1, 51)])
    yield gateway
    gateway.stop()


def part(stream: str, low: int | None, high: int) -> Range:
    start = None if low is None else Position(0, low)
    return Range(stream, start, start, Position(0, high), Position(0, high))


def read(gateway: FakeGateway, *ranges: Range, timeout_s: float = 120) -> dict[str, list[int]]:
    options = parse({"gateway": gateway.address, "stream": "orders/*"}, Defaults())
    pipeline = PipelineRun("p", 1, "r", "c").to_proto(options)
    found: dict[str, list[int]] = {}
    for batch in record_batches(fetch(Connection.of(options), pipeline, ranges, Retry(timeout_s, 0.1, fields={}))):
        for stream, sequence in zip(batch.column("stream").to_pylist(), batch.column("sequence").to_pylist(), strict=True):
            found.setdefault(stream, []).append(sequence)
    return found


def test_ranges_are_cut_out_of_the_frames_that_come(gateway: FakeGateway) -> None:
    found = read(gateway, part("orders/0", 13, 57), part("orders/1", None, 70))
    assert found == {"orders/0": list(range(14, 58)), "orders/1": list(range(7, 71, 7))}


@pytest.mark.parametrize("after", [0, 1, 3, 7, 12])
def test_a_call_that_breaks_is_taken_up_where_it_broke(gateway: FakeGateway, after: int) -> None:
    gateway.fetch_failures = [(after, UNAVAILABLE, "broken"), (0, UNAVAILABLE, "still broken"), (2, UNAVAILABLE, "broken")]
    found = read(gateway, part("orders/0", None, 100), part("orders/1", 7, 350))
    assert found == {"orders/0": list(range(1, 101)), "orders/1": list(range(14, 351, 7))}
    assert len(gateway.fetches) >= 2
    if after == 3:
        resumed = gateway.fetches[1].ranges[0]
        assert (resumed.start.sequence, resumed.end.sequence) == (30, 100)
        assert not resumed.HasField("committed")


def test_ranges_with_large_cursors_come_in_several_requests_each_message_once(gateway: FakeGateway) -> None:
    def at(sequence: int) -> Position:
        return Position(0, sequence, b"c" * 65_536)

    ranges = [Range("orders/0", at(0), at(n), at(n + 1), at(100)) for n in range(40)]
    gateway.fetch_failures = [(1, UNAVAILABLE, "broken")]
    assert read(gateway, *ranges, part("orders/1", None, 14)) == {"orders/0": list(range(1, 41)), "orders/1": [7, 14]}
    assert all(request.ByteSize() < 2**20 for request in gateway.fetches)


def test_a_gateway_that_is_away_is_waited_for(gateway: FakeGateway) -> None:
    gateway.stop()
    starting = threading.Timer(0.5, gateway.start)
    starting.start()
    assert read(gateway, part("orders/0", None, 9)) == {"orders/0": list(range(1, 10))}
    starting.join()


def test_a_gateway_that_stays_away_fails_the_task(gateway: FakeGateway) -> None:
    gateway.stop()
    with pytest.raises(GatewayAway, match="gatewayTimeout"):
        read(gateway, part("orders/0", None, 9), timeout_s=0.2)


def test_a_source_that_sends_nothing_is_waited_for_and_what_came_is_not_read_again(gateway: FakeGateway) -> None:
    gateway.fetch_failures = [(3, grpc.StatusCode.DEADLINE_EXCEEDED, "stream orders/0: nothing came")] * 2
    assert read(gateway, part("orders/0", None, 100)) == {"orders/0": list(range(1, 101))}
    assert [f.ranges[0].start.sequence for f in gateway.fetches] == [0, 30, 60]
    assert gateway.fetches[0].progress_timeout_ms == 10_000


def test_a_source_that_sends_nothing_for_too_long_fails_the_task(gateway: FakeGateway) -> None:
    gateway.fetch_failures = [(0, grpc.StatusCode.DEADLINE_EXCEEDED, "stream orders/0: no connector has it")] * 50
    with pytest.raises(SourceSilent, match=r"^stream orders/0: no connector has it; .* gatewayTimeout"):
        read(gateway, part("orders/0", None, 100), timeout_s=0.3)
    assert gateway.fetches[0].progress_timeout_ms == 300


def test_lost_messages_fail_the_task_at_once(gateway: FakeGateway) -> None:
    gateway.fetch_failures = [(2, grpc.StatusCode.DATA_LOSS, "stream orders/0: lost after 20")]
    with pytest.raises(MessagesLost, match="stream orders/0: lost after 20"):
        read(gateway, part("orders/0", None, 100))


def test_a_range_that_ends_early_is_not_taken_for_whole(gateway: FakeGateway) -> None:
    with pytest.raises(MessagesLost, match="orders/0: the messages after sequence 100 up to 105 were planned and did not arrive"):
        read(gateway, part("orders/1", None, 70), part("orders/0", None, 105))

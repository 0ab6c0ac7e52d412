"""Parts on their way to a sink, without Spark: what is lost is sent again, and what is refused is said."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pyarrow as pa
import pytest
from tests.fake_gateway.engine_sinks import FakeSinkGateway

from headrace.engine import GatewayAway, GatewayError, HeadraceError, NotAllowed, OlderCheckpoint, SinkAway, SinkFailed, SinkLost
from headrace.engine.sink.delivery import Delivery
from headrace.engine.sink.options import SinkOptions, parse_sink
from headrace.engine.sink.sink_calls import VoteGivenUp
from headrace.engine.sink.vote import vote
from headrace.engine.wire.connection import Connection
from headrace.engine.wire.gateway_options import Defaults
from headrace.protocol.v1 import sink_pb2

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
TRANSACTION = sink_pb2.Transaction(pipeline="q-1", batch=7)
VALUES = [b"%d" % i * 100_000 for i in range(60)]


@pytest.fixture
def gateway() -> Iterator[FakeSinkGateway]:
    gateway = FakeSinkGateway().start()
    yield gateway
    gateway.stop()


def options(gateway: FakeSinkGateway, **given: str) -> SinkOptions:
    return parse_sink({"gateway": gateway.address, "sink": "alerts", "gatewayTimeout": "20s", **given}, Defaults())


def deliver(gateway: FakeSinkGateway, **given: str) -> str:
    """Delivers the values; returns the attempt that the sink has staged."""
    chosen = options(gateway, **given)
    with Delivery(chosen, Connection.of(chosen), TRANSACTION, 3, "run-1", 4) as delivery:
        for low in range(0, len(VALUES), 20):
            delivery.send(pa.RecordBatch.from_pydict({"value": VALUES[low : low + 20]}))
        assert list(delivery.finish()) == []
        return delivery.attempt.name


def test_a_part_arrives_once(gateway: FakeSinkGateway) -> None:
    attempt = deliver(gateway)
    (delivered,) = gateway.delivered
    assert attempt.startswith("run-1/")
    assert delivered.start.part == sink_pb2.Part(transaction=TRANSACTION, partition=3, attempt=attempt)
    assert (delivered.start.sink, delivered.start.accept_older, delivered.messages) == ("alerts", False, 60)
    assert [row["value"] for row in delivered.rows] == VALUES
    assert [row["sequence"] for row in delivered.rows] == list(range(60))


@pytest.mark.parametrize("after", [0, 1, 5, len(VALUES) // 10 + 1])
def test_what_was_lost_on_its_way_is_sent_again_as_another_attempt(gateway: FakeSinkGateway, after: int) -> None:
    gateway.deliver_failures = [(after, UNAVAILABLE, "the sink's session was lost")] * 2
    attempt = deliver(gateway)
    assert [d.messages for d in gateway.delivered] == [None, None, 60]
    assert len({d.attempt for d in gateway.delivered}) == 3
    assert gateway.delivered[-1].attempt == attempt
    assert [row["value"] for row in gateway.delivered[-1].rows] == VALUES


def test_a_gateway_that_is_away_is_waited_for(gateway: FakeSinkGateway) -> None:
    gateway.stop()
    delivering = threading.Thread(target=deliver, args=[gateway])
    delivering.start()
    gateway.start()
    delivering.join(120)
    assert not delivering.is_alive()
    assert [row["value"] for row in gateway.delivered[-1].rows] == VALUES


def test_a_gateway_that_stays_away_is_an_error(gateway: FakeSinkGateway) -> None:
    gateway.stop()
    with pytest.raises(GatewayAway, match="gatewayTimeout"):
        deliver(gateway, gatewayTimeout="300ms")
    with pytest.raises(GatewayAway, match="gatewayTimeout"):
        vote(options(gateway, gatewayTimeout="300ms"), Connection.of(options(gateway)), TRANSACTION, [], 4)


@pytest.mark.parametrize("frames", [0, 100])
def test_a_sink_that_takes_nothing_is_an_error(gateway: FakeSinkGateway, frames: int) -> None:
    """Frames are not taken, or are taken and the part is never staged."""
    released = threading.Event()

    class Stuck(FakeSinkGateway):
        def Deliver(self, requests: object, context: grpc.ServicerContext) -> object:  # type: ignore[override]
            for _ in zip(range(frames), requests, strict=False):  # type: ignore[call-overload]
                pass
            released.wait(120)
            return super().Deliver(requests, context)  # type: ignore[arg-type]

    stuck = Stuck().start()
    try:
        with pytest.raises(GatewayAway, match=r"sink alerts: no progress for 0.5 s.*connector"):
            deliver(stuck, gatewayTimeout="500ms")
    finally:
        released.set()
        stuck.stop()


@pytest.mark.parametrize(
    ("code", "reason", "kind", "names"),
    [
        (PRECONDITION, "older-checkpoint", OlderCheckpoint, ["alerts", "batch 7", "restore", "onOlderCheckpoint"]),
        (PRECONDITION, "", GatewayError, ["failed: disk full"]),
        (grpc.StatusCode.ABORTED, "", SinkFailed, ["alerts", "batch 7", "disk full", "restart the query"]),
        (grpc.StatusCode.DATA_LOSS, "", SinkLost, ["disk full", "onSinkLoss"]),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", SinkAway, ["alerts", "connector"]),
        (grpc.StatusCode.PERMISSION_DENIED, "", NotAllowed, ["disk full"]),
    ],
)
def test_other_failures_are_final(
    gateway: FakeSinkGateway, code: grpc.StatusCode, reason: str, kind: type[HeadraceError], names: list[str]
) -> None:
    gateway.reason, gateway.deliver_failures = reason, [(2, code, "disk full")]
    with pytest.raises(kind) as caught:
        deliver(gateway)
    assert type(caught.value) is kind
    assert all(name in str(caught.value) for name in names)
    assert len(gateway.delivered) == 1
    gateway.vote_failures = [(code, "disk full")]
    with pytest.raises(kind):
        vote(options(gateway), Connection.of(options(gateway)), TRANSACTION, [], 4)


def test_a_vote_is_asked_for_until_the_gateway_is_there(gateway: FakeSinkGateway) -> None:
    gateway.vote_failures = [(UNAVAILABLE, "restarting"), (UNAVAILABLE, "restarting")]
    part = sink_pb2.Part(transaction=TRANSACTION, partition=3, attempt="a")
    vote(options(gateway), Connection.of(options(gateway)), TRANSACTION, [(part, "alerts-1")], 4)
    (request,) = gateway.votes
    assert (request.sink, request.transaction, list(request.parts)) == ("alerts", TRANSACTION, [part])
    assert request.run_number == 4


def test_an_older_checkpoint_can_be_accepted(gateway: FakeSinkGateway) -> None:
    deliver(gateway, onOlderCheckpoint="accept")
    assert gateway.delivered[0].start.accept_older


def test_a_vote_is_given_up_once_nobody_waits_for_it(gateway: FakeSinkGateway) -> None:
    chosen, asked, is_over = options(gateway, gatewayTimeout="300s"), threading.Event(), threading.Event()

    def looks() -> bool:
        asked.set()
        return is_over.is_set()

    gateway.vote_answers.clear()
    with ThreadPoolExecutor(1) as thread:
        voting = thread.submit(vote, chosen, Connection.of(chosen), TRANSACTION, [], 4, looks)
        assert asked.wait(60)
        assert not voting.done()
        is_over.set()
        with pytest.raises(VoteGivenUp):
            voting.result(60)


def test_a_vote_is_given_up_while_the_gateway_is_away(gateway: FakeSinkGateway) -> None:
    gateway.vote_failures = [(UNAVAILABLE, "restarting")] * 10_000
    chosen = options(gateway, gatewayTimeout="300s")
    asked = iter([False, False, True])
    with pytest.raises(VoteGivenUp):
        vote(chosen, Connection.of(chosen), TRANSACTION, [], 4, lambda: next(asked))
    assert len(gateway.vote_failures) == 10_000 - 3

"""Following streams: calls name the streams, streams are added and forgotten, and a late answer changes nothing."""

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
import pytest
from tests.engine.frames import Message, frame

from headrace.engine.applications.real_time.following import Arrived, Following
from headrace.engine.checkpoint.position import Position
from headrace.engine.wire.connection import Connection
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1.engine_pb2_grpc import EngineServiceServicer, add_EngineServiceServicer_to_server

DEADLINE_S = 150.0


@dataclass
class Call:
    """A call that has arrived."""

    request: pb.FollowRequest
    responses: "queue.Queue[pb.FollowResponse]" = field(default_factory=queue.Queue)

    @property
    def streams(self) -> dict[str, int | None]:
        """The streams that it names, each with the sequence after which it is read."""
        has = {each.stream: each.HasField("position") for each in self.request.positions}
        return {each.stream: each.position.sequence if has[each.stream] else None for each in self.request.positions}

    def send(self, stream: str, *sequences: int, cursor: bytes | None = None) -> None:
        index = list(self.streams).index(stream)
        messages = [Message(sequence, b"%d" % sequence) for sequence in sequences]
        self.responses.put(pb.FollowResponse(frames=[pb.RangeFrame(range=index, frame=frame(messages, cursor))]))


class Gateway(EngineServiceServicer):
    """Answers calls as a test says."""

    def __init__(self) -> None:
        self.calls: queue.Queue[Call] = queue.Queue()
        self._server = grpc.server(ThreadPoolExecutor(8))
        add_EngineServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def Follow(self, request: pb.FollowRequest, context: grpc.ServicerContext) -> Iterator[pb.FollowResponse]:
        call = Call(request)
        context.add_callback(lambda: call.responses.put(pb.FollowResponse()))
        self.calls.put(call)
        while context.is_active():
            yield call.responses.get()

    def next(self) -> Call:
        return self.calls.get(timeout=DEADLINE_S)

    def stop(self) -> None:
        self._server.stop(0).wait()


class Followed:
    """What arrives, and the positions that are followed."""

    def __init__(self, gateway: Gateway) -> None:
        self._changed = threading.Condition()
        self.arrived: list[tuple[str, int]] = []
        self.cursors: list[bytes | None] = []
        self.failures: list[Exception] = []
        self._may, self._is_held = threading.Event(), threading.Event()
        self._may.set()
        who = pb.Pipeline(name="days")
        self._following = Following(Connection(gateway.address), who, DEADLINE_S, self._take, self.failures.append)

    def add(self, at: Mapping[str, int | None]) -> None:
        self._following.add({stream: None if sequence is None else Position(0, sequence) for stream, sequence in at.items()})

    def forget(self, *streams: str) -> None:
        self._following.forget(streams)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Takes over nothing meanwhile."""
        self._may.clear()
        yield
        self._may.set()

    def wait_until_held(self) -> None:
        assert self._is_held.wait(DEADLINE_S)

    def wait_for(self, *expected: tuple[str, int]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.arrived) >= len(expected), DEADLINE_S), self.arrived
        assert self.arrived == list(expected)

    def stop(self) -> None:
        self._following.stop()
        assert self.failures == []

    def _take(self, arrived: Sequence[Arrived]) -> None:
        if not self._may.is_set():
            self._is_held.set()
            assert self._may.wait(DEADLINE_S)
        with self._changed:
            self.cursors += (end.cursor for _, end in arrived)
            for part, _ in arrived:
                self.arrived += ((part.stream, sequence) for sequence in range(part.first, part.last + 1))
            self._changed.notify_all()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    yield gateway
    gateway.stop()


@pytest.fixture
def followed(gateway: Gateway) -> Iterator[Followed]:
    followed = Followed(gateway)
    yield followed
    followed.stop()


def test_a_stream_is_followed_from_where_the_last_call_was(gateway: Gateway, followed: Followed) -> None:
    followed.add({"days/1": None})
    first = gateway.next()
    assert first.streams == {"days/1": None}
    first.send("days/1", 1, 2)
    followed.wait_for(("days/1", 1), ("days/1", 2))
    followed.add({"days/1": 7, "days/2": 4})
    assert gateway.next().streams == {"days/1": 2, "days/2": 4}


def test_a_position_has_the_cursor_of_its_frame_and_no_earlier_one(gateway: Gateway, followed: Followed) -> None:
    followed.add({"days/1": 0})
    call = gateway.next()
    call.send("days/1", 1, cursor=b"c1")
    call.send("days/1", 2)
    followed.wait_for(("days/1", 1), ("days/1", 2))
    assert followed.cursors == [b"c1", None]


def test_a_stream_that_is_forgotten_is_another_one_when_its_name_is_used_again(gateway: Gateway, followed: Followed) -> None:
    followed.add({"days/1": None, "days/2": None})
    first = gateway.next()
    first.send("days/1", 1, 2, 3)
    followed.wait_for(*(("days/1", n) for n in (1, 2, 3)))
    followed.forget("days/1")
    second = gateway.next()
    assert second.streams == {"days/2": None}
    followed.add({"days/1": None})
    third = gateway.next()
    assert third.streams == {"days/2": None, "days/1": None}
    third.send("days/1", 1, 2)
    followed.wait_for(*(("days/1", n) for n in (1, 2, 3, 1, 2)))


def test_all_streams_may_be_forgotten_before_others_are_added(gateway: Gateway, followed: Followed) -> None:
    for life in range(3):
        followed.add({"days/1": None})
        call = gateway.next()
        assert call.streams == {"days/1": None}
        call.send("days/1", 1)
        followed.wait_for(*(life + 1) * [("days/1", 1)])
        followed.forget("days/1", "days/of-nobody")


def test_an_answer_to_a_call_that_was_replaced_changes_nothing(gateway: Gateway, followed: Followed) -> None:
    followed.add({"days/1": None})
    old = gateway.next()
    old.send("days/1", 1)
    followed.wait_for(("days/1", 1))
    with followed.holding():
        # The first answer is being taken over, and the second one has been received.
        old.send("days/1", 2)
        old.send("days/1", 3)
        followed.wait_until_held()
        followed.forget("days/1")
        followed.add({"days/1": None})
    call = gateway.next()
    assert call.streams == {"days/1": None}
    call.send("days/1", 1, 2)
    followed.wait_for(*(("days/1", n) for n in (1, 2, 1, 2)))


def test_nothing_is_left_to_end_if_nothing_was_followed(followed: Followed) -> None:
    followed.forget("days/1")
    followed.stop()

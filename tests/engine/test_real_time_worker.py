"""The worker of real-time mode without Spark: it stops between two messages, and tells whatever a function raises."""

import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.engine.frames import Message, frame

from headrace.contract.errors import HeadraceError
from headrace.engine import CheckpointError
from headrace.engine.applications.real_time import worker as worker_module
from headrace.engine.applications.real_time.bucket_process import crossing
from headrace.engine.applications.real_time.following import Arrived
from headrace.engine.applications.real_time.parts import Run
from headrace.engine.applications.real_time.worker import MAX_MISSED, RealTimeWorker
from headrace.engine.checkpoint.manifests import Manifest
from headrace.engine.checkpoint.position import Position
from headrace.engine.codec import Columns, columns
from headrace.engine.source.ranges import NO_ENDS
from headrace.pipelines import StepError

DEADLINE_S = 150.0


@dataclass
class World:
    """What the worker calls: a function for each message, one sink, and the streams, which the test fills."""

    function: Callable[[int], None] = lambda sequence: None
    take: Callable[[list[Arrived]], None] = lambda arrived: None
    processed: list[int] = field(default_factory=list)
    delivered: list[tuple[int, str]] = field(default_factory=list)
    has_room: bool = True
    freed: Callable[[], None] = lambda: None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def arrive(self, *sequences: int, cursor: bytes | None = None) -> None:
        made = columns("n/0", frame([Message(sequence) for sequence in sequences]))
        self.take([Arrived(made, Position(0, sequences[-1], cursor))])

    def wait_for(self, condition: Callable[[], Any]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, DEADLINE_S)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()

    class Following:
        def __init__(self, connection: Any, who: Any, timeout_s: float, arrived: Any, failed: Any) -> None:
            world.take = arrived

        def add(self, positions: Any) -> None: ...

        def forget(self, streams: Any) -> None: ...

        def stop(self) -> None: ...

    class Processor:
        def __init__(self, plan: Any, files: Any, continued: Any, batch: int, *others: Any) -> None:
            self.batch = batch

        def process(self, frames: Iterable[Columns], now: int | None) -> list[Any]:
            rows = []
            for each in frames:
                for sequence in range(each.first, each.last + 1):
                    world.function(sequence)
                    with world.changed:
                        world.processed.append(sequence)
                        world.changed.notify_all()
                    rows.append(SimpleNamespace(target=-1, block=b"%d" % sequence))
            return rows

        def end(self, ends: Any) -> list[Any]:
            return []

        def save(self) -> list[Any]:
            self.batch += 1
            return []

    class AtOnce:
        def __init__(self, options: Any, sink: str, run: Run, freed: Callable[[], None]) -> None:
            world.freed = freed

        @property
        def has_room(self) -> bool:
            return world.has_room

        def put(self, batch: int, row: Any) -> None:
            with world.changed:
                world.delivered.append((batch, row.block.decode()))
                world.changed.notify_all()

        def await_mode(self, timeout_s: float) -> bool:
            return True

        def kept(self, batch: int) -> list[Any]:
            return []

        def stop(self) -> None: ...

    for name, fake in (("Following", Following), ("Processor", Processor), ("AtOnce", AtOnce)):
        monkeypatch.setattr(worker_module, name, fake)
    return world


@pytest.fixture
def worker(world: World) -> Iterator[RealTimeWorker]:
    plan: Any = SimpleNamespace(graph=SimpleNamespace(name="app", sinks=("out",)), calls=None)
    nothing: Any = None
    worker = RealTimeWorker(plan, nothing, nothing, nothing, DEADLINE_S, asks_for_present=False)
    worker.begin(3, Manifest(), Run("query", "run", 1), b"")
    yield worker
    world.function = lambda sequence: None
    worker.stop()


def reached(worker: RealTimeWorker) -> Mapping[str, int] | None:
    found = worker.pause({})
    return None if found is None else {stream: each.position.sequence for stream, each in found.items()}


def test_a_micro_batch_ends_between_two_messages_of_a_frame(world: World, worker: RealTimeWorker) -> None:
    may = threading.Semaphore(0)
    world.function = lambda sequence: may.acquire(timeout=DEADLINE_S) and None
    world.arrive(*range(1, 1001))
    for _ in range(16):  # A slice of functions of which nothing is known yet
        may.release()
    world.wait_for(lambda: len(world.delivered) == 16)
    assert [value for _, value in world.delivered] == [str(n) for n in range(1, 17)]
    threading.Timer(0.1, may.release, [1000]).start()
    found = reached(worker)
    assert found is not None
    assert 16 < found["n/0"] < 1000
    assert len(world.delivered) == found["n/0"]
    worker.close(NO_ENDS)
    world.wait_for(lambda: len(world.delivered) == 1000)
    assert [int(value) for _, value in world.delivered] == list(range(1, 1001))
    assert [batch for batch, value in world.delivered] == [3 if n <= found["n/0"] else 4 for n in range(1, 1001)]


def test_a_pause_that_comes_too_late_leaves_the_worker_at_work_and_the_third_one_is_kept(
    world: World, worker: RealTimeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "PAUSE_S", 0.01)
    may, begun = threading.Semaphore(0), threading.Semaphore(0)

    def function(sequence: int) -> None:
        begun.release()
        assert may.acquire(timeout=DEADLINE_S)

    world.function = function
    for n in range(1, MAX_MISSED):
        # It continues after the message that took too long.
        world.arrive(n)
        assert begun.acquire(timeout=DEADLINE_S)
        assert reached(worker) is None
        may.release()
        world.wait_for(lambda n=n: world.processed == list(range(1, n + 1)))
    world.arrive(MAX_MISSED)
    assert begun.acquire(timeout=DEADLINE_S)
    assert reached(worker) is None
    world.arrive(MAX_MISSED + 1)
    may.release()
    monkeypatch.setattr(worker_module, "PAUSE_S", DEADLINE_S)
    assert reached(worker) == {"n/0": MAX_MISSED}
    worker.close(NO_ENDS)
    may.release()
    world.wait_for(lambda: len(world.processed) == MAX_MISSED + 1)


def test_a_position_has_the_last_cursor_of_its_micro_batch_and_none_of_the_one_before(
    world: World, worker: RealTimeWorker
) -> None:
    world.arrive(1, cursor=b"c1")
    world.arrive(2)
    world.wait_for(lambda: world.processed == [1, 2])
    found = worker.pause({})
    assert found is not None
    assert (found["n/0"].position, found["n/0"].position.cursor) == (Position(0, 2), b"c1")
    worker.close(NO_ENDS)
    world.arrive(3)
    world.wait_for(lambda: world.processed == [1, 2, 3])
    found = worker.pause({})
    assert found is not None
    assert (found["n/0"].position, found["n/0"].position.cursor) == (Position(0, 3), None)


def test_it_waits_for_room_between_two_messages_and_can_be_paused_meanwhile(world: World, worker: RealTimeWorker) -> None:
    world.has_room = False
    world.arrive(1, 2, 3)
    assert reached(worker) == {}
    worker.resume()
    assert world.processed == []
    world.has_room = True
    world.freed()
    world.wait_for(lambda: world.processed == [1, 2, 3])


class OfTheApplication(Exception):
    """An error of which one argument cannot leave its process."""

    def __init__(self, what: str, lock: Any) -> None:
        super().__init__(what, lock)


def leave(sequence: int) -> None:
    sys.exit("the function gives up")


def raise_what_cannot_leave(sequence: int) -> None:
    raise OfTheApplication("no money", threading.Lock())


@pytest.mark.parametrize(
    ("function", "said"),
    [(leave, "SystemExit: the function gives up"), (raise_what_cannot_leave, "OfTheApplication: .'no money'")],
)
def test_whatever_a_function_raises_ends_the_query(
    function: Callable[[int], None], said: str, world: World, worker: RealTimeWorker
) -> None:
    world.function = function
    world.arrive(1)
    worker._thread.join(DEADLINE_S)
    with pytest.raises(HeadraceError, match=said) as raised:
        worker.pause({})
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


class OtherArguments(StepError):
    """An error that is not made of its arguments."""

    def __init__(self, step: str, sequence: int) -> None:
        super().__init__(f"step {step}, sequence {sequence}")


OtherArguments.__module__ = "headrace.of_another_version"


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (CheckpointError("batch 3"), CheckpointError, "batch 3"),
        (FileNotFoundError(2, "No such file", "states"), FileNotFoundError, "[Errno 2] No such file: 'states'"),
        (OtherArguments("divide", 7), HeadraceError, "OtherArguments: step divide, sequence 7"),
        (KeyError(threading.Lock), KeyError, repr(threading.Lock)),
        (KeyError(lambda: 0), HeadraceError, "KeyError: <function"),
        (OfTheApplication("no money", 1), HeadraceError, "OfTheApplication: ('no money', 1)"),
        (SystemExit(3), HeadraceError, "SystemExit: 3"),
        (ValueError("\ud800"), HeadraceError, "ValueError: \\ud800"),
    ],
)
def test_an_error_crosses_as_it_is_or_as_its_text(error: BaseException, kind: type[Exception], text: str) -> None:
    crossed = pickle.loads(pickle.dumps(crossing(error)))
    assert type(crossed) is kind
    assert str(crossed).startswith(text)

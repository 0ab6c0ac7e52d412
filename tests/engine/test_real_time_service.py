"""The socket between the planner and the worker of real-time mode: who may call it, and what it answers to calls out of turn."""

import stat
from collections.abc import Iterator
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import pytest

from headrace.engine import CheckpointError
from headrace.engine.applications.real_time.parts import Run
from headrace.engine.applications.real_time.service import ServedWorker, Service
from headrace.engine.checkpoint.manifests import Manifest
from headrace.engine.source.ranges import NO_ENDS

DEADLINE_S = 150.0


class Worker:
    """A worker that was begun by nobody."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.stopped = False

    def begin(self, batch: int, continued: Manifest, run: Run, pipeline: bytes) -> None:
        if self.begun:
            raise CheckpointError("it has begun")
        self.begun.append(batch)

    def pause(self, follow: object, awaited: object) -> dict[str, Any]:
        return {}

    def resume(self) -> None:
        pass

    def close(self, ends: object) -> list[Any]:
        raise CheckpointError("it is not paused")

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def service() -> Iterator[tuple[Service, Worker]]:
    worker = Worker()
    service = Service(worker, lambda: (7, Manifest(), Run("query", "run", 1)))  # type: ignore[arg-type]
    yield service, worker
    service.stop()


def test_only_the_user_of_the_driver_may_enter_its_folder(service: tuple[Service, Worker]) -> None:
    assert stat.S_IMODE(Path(service[0].path).parent.stat().st_mode) == 0o700


def test_calls_out_of_turn_are_answered_with_an_error_and_the_next_one_is_served(service: tuple[Service, Worker]) -> None:
    served = ServedWorker(service[0].path)
    with pytest.raises(CheckpointError, match="not paused"):
        served.close(NO_ENDS)
    served.begin(b"")
    with pytest.raises(CheckpointError, match="has begun"):
        served.begin(b"")
    assert served.pause({}) == {}
    assert service[1].begun == [7]


def test_a_call_of_another_kind_is_answered_with_an_error(service: tuple[Service, Worker]) -> None:
    with Client(service[0].path, "AF_UNIX") as planner:
        planner.send(("explode",))
        assert planner.poll(DEADLINE_S)
        succeeded, error = planner.recv()
        assert (succeeded, type(error)) == (False, KeyError)


def test_a_planner_that_has_died_leaves_its_place_to_the_next(service: tuple[Service, Worker]) -> None:
    for _ in range(2):
        with Client(service[0].path, "AF_UNIX") as planner:
            planner.send(("resume",))
            assert planner.poll(DEADLINE_S)
            assert planner.recv() == (True, None)


def test_a_late_planner_finds_nobody(service: tuple[Service, Worker]) -> None:
    early = ServedWorker(service[0].path)
    assert early.pause({}) == {}
    service[0].stop()
    service[0].stop()
    assert service[1].stopped
    with pytest.raises((EOFError, OSError)):
        early.pause({})
    with pytest.raises(FileNotFoundError):
        ServedWorker(service[0].path).pause({})

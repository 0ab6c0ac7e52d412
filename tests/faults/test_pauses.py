"""Pauses under load, with Spark: what is in flight ends, a killed driver changes nothing, and every message comes once."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
import pytest
from tests.faults.expected import assert_each_came_once, changed_batches
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_sequence

from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

PARTITIONS = ("0", "1")
LAST = 1200
BATCH = 20

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rig]:
    world = Rig(tmp_path, "[limits]\nsession_messages = 100\n")
    yield world
    world.dispose()


PAUSED = [(pb.PART_KIND_PIPELINE, "paused"), (pb.PART_KIND_STREAM, "numbers/0")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The paused parts, by `--kill-seed`; with `--every-pair`, both. The simulation pauses every kind of part."""
    one = random.Random(str(metafunc.config.getoption("kill_seed"))).choice(PAUSED)
    metafunc.parametrize(("kind", "name"), PAUSED if metafunc.config.getoption("every_pair") else [one])


def test_what_is_paused_under_load_goes_on_after_its_driver_was_killed(
    world: Rig, kind: pb.PartKind.ValueType, name: str
) -> None:
    source, driver = Numbers(world.source_folder("numbers")), world.driver()
    for partition in PARTITIONS:
        source.offer(partition, LAST)
    query = world.query("paused", "record", "numbers/*", {"maxMessagesPerTrigger": str(BATCH)})
    driver.run(query)
    world.gateway.start()
    world.connector("numbers").start()
    driver.start()
    world.wait_until("some batches are committed", lambda: query.commits >= 3)
    with grpc.insecure_channel(world.gateway.address) as channel:
        stub = AdminServiceStub(channel)
        stub.Pause(pb.PauseRequest(kind=kind, name=name), timeout=300)
        # The batch in flight ends, or is run again by the next driver; nothing after it is planned.
        planned = partial(query.planned, "numbers/0")
        world.wait_until("the batch in flight ends", lambda: query.committed("numbers/0") == planned() and _is_settled(world))
        at = planned()
        assert at < number_sequence(LAST)
        part = f"{'stream' if kind == pb.PART_KIND_STREAM else 'pipeline'} {name}"
        world.names("paused", part, "paused by", waits="numbers/0")
        driver.kill()
        source.offer("0", LAST + 1)
        driver.start()
        world.wait_until("the driver is back", lambda: _run(world) == 2)
        assert world.holds(lambda: planned() == at, 2.0)
        stub.Resume(pb.ResumeRequest(kind=kind, name=name), timeout=300)
    world.clears(part)
    source.offer("1", LAST + 1)
    for partition in PARTITIONS:
        world.wait_until(
            f"all of {partition} is committed",
            partial(query.has_committed, f"numbers/{partition}", number_sequence(LAST + 1)),
        )
        assert_each_came_once(query, partition, LAST + 1)
        world.wait_until(f"all of {partition} is acknowledged", partial(source.has_acked, partition, LAST + 1))
    assert changed_batches(query) == []


def _is_settled(world: Rig) -> bool:
    """Whether the pipeline has stopped to plan numbers/0: for some time, its position has not changed."""
    before = world.gateway.stream("numbers/0")
    return before is not None and world.holds(lambda: _acknowledged(world) == before.acknowledged.sequence, 1.0)


def _acknowledged(world: Rig) -> int:
    stream = world.gateway.stream("numbers/0")
    return stream.acknowledged.sequence if stream is not None else -1


def _run(world: Rig) -> int:
    pipeline = world.gateway.pipeline("paused")
    return pipeline.run if pipeline is not None and pipeline.attached else 0

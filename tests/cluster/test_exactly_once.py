"""The world of `headrace chaos` on a real cluster: what the independent validator finds, whatever is killed.

A plain query and a pipeline run in one program that spark-submit has started; gateway, sources and sinks are on another host.
"""

import os
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster.hosts import OtherHost

import headrace.laboratory.chaos
from headrace.laboratory.chaos import Role, Site, World
from headrace.laboratory.cluster import SparkCluster, Worker

OFFERED = 40
"""Messages that each of the eleven senders sends before a fault, and after it: a batch has at most 400."""
_SHIPPED = ("application", "workload")
"""The modules that executors need; they have Headrace's engine, and nothing else of it."""

DEADLINE_S = 600.0
"""For a JVM that starts on a machine that has much else to do, and a query with it."""

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def world(running_cluster: SparkCluster, other_host: OtherHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world that continues from test to test."""
    folder = tmp_path_factory.mktemp("exactly-once")
    modules = _packed(folder / "modules")
    site = Site((*running_cluster.submit, "--py-files", str(modules)), other_host.address, other_host.enter)
    # Python processes next to the driver are not given what executors are given.
    path = os.pathsep.join(filter(None, (str(modules), os.environ.get("PYTHONPATH"))))
    own = {"PYTHONPATH": path, "no_grpc_proxy": f"127.0.0.1,{other_host.address}"}
    world = World(folder / "world", environ={**running_cluster.environ, **own}, site=site)
    try:
        world.start(DEADLINE_S)
        yield world
    finally:
        world.dispose()


def _packed(folder: Path) -> Path:
    """An archive of the modules that executors need, as `--py-files` takes it."""
    folder.mkdir()
    archive = folder / "modules.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        # Python finds packages without an __init__.py only where an archive says that they are folders.
        for package in ("headrace", "headrace/laboratory", "headrace/laboratory/chaos"):
            packed.mkdir(package)
        for name in _SHIPPED:
            source = Path(headrace.laboratory.chaos.__file__).with_name(f"{name}.py")
            packed.write(source, f"headrace/laboratory/chaos/{source.name}")
    return archive


@pytest.mark.in_turn(6, 6)
def test_everything_is_there_once_whatever_is_killed(world: World, cluster: SparkCluster, fault: str) -> None:
    world.wait_for("executors on all workers", lambda: len(working(cluster)) == len(running(cluster)), DEADLINE_S)
    FAULTS[fault](world, cluster)
    world.offer(OFFERED)
    world.rest(DEADLINE_S)
    assert [str(finding) for finding in world.verdict()] == []


def kill_executor(world: World, cluster: SparkCluster) -> None:
    """One of two executors dies while messages are on their way, and the worker starts another one."""
    on_their_way(world)
    worker = working(cluster)[0]
    (executor,) = worker.executors()
    os.kill(executor, signal.SIGKILL)
    world.wait_for("another executor to start", lambda: worker.executors() not in ([], [executor]), DEADLINE_S)


def kill_driver(world: World, cluster: SparkCluster) -> None:
    """The driver dies, and is submitted again."""
    on_their_way(world)
    world.kill(Role.DRIVER)
    world.restart(Role.DRIVER)


def replace_worker(world: World, cluster: SparkCluster) -> None:
    """A worker dies with its executor; one that is added gets an executor of the same application."""
    on_their_way(world)
    lost, kept = working(cluster)
    cluster.kill_worker(lost.pid)
    visible = world.progress()
    world.offer(OFFERED)
    world.wait_for("results without the worker", lambda: world.progress() > visible, DEADLINE_S)
    added = cluster.add_worker()
    world.wait_for("an executor on the worker that was added", lambda: bool(added.executors()), DEADLINE_S)
    assert kept.executors()


FAULTS: dict[str, Callable[[World, SparkCluster], None]] = {
    "executor": kill_executor,
    "driver": kill_driver,
    "worker": replace_worker,
}


def on_their_way(world: World) -> None:
    """Has the senders send, and waits until some of it is visible, with more to come."""
    visible = world.progress()
    world.offer(OFFERED)
    world.wait_for("some is visible", lambda: world.progress() > visible, DEADLINE_S)


def running(cluster: SparkCluster) -> list[Worker]:
    """The workers that run."""
    return [worker for worker in cluster.workers if worker.runs]


def working(cluster: SparkCluster) -> list[Worker]:
    """Those of them that have an executor."""
    return [worker for worker in cluster.workers if worker.executors()]

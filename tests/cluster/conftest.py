"""Fixtures: a real Spark standalone cluster, the Python environment of its executors, and another host.

`cluster` is a `headrace.laboratory.cluster.SparkCluster` with two workers of one core each, in JVMs of their own,
shared by all tests of a session. A worker that a test has killed is started again before the next test, and one that it added is
killed. Programs that run with `cluster.environ` have `PYSPARK_PYTHON` name the executors' Python, which is not the driver's.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.absent import absent
from tests.cluster.executor_python import make_executor_python
from tests.cluster.hosts import NoOtherHost, OtherHost
from tests.cluster.hosts import other_host as make_other_host

from headrace.laboratory.cluster import SparkCluster

WORKERS = 2
ONE_EXECUTOR = {"SPARK_SUBMIT_OPTS": "-Dspark.cores.max=1"}
"""Added to `cluster.environ` where the claim is not about several executors: each takes seconds to start."""
FAULTS = ("executor", "driver", "worker")
"""What is killed under each of the two applications that run on the cluster; in one test run, each under one of them."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Which application has which fault, by `--kill-seed`; with `--every-pair`, both have all."""
    if "fault" not in metafunc.fixturenames:
        return
    config = metafunc.config
    shuffled = random.Random(str(config.getoption("kill_seed"))).sample(FAULTS, len(FAULTS))
    # A fault takes the application two thirds of the time that it takes the other one.
    shares = {"test_application": shuffled[1:], "test_exactly_once": shuffled[:1]}
    module = metafunc.module.__name__.rpartition(".")[2]
    metafunc.parametrize("fault", FAULTS if config.getoption("every_pair") else shares[module])


@pytest.fixture(scope="session")
def executor_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the executors, in an environment of their own with `headrace-engine` and nothing else of Headrace."""
    return make_executor_python(tmp_path_factory.mktemp("executors") / "python")


@pytest.fixture(scope="session")
def running_cluster(executor_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """The cluster of the session; tests ask for `cluster`."""
    environ = {"PYSPARK_PYTHON": str(executor_python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    with SparkCluster(tmp_path_factory.mktemp("cluster"), workers=WORKERS, environ=environ) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster: SparkCluster) -> SparkCluster:
    """A cluster of two workers that runs."""
    first, further = running_cluster.workers[:WORKERS], running_cluster.workers[WORKERS:]
    for worker in further:
        if worker.runs:
            running_cluster.kill_worker(worker.pid)
    for worker in first:
        if not worker.runs:
            running_cluster.restart_worker(worker)
    return running_cluster


@pytest.fixture(scope="session")
def other_host() -> Iterator[OtherHost]:
    """Another host: a network namespace; a skip where this machine cannot have one, and a failure with CI=true."""
    try:
        with make_other_host() as host:
            yield host
    except NoOtherHost as reason:
        absent(str(reason))

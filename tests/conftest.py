import logging
import os
import random
import signal
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

import headrace.contract  # noqa: F401 - before gRPC, as in every program of ours: some tests fork beside calls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A distribution that is newer than .venv would fail each test that imports it, in a way of its own.
_root = Path(__file__).parents[1]
_members = tomllib.loads((_root / "pyproject.toml").read_text())["tool"]["uv"]["workspace"]["members"]
_names = [tomllib.loads((_root / member / "pyproject.toml").read_text())["project"]["name"] for member in _members]
if missing := [name for name in _names if not any(distributions(name=name))]:
    raise pytest.UsageError(f"{', '.join(missing)} is not in .venv: run make setup-dev")

# The temporary folder of this session, how calls end, the real brokers, where a test asks for one, and which heavy tests run.
pytest_plugins = ["tests.scratch", "tests.call_status", "tests.brokers.plugin", "tests.selection.plugin", "tests.shuffled_loop"]

# A shell has what it runs in the background ignore SIGINT, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The machine is shared: how long one example takes, or its input, says nothing.
_any_time = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("tests", _any_time)
# For `make check` and `make test`: `make test-all` has more examples.
hypothesis.settings.register_profile("quick", _any_time, max_examples=20)
hypothesis.settings.register_profile("sample", _any_time, max_examples=50)
hypothesis.settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `tests/exactly_once` is run in full with. Pytest takes options from this file only, whatever folder is run."""
    parser.addoption("--every-pair", action="store_true", help="kill in all cases, not in a sample: takes hours")
    seconds = 60.0 if os.environ.get("CI") else 15.0
    parser.addoption("--fuzz-seconds", type=float, default=seconds, help="how long to fuzz the gateway's wire")
    parser.addoption("--fuzz-seed", default=f"{random.getrandbits(32):08x}", help="which calls to make; the default is random")
    parser.addoption(
        "--kill-seed", default=f"{random.getrandbits(32):08x}", help="which processes to kill where; random by default"
    )
    parser.addoption("--machine-seconds", type=float, default=30.0, help="how long each model-based machine runs, about")
    # The same in each run, so that one that fails tells of a change. `make test-all` takes another one each time.
    parser.addoption("--machine-seed", default="00000001", help="what machines do; 00000001 by default")
    parser.addoption("--orders", type=int, default=3_000, help="how many orders the example `enrichment` is tested with")
    parser.addoption("--shard", type=_shard, default=(1, 1), metavar="I/N", help="of the pairs, take the I-th of N parts")


def pytest_report_header(config: pytest.Config) -> str:
    """The options that repeat the same kills, and the same calls."""
    return " ".join(f"--{name}-seed {config.getoption(f'{name}_seed')}" for name in ("kill", "fuzz", "machine"))


def _shard(text: str) -> tuple[int, int]:
    part, of = (int(number) for number in text.split("/"))
    if not 1 <= part <= of:
        raise ValueError(f"{text}: want I/N with 1 <= I <= N")
    return part, of


@pytest.fixture
def logs_of_its_own() -> Iterator[None]:
    """For tests that configure logging: ends with what was configured before."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """The one Spark session of this process, as `build_session` makes it."""
    from headrace.engine import build_session

    session = build_session("tests", master="local[2]", conf={"spark.sql.shuffle.partitions": 2}, quick_start=True)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()

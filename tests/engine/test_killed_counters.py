"""Counters of an application on Spark count each message once, although drivers are killed and it gets other buckets."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_value

pytestmark = pytest.mark.timeout(900)
OFFERED = (300, 700, 1_200)
"""The last message that the source has, before each kill."""
LAST = 1_500
PROGRAM = """
import sys

from headrace.engine import build_session, start
from headrace.pipelines import Pipeline

app = Pipeline("counted")
numbers = app.source("numbers/*", decode=int).counter("read")
keyed = numbers.key_by(lambda n: n % 7, name="by").counter("kinds", by=lambda n: "odd" if n % 2 else "even", values=["odd"])
keyed.histogram("sizes", lambda n: n, [100, 500])

HOW = {
    "micro-batches": {"options": {"maxMessagesPerTrigger": "200"}},
    "real-time": {"real_time": True, "real_time_workers": 2, "trigger_interval": "300ms"},
}

if __name__ == "__main__":
    checkpoint, gateway, mode, ends = sys.argv[1:]
    arguments = {**HOW[mode], "available_now": ends == "ends"}
    arguments["options"] = {**arguments.get("options", {}), "gateway": gateway}
    start(app, build_session("counted", "local[2]"), checkpoint, **arguments).awaitTermination()
"""


class World:
    """A gateway, a source of numbers, and the program that counts them."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.rig, self._mode, self._folder = Rig(folder), mode, folder
        self.source = Numbers(self.rig.source_folder("numbers"))
        self.source.offer("0", OFFERED[0])
        self.program = folder / "program.py"
        self.program.write_text(PROGRAM)
        self.rig.gateway.start()
        self.rig.connector("numbers").start()

    def command(self, checkpoint: Path, *, ends: bool = False) -> list[str]:
        """The command that runs the program."""
        how = [self._mode, "ends" if ends else "stays"]
        return [sys.executable, str(self.program), str(checkpoint), self.rig.gateway.address, *how]

    @contextmanager
    def driver(self, checkpoint: Path) -> Iterator[Callable[[str, Callable[[], bool]], None]]:
        """A driver, which is killed in the end; a function waits for a condition while it runs."""
        log = self._folder / "driver.log"
        with log.open("a") as said:
            driver = subprocess.Popen(self.command(checkpoint), stderr=said, start_new_session=True, cwd=self._folder)

        def wait(what: str, condition: Callable[[], bool]) -> None:
            self.rig.wait_until(what, lambda: driver.poll() is not None or condition())
            assert driver.poll() is None, log.read_text()

        try:
            yield wait
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()

    def shown(self) -> dict[tuple[str, str], list[float]]:
        """The numbers of each series at the gateway."""
        pipeline = self.rig.gateway.pipeline("counted")
        series = [] if pipeline is None else pipeline.metrics.series
        return {(one.metric, one.value): [one.count, one.sum, *one.buckets] for one in series}

    def count(self) -> int:
        """How many messages are counted."""
        return int(self.shown().get(("read", ""), [0])[0])


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[str], World]]:
    worlds = list[World]()

    def make(mode: str) -> World:
        worlds.append(World(tmp_path, mode))
        return worlds[-1]

    yield make
    for world in worlds:
        world.rig.dispose()


def expected(count: int) -> dict[tuple[str, str], list[float]]:
    """The same of a loop over the first messages."""
    numbers = list(Counter(number_value(n) for n in range(1, count + 1)).elements())
    odd = sum(n % 2 for n in numbers)
    up_to = [sum(n <= bound for n in numbers) for bound in (100, 500)]
    return {
        ("read", ""): [count, 0],
        ("kinds", "odd"): [odd, 0],
        ("kinds", "other"): [count - odd, 0],
        ("sizes", ""): [count, sum(numbers), *up_to],
    }


@pytest.mark.parametrize("mode", ["micro-batches", "real-time"])
def test_each_message_counts_once_after_kills_of_the_driver_and_with_other_buckets(
    made: Callable[[str], World], tmp_path: Path, mode: str
) -> None:
    world, checkpoint, more = made(mode), tmp_path / "checkpoint", tmp_path / "more"
    counted = 0
    for last in OFFERED:
        with world.driver(checkpoint) as wait:
            wait("more is counted", lambda least=counted: world.count() > least)  # type: ignore[misc]
            world.source.offer("0", last)
        counted = world.count()
        assert world.shown() == expected(counted), "all series are of one micro-batch"
        if mode == "micro-batches":
            commits = (int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
            assert counted <= 200 * (1 + max(commits)), "nothing is shown before it is committed"
    finish(world, checkpoint, mode, OFFERED[-1])
    into = ["--checkpoint", checkpoint, "--into", more, "--parallelism", "5"]
    command = [sys.executable, "-m", "headrace.cli", "state", "rescale", world.program, *into]
    said = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    assert said.returncode == 0, said.stderr
    world.source.offer("0", LAST)
    finish(world, more, mode, LAST)


def finish(world: World, checkpoint: Path, mode: str, last: int) -> None:
    """Counts up to the last message: a bounded run shows its last micro-batch, too."""
    if mode == "real-time":
        with world.driver(checkpoint) as wait:
            wait("everything is counted", lambda: world.shown() == expected(last))
        return
    ended = subprocess.run(world.command(checkpoint, ends=True), capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert world.shown() == expected(last)

"""The part `restart` of `headrace bench sink`: how long an application's driver takes to start, and to restart after kill -9."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.output import Output
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.rig import Restartable, gateway, sink_command, source_command, wait_for
from headrace.laboratory.bench.steps import DRIVER, SPARK_ALONE, Step, Watch, committed_since, lines, steps

_RATE = 1_000
_WITHIN_S = 150.0
_STEADY_S = 3.0
_APPLICATION = """
from headrace.pipelines import Pipeline


class Count:
    seen = 0


def count(value: bytes, state: Count) -> bytes:
    state.seen += 1
    return value


app = Pipeline("bench")
app.source("bench*/*", decode=bytes).key_by(lambda value: value[:1]).stateful(count, Count, name="counts").sink("bench")
"""


@dataclass(frozen=True)
class _Start:
    """A start of a driver, until its first result: its seconds, its processor time, and its steps, if it is an application's."""

    seconds: float
    cpu_s: float
    steps: list[Step]


@dataclass
class _Subject:
    """A driver that is started, killed and restarted, in turns with others."""

    name: str
    driver: Restartable
    checkpoint: Path
    has_result: Callable[[float], bool]
    """Whether there is a result that was due, or a commit that was made, after a moment in seconds since 1970."""

    def start(self, say: Say) -> _Start:
        """Starts the driver, and tells what happened until its first result."""
        begun = time.time()
        self.driver.start()
        with Watch(self.driver.process.pid) as watch:
            wait_for(f"a result of {self.name}", lambda: self.has_result(begun), _WITHIN_S)
        ended = time.time()
        committed = committed_since(self.checkpoint, begun) or ended
        marks = [("a micro-batch is committed", committed - begun), ("a result is visible", ended - begun)]
        say(f"  {self.name}: {ended - begun:.2f} s, processor time {watch.cpu_s:.2f} s")
        for line in lines(watch.seen, marks):
            say(line)
        return _Start(ended - begun, watch.cpu_s, steps(watch.seen, committed - begun, ended - begun))


def restart(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Time until the first result of an application that `headrace run` starts, and after a kill -9 until the next one.

    In turns with an empty query of Spark's own, in a program without Headrace and in a session of Headrace's, whose result is
    a commit.
    """
    del spark  # The drivers are killed, so they are separate processes.
    rounds = 1 if quick else 4
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        subjects = [
            _application(folder / "application", stack),
            _empty_query("Spark's own empty query", SPARK_ALONE, folder / "spark"),
            _empty_query("an empty query in a session of Headrace's", DRIVER, folder / "session"),
        ]
        starts: dict[str, list[_Start]] = {subject.name: [] for subject in subjects}
        for subject in subjects * (1 + rounds):
            starts[subject.name].append(subject.start(say))
            time.sleep(_STEADY_S)
            subject.driver.kill()
    (first, *application), (first_alone, *empty), (_, *empty_in_session) = (starts[subject.name] for subject in subjects)
    yield Figure("start_s", first.seconds, "s", first_alone.seconds)
    took, alone = (statistics.median(each.seconds for each in them) for them in (application, empty))
    yield Figure("restart_s", took, "s", alone, "<= 1.3 of Spark's own empty query", took <= 1.3 * alone)
    yield from itself("restart_s", [each.seconds for each in application], "s")
    cpu, cpu_alone = (statistics.median(each.cpu_s for each in them) for them in (application, empty))
    yield Figure("restart_cpu_s", cpu, "s", cpu_alone)
    yield Figure("restart_empty_query_s", statistics.median(each.seconds for each in empty_in_session), "s", alone)
    for at, step in enumerate(application[0].steps):
        yield Figure(f"restart_{step.name}_s", statistics.median(each.steps[at].seconds for each in application), "s")


def _application(folder: Path, stack: ExitStack) -> _Subject:
    folder.mkdir()
    (folder / "app.py").write_text(_APPLICATION)
    address = stack.enter_context(gateway()).address
    stack.enter_context(Restartable(source_command("stamped", address, rate=_RATE, seconds=3600)))
    stack.enter_context(Restartable(sink_command(address, folder / "out")))
    checkpoint, output = folder / "checkpoint", Output(folder / "out")
    command = ["-m", "headrace.cli", "run", str(folder / "app.py"), "--checkpoint", str(checkpoint), "--gateway", address]
    driver = Restartable([*command, "--no-figures"])
    return _Subject("application", driver, checkpoint, lambda moment: bool(np.any(output.stamps() > moment)))


def _empty_query(name: str, module: str, folder: Path) -> _Subject:
    folder.mkdir()
    checkpoint = folder / "checkpoint"
    driver = Restartable(["-m", module, str(folder)])
    return _Subject(name, driver, checkpoint, lambda moment: committed_since(checkpoint, moment) is not None)

"""Processes with shares of the buckets in real-time mode: any number gives the same results, and they end with the driver."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine import frames
from tests.engine.levels import two_levels
from tests.engine.test_pipeline_stages import APPLICATIONS, SEVERAL_STREAMS, TIMED, messages

from headrace.contract.errors import HeadraceError
from headrace.engine.applications.real_time import bucket_process
from headrace.engine.applications.real_time.bucket_process import BucketProcess
from headrace.engine.applications.real_time.processor import Processor
from headrace.engine.applications.stages.plan import BlockRow, Plan
from headrace.engine.applications.stages.reports import Report, report_of
from headrace.engine.applications.states.keys import bucket_ids
from headrace.engine.checkpoint.manifests import Manifest
from headrace.engine.checkpoint.state_files import LocalFiles
from headrace.engine.codec import Columns, columns
from headrace.engine.source.ranges import Ends
from headrace.pipelines import Message, Pipeline, StepError
from headrace.processes import lives

DEADLINE_S = 150.0


class InThread:
    """In the place of a process: a thread that serves the same socket."""

    def __init__(self, command: Sequence[str], **others: Any) -> None:
        self.pid, self.returncode = 0, 0
        self._thread = threading.Thread(target=self._run, args=(os.dup(int(command[-1])),), daemon=True)
        self._thread.start()

    def _run(self, file: int) -> None:
        with Connection(file) as connection, pytest.raises((EOFError, OSError)):
            bucket_process._serve(connection)

    def poll(self) -> int | None:
        return None if self._thread.is_alive() else self.returncode

    def wait(self, timeout: float) -> None:
        self._thread.join(DEADLINE_S)


def plan_of(pipeline: Pipeline, buckets: int) -> Plan:
    return Plan(pipeline.graph, bucket_ids(buckets), "query", "run", 10**9)


def columns_of(sent: Sequence[Message]) -> list[Columns]:
    """The messages as frames, each of consecutive messages of one stream."""
    return [
        columns(stream, frames.frame([frames.Message(m.sequence, m.value, m.key) for m in some]))
        for stream, some in groupby(sent, key=lambda message: message.stream)
    ]


def results(rows: Sequence[BlockRow]) -> list[tuple[int, list[dict[str, Any]]]]:
    """What leaves for sinks, in order."""
    return [(row.target, row.batch.to_pylist()) for row in rows]


class Run:
    """An application in real-time mode on some processes."""

    def __init__(self, plan: Plan, folder: Path, processes: int, continued: Manifest, batch: int) -> None:
        self._files = LocalFiles(folder)
        self.processes = [BucketProcess(plan, self._files) for _ in range(processes)]
        self.processor = Processor(plan, self._files, continued, batch, 1, self.processes)

    def save(self, before: Manifest) -> tuple[Manifest, Report]:
        """Ends a micro-batch; returns its states, and what the steps have done."""
        *_, row = self.processor.save()
        report = report_of(row)
        measures = {step: replace(measured, time_ns=0) for step, measured in report.measures.items()}
        return before.after(report.states), Report(measures=measures, keys=report.keys, sizes=report.sizes)

    def end(self) -> None:
        for process in self.processes:
            process.end()
        for process in self.processes:
            process.await_end()


def history(
    plan: Plan, folder: Path, turns: Sequence[Sequence[Message]], processes: Sequence[int]
) -> list[tuple[list[tuple[int, list[dict[str, Any]]]], Report]]:
    """What comes out in each micro-batch. Before each one, the application is started again, on another number of processes."""
    manifest, found = Manifest(), []
    streams = tuple(dict.fromkeys(message.stream for turn in turns for message in turn))
    for batch, (turn, number) in enumerate(zip(turns, processes, strict=True)):
        run = Run(plan, folder, number, manifest, batch)
        try:
            rows = run.processor.end(Ends(opened=streams)) if batch == 0 else []
            for frame in columns_of(turn):
                rows += run.processor.process([frame], None)
            if batch == len(turns) - 1:
                rows += run.processor.end(Ends(streams, True))
            manifest, done = run.save(manifest)
        finally:
            run.end()
        found.append((results(rows), done))
    return found


@st.composite
def runs(draw: st.DrawFn) -> tuple[Plan, list[list[Message]], list[int]]:
    name = draw(st.sampled_from(sorted(APPLICATIONS | TIMED)))
    numbers = draw(st.lists(st.integers(0, 99), max_size=40))
    made = messages(numbers, draw(st.sampled_from([1, 3])) if name in SEVERAL_STREAMS else 1)
    edges = sorted(draw(st.lists(st.integers(0, len(made)), max_size=2)))
    turns = [made[a:b] for a, b in zip([0, *edges], [*edges, len(made)], strict=True)]
    buckets = draw(st.integers(1, 5))
    processes = draw(st.lists(st.integers(0, buckets - 1), min_size=len(turns), max_size=len(turns)))
    return plan_of((APPLICATIONS | TIMED)[name](), buckets), turns, processes


@settings(deadline=None, max_examples=60, derandomize=True)
@given(runs())
def test_any_number_of_processes_gives_the_same_results_in_the_same_order(
    tmp_path_factory: pytest.TempPathFactory, run: tuple[Plan, list[list[Message]], list[int]]
) -> None:
    plan, turns, processes = run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", InThread)
        alone = history(plan, tmp_path_factory.mktemp("alone"), turns, [0] * len(turns))
        shared = history(plan, tmp_path_factory.mktemp("shared"), turns, processes)
    assert shared == alone


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Run]:
    """An application with two levels on three processes and the test's own."""
    run = Run(plan_of(two_levels(), 4), tmp_path, 3, Manifest(), 0)
    yield run
    run.end()


def sent(*numbers: int) -> list[Columns]:
    return columns_of([Message(b"%d" % n, stream="n/0", sequence=at + 1) for at, n in enumerate(numbers)])


def texts(rows: Sequence[BlockRow]) -> list[str]:
    return [value["value"].decode() for _, values in results(rows) for value in values]


def test_each_key_has_one_process(shared: Run) -> None:
    found = texts(shared.processor.process(sent(*range(20)), None))
    assert sorted(found) == sorted(f"{key}:{n}:{n}" for key in range(5) for n in range(1, 5))
    _, done = shared.save(Manifest())
    assert len(done.keys) > 3


def test_a_process_that_was_killed_ends_the_query_with_its_signal(shared: Run) -> None:
    shared.processor.process(sent(*range(20)), None)
    victim = shared.processes[1]
    os.kill(victim.pid, signal.SIGKILL)
    # Whether nobody receives the rows, or nobody answers, or nothing was asked.
    with pytest.raises(HeadraceError, match=f"process {victim.pid}, .* was killed by SIGKILL; the next run continues"):
        shared.processor.process(sent(*range(20)), None)
    with pytest.raises(HeadraceError, match="was killed by SIGKILL"):
        victim.check()


def test_a_signal_for_the_whole_group_is_left_to_the_driver(shared: Run) -> None:
    for process, number in zip(shared.processes, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP), strict=True):
        os.kill(process.pid, number)
    assert len(texts(shared.processor.process(sent(*range(20)), None))) == 20
    for process in shared.processes:
        process.check()


def test_a_process_that_is_told_to_end_ends_in_order(shared: Run) -> None:
    shared.end()
    assert [process._process.returncode for process in shared.processes] == [0, 0, 0]


def is_elsewhere() -> bool:
    """Whether this is one of the other processes."""
    return "bucket_process" in sys.argv[0]


def leave(value: int, state: dict[str, int]) -> str:
    return sys.exit("the function gives up") if is_elsewhere() else "stays"


def divide(value: int, state: dict[str, int]) -> str:
    return str(1 // (0 if is_elsewhere() else 1))


def wait(value: int, state: dict[str, int]) -> str:
    threading.Event().wait(10 * DEADLINE_S if is_elsewhere() else 0)
    return "waited"


def keyed(function: Callable[[int, dict[str, int]], str]) -> Plan:
    app = Pipeline("keyed")
    app.source("n/*", decode=int).key_by(lambda value: value).stateful(function, dict, name="step").sink("out")
    return plan_of(app, 2)


@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [
        (leave, HeadraceError, "SystemExit: the function gives up"),
        (divide, StepError, "step step, key 0, stream n/0, sequence 1: ZeroDivisionError"),
    ],
)
def test_an_error_there_is_raised_in_the_driver(
    function: Callable[[int, dict[str, int]], str], kind: type[Exception], said: str, tmp_path: Path
) -> None:
    run = Run(keyed(function), tmp_path, 1, Manifest(), 0)
    try:
        with pytest.raises(kind, match=said):
            run.processor.process(sent(*range(20)), None)
    finally:
        run.end()


DRIVER = """
import sys
from pathlib import Path
from tests.engine.test_bucket_processes import Run, keyed, sent, wait
from headrace.engine.checkpoint.manifests import Manifest

run = Run(keyed(wait), Path(sys.argv[1]), 1, Manifest(), 0)
run.processes[0].process(1, {})
run.processes[0].processed()
print(run.processes[0].pid, flush=True)
run.processor.process(sent(*range(int(sys.argv[2]))), None)
sys.stdin.read()
"""


@pytest.mark.parametrize("messages", [0, 20], ids=["idle", "in a function"])
def test_a_process_ends_with_a_driver_that_was_killed(messages: int, tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path), str(messages)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))},
    )
    with driver:
        assert driver.stdout is not None
        pid = int(driver.stdout.readline())
        assert lives(pid)
        driver.kill()
    deadline = time.monotonic() + DEADLINE_S
    while lives(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)

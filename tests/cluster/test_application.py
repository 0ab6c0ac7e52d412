"""README's application on a real cluster by `headrace run`: its counts equal a plain loop's, whatever is killed."""

import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster.hosts import OtherHost
from tests.docs.pages import blocks
from tests.health.site import Site

from headrace.laboratory.cluster import SparkCluster
from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess, headrace

DEADLINE_S = 600.0
LINES = 400
"""That are offered before a fault, and after it."""
AT_A_TIME = 100
"""In a micro-batch, so that a fault comes between others."""
_WORDS = ("mill", "race", "water", "wheel", "sluice", "lock", "weir", "Head", "head")

pytestmark = pytest.mark.timeout(1800)


class WordCount:
    """README's application, between a file that grows and a folder of counts, and what both must have in common."""

    def __init__(self, folder: Path, cluster: SparkCluster, there: OtherHost) -> None:
        (app,) = (block.text for block in blocks("README.md", "python") if block.heading == "An application")
        (folder / "app.py").write_text(app)
        self.lines, self.counts = folder / "lines.txt", folder / "counts"
        self.lines.touch()
        self._offered: Counter[str] = Counter()
        self._choose = random.Random(1)
        address, http = (f"{there.address}:{free_address().rpartition(':')[2]}" for _ in range(2))
        self.site = Site(address, http)
        at = ("--gateway", address)
        environ = {**cluster.environ, "no_grpc_proxy": f"127.0.0.1,{there.address}", "PYTHONUNBUFFERED": "1"}
        run = ["--master", cluster.master, "--checkpoint", str(folder / "checkpoint"), "--shared-checkpoint", *at]
        run += ["--option", f"maxMessagesPerTrigger={AT_A_TIME}"]
        source = ["--path", str(self.lines), "--source", "lines", "--format", "lines"]
        sink = ["--path", str(self.counts), "--sink", "counts", "--format", "lines"]
        commands = {
            "driver": headrace("run", str(folder / "app.py"), *run),
            "gateway": there.command(*headrace("gateway", "--listen", address, "--http-listen", http, "--insecure")),
            "source": there.command(*headrace("connector", "run", "file", *source, *at)),
            "sink": there.command(*headrace("connector", "run", "file-sink", *sink, *at)),
        }
        self.processes = {name: OwnedProcess(name, command, folder, environ) for name, command in commands.items()}

    def start(self) -> None:
        """Starts everything."""
        for process in self.processes.values():
            process.start()

    def dispose(self) -> None:
        """Ends everything."""
        for process in self.processes.values():
            process.kill()

    def offer(self) -> None:
        """Appends lines to the file."""
        lines = [" ".join(self._choose.choices(_WORDS, k=6)) for _ in range(LINES)]
        with self.lines.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        self._offered.update(word.lower() for line in lines for word in line.split())

    def offer_and_see(self) -> None:
        """Appends lines, and waits until some of what they lead to is visible, with more to come."""
        before = len(self.visible())
        self.offer()
        self.wait_for("some counts to be visible", lambda: len(self.visible()) > before)

    def visible(self) -> list[str]:
        """The whole lines of the sink's files."""
        return [line for file in sorted(self.counts.glob("*.lines")) for line in file.read_text().split("\n")[:-1]]

    def check(self) -> None:
        """Waits for all results, and compares them with a plain loop's: each word's counts, once and in order.

        The application counts a word however it is written, and gives it as it was written.
        """
        self.wait_for("all counts to be visible", lambda: len(self.visible()) >= self._offered.total())
        found = defaultdict(list)
        for line in self.visible():
            word, count = line.split()
            found[word.lower()].append(int(count))
        assert found == {word: list(range(1, count + 1)) for word, count in self._offered.items()}

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        """Waits until a condition is true; none of the processes may end by itself."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            ended = [name for name, process in self.processes.items() if not process.runs or process.exit_code() is not None]
            if ended or time.monotonic() > deadline:
                tails = "\n".join(f"=== {name}\n" + "\n".join(one.tail()) for name, one in self.processes.items())
                raise AssertionError(f"{what}: {', '.join(ended) or f'not within {DEADLINE_S} s'}\n{tails}")
            time.sleep(0.05)


@pytest.fixture(scope="module")
def words(running_cluster: SparkCluster, other_host: OtherHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WordCount]:
    """The application that continues from test to test."""
    words = WordCount(tmp_path_factory.mktemp("application"), running_cluster, other_host)
    try:
        words.start()
        words.offer_and_see()
        yield words
    finally:
        words.dispose()


@pytest.mark.in_turn(5, 6)
def test_its_counts_are_those_of_a_plain_loop_whatever_is_killed(words: WordCount, cluster: SparkCluster, fault: str) -> None:
    words.wait_for("executors on all workers", lambda: all(w.executors() for w in cluster.workers if w.runs))
    words.offer_and_see()
    FAULTS[fault](words, cluster)
    words.offer()
    words.check()


async def test_lost_executors_are_named_until_others_have_replaced_them(words: WordCount, cluster: SparkCluster) -> None:
    words.wait_for("executors on all workers", lambda: all(w.executors() for w in cluster.workers if w.runs))
    part = "pipeline word-count"
    await words.site.clears(part)
    lost = next(worker for worker in cluster.workers if worker.executors())
    cluster.kill_worker(lost.pid)
    found = await words.site.names("executor-lost", part, "executors are left", waits=None)
    assert "was lost" in found["cause"]
    cluster.restart_worker(lost)
    await words.site.clears(part)


def kill_executor(words: WordCount, cluster: SparkCluster) -> None:
    """An executor dies."""
    os.kill(next(pid for worker in cluster.workers for pid in worker.executors()), signal.SIGKILL)


def kill_driver(words: WordCount, cluster: SparkCluster) -> None:
    """The driver dies, and is started again."""
    words.processes["driver"].kill()
    words.processes["driver"].start()


def replace_worker(words: WordCount, cluster: SparkCluster) -> None:
    """A worker dies with its executor, and another one is added, which gets one."""
    cluster.kill_worker(next(worker.pid for worker in cluster.workers if worker.executors()))
    words.offer_and_see()
    added = cluster.add_worker()
    words.wait_for("an executor on the worker that was added", lambda: bool(added.executors()))


FAULTS: dict[str, Callable[[WordCount, SparkCluster], None]] = {
    "executor": kill_executor,
    "driver": kill_driver,
    "worker": replace_worker,
}

"""The application of the README with its checkpoint on HDFS, and on S3: drivers are killed, and take over from each other."""

import json
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from scripts.brokers import S3, Hdfs
from tests.cli.json_shape import result_of
from tests.cluster.conftest import ONE_EXECUTOR
from tests.cluster.stores import HdfsStore, S3Store, Store, plain_environ
from tests.docs.pages import ROOT, blocks
from tests.gateway.processes import gateway_process

from headrace.laboratory.cluster import SparkCluster
from headrace.processes import OwnedProcess, headrace

pytestmark = pytest.mark.timeout(600)

DEADLINE_S = 400.0
WORDS = 97
LINES = 120
PACE = ["--parallelism", "2", "--option", "maxMessagesPerTrigger=20"]
REASONS = ("has taken over", "another driver has started this query on the same checkpoint", "now serves another run")


KINDS: dict[str, Callable[..., Store]] = {"hdfs": HdfsStore, "s3": S3Store}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Which store the drivers have, by `--kill-seed`, and the other tests the other one; with `--every-pair`, all have both."""
    if "store" not in metafunc.fixturenames:
        return
    first, second = random.Random(str(metafunc.config.getoption("kill_seed"))).sample([*KINDS], len(KINDS))
    kinds = [
        first
        if metafunc.function.__name__ == "test_drivers_that_are_killed_and_replaced_are_continued_from_the_store"
        else second
    ]
    metafunc.parametrize("store", [*KINDS] if metafunc.config.getoption("every_pair") else kinds, indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    return KINDS[request.param](request.getfixturevalue(request.param))


class Stand:
    """A gateway, a file that is read, a two-phase sink, and drivers of the README's application between them."""

    def __init__(self, folder: Path, gateway: str, store: Store) -> None:
        self._folder, self._store = folder, store
        self._own = {**store.environ(folder), "HEADRACE_GATEWAY": gateway}
        self._sent: Counter[str] = Counter()
        self._lines = 0
        self._processes: list[OwnedProcess] = []
        (folder / "in").mkdir()
        (folder / "in" / "lines.txt").touch()
        (folder / "app.py").write_text(blocks("README.md", "python")[-1].text)
        self._start("lines", headrace("connector", "run", "file", "--path", "in/*.txt", "--source", "lines"))
        sink = ("file-sink", "--path", "out", "--sink", "counts", "--format", "lines")
        self._start("counts", headrace("connector", "run", *sink))

    def driver(
        self, name: str, cluster: SparkCluster | None = None, checkpoint: str = "word-count", more: Sequence[str] = ()
    ) -> OwnedProcess:
        """A driver that is started, with a cluster's executors or its own."""
        master, environ = (
            ("local[2]", plain_environ()) if cluster is None else (cluster.master, {**cluster.environ, **ONE_EXECUTOR})
        )
        _, *arguments = self._store.command("headrace run ", checkpoint, master)
        return self._start(name, headrace(*arguments, *PACE, *more), environ)

    def begin(self, name: str, *words: str) -> OwnedProcess:
        """A command that is started."""
        return self._start(name, headrace(*words))

    def feed(self) -> None:
        """Sends more, all at once."""
        with (self._folder / "in" / "lines.txt").open("a") as file:
            for number in range(self._lines, self._lines + LINES):
                words = [f"w{number * factor % WORDS}" for factor in (3, 5, 7)]
                file.write(" ".join(words) + "\n")
                self._sent.update(words)
        self._lines += LINES

    @property
    def sent(self) -> Counter[str]:
        """How often each word was sent."""
        return self._sent

    @property
    def visible(self) -> int:
        """How many results the sink shows."""
        return len(self.results())

    def results(self) -> list[str]:
        """The visible content of the sink."""
        files = sorted((self._folder / "out").glob("counts-*"))
        return [line for file in files for line in file.read_text().splitlines()]

    def wait_for(self, what: str, holds: Callable[[], bool], *alive: OwnedProcess) -> None:
        """Waits until something holds, while processes run."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            for process in alive:
                assert process.exit_code() is None, self._told(f"{process.name} has ended")
            assert time.monotonic() < deadline, self._told(f"never: {what}")
            time.sleep(0.05)

    def state(self, command: str, *further: str, checkpoint: str = "word-count") -> str:
        """What `headrace state` prints of the checkpoint."""
        _, *arguments = self._store.command("headrace state show ", checkpoint, "local[2]")
        arguments = [command if word == "show" else word for word in arguments]
        return self.call(*arguments, *further)

    def call(self, *words: str) -> str:
        """The output of a command that succeeds."""
        done = subprocess.run(
            headrace(*words),
            cwd=self._folder,
            env={**plain_environ(), **self._own},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self) -> None:
        """Kills what still runs."""
        for process in self._processes:
            process.kill()

    def _start(self, name: str, command: list[str], environ: Mapping[str, str] | None = None) -> OwnedProcess:
        process = OwnedProcess(name, command, self._folder, {**(environ or plain_environ()), **self._own})
        process.start()
        self._processes.append(process)
        return process

    def _told(self, what: str) -> str:
        return "\n".join([what, *(f"{each.name}: {line}" for each in self._processes for line in each.tail())])


@pytest.fixture
def stand(tmp_path: Path, store: Store) -> Iterator[Stand]:
    with gateway_process() as gateway:
        stand = Stand(tmp_path, gateway.address, store)
        try:
            yield stand
        finally:
            stand.end()


def test_drivers_that_are_killed_and_replaced_are_continued_from_the_store(
    stand: Stand, store: Store, cluster: SparkCluster
) -> None:
    stand.feed()
    first = stand.driver("first")
    stand.wait_for("first results", lambda: stand.visible > 0, first)
    stand.wait_for("more of them", lambda: stand.visible > LINES, first)
    stand.feed()
    first.kill()

    second = stand.driver("second")
    before = stand.visible
    stand.wait_for("the second driver continues", lambda: stand.visible > before, second)
    stand.feed()
    before = last_committed(store)
    third = stand.driver("third", cluster)
    stand.wait_for("the second driver ends", lambda: second.exit_code() is not None, third)
    said = second.log.read_text()
    assert any(reason in said for reason in REASONS), said[-8_000:]

    stand.feed()
    stand.wait_for("everything", lambda: stand.visible >= stand.sent.total(), third)
    third.stop(DEADLINE_S)
    counted: dict[str, list[int]] = defaultdict(list)
    for word, _, number in (result.partition(" ") for result in stand.results()):
        counted[word].append(int(number))
    assert counted == {word: list(range(1, count + 1)) for word, count in stand.sent.items()}

    # Each driver has one run or, where its query had to start again, several; the last three are kept.
    runs = sorted({int(name.split(".")[0]) for name in store.names("word-count/headrace/runs")})
    assert runs == list(range(runs[-1] - 2, runs[-1] + 1))
    assert runs[-1] >= 3
    (vote,) = json.loads(store.read("word-count/headrace-votes.json"))
    assert vote["sink"] == "counts"
    assert before < vote["batch"] <= last_committed(store), "each vote takes the place of the one before"
    exported = [json.loads(line) for line in stand.state("export").splitlines()]
    assert {each["key"]: each["state"]["seen"] for each in exported} == stand.sent


@pytest.mark.in_turn(1, 6)
@pytest.mark.timeout(1200)
def test_a_backup_in_the_store_is_taken_while_the_query_writes_and_continued_from(stand: Stand, store: Store) -> None:
    stand.feed()
    first = stand.driver("first")
    stand.wait_for("first results", lambda: stand.visible > 0, first)
    before = last_committed(store)
    backup = stand.begin("backup", "checkpoint", "backup", f"{store.root}/word-count", "--into", f"{store.root}/backup", "--json")
    while backup.exit_code() is None:
        stand.feed()
        stand.wait_for("all of it", lambda: stand.visible >= stand.sent.total(), first)
    taken = result_of(backup.log.read_text().splitlines()[-1])
    assert before <= taken["batch"] <= last_committed(store)
    assert {each.partition(".")[0] for each in store.names("backup")} == {"headrace-backup"}
    verified = result_of(stand.call("checkpoint", "verify", f"{store.root}/backup", "--json"))
    assert verified == {"batch": taken["batch"], "files": taken["files"], "wrong": [], "backup": True}
    stand.feed()
    stand.wait_for("what came after the backup", lambda: stand.visible >= stand.sent.total(), first)
    first.stop(DEADLINE_S)

    restored = result_of(
        stand.call("checkpoint", "restore", f"{store.root}/backup", "--into", f"{store.root}/restored", "--json")
    )
    assert (restored["checkpoint"], restored["batch"]) == (f"{store.root}/restored", taken["batch"])
    stand.call("forget", "word-count")
    stand.feed()
    second = stand.driver("second", checkpoint="restored", more=["--option", "onOlderCheckpoint=accept"])
    # The first driver has read none of the last lines: their counts are visible once all before them are counted again.
    last = {f"{word} {count}" for word, count in stand.sent.items()}
    stand.wait_for("all of it again", lambda: last <= set(stand.results()), second)
    second.stop(DEADLINE_S)
    exported = [json.loads(line) for line in stand.state("export", checkpoint="restored").splitlines()]
    assert {each["key"]: each["state"]["seen"] for each in exported} == stand.sent


def last_committed(store: Store) -> int:
    return max(int(name) for name in store.names("word-count/commits") if name.isdecimal())


def test_of_two_writers_of_an_entry_one_fails_and_what_may_be_replaced_is_replaced_whole(
    hdfs: Hdfs, s3: S3, tmp_path: Path
) -> None:
    s3_store = S3Store(s3)
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.two_writers", f"{HdfsStore(hdfs).root}/entries", f"{s3_store.root}/entries"],
        cwd=ROOT,
        env={**plain_environ(), **s3_store.environ(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for entry, replaced in json.loads(done.stdout.splitlines()[-1]):
        assert entry == {"before": False, "refused": "FileAlreadyExistsException", "found": "first"}
        assert replaced == {"before": False, "refused": None, "found": "second"}


def test_tasks_read_and_write_files_in_the_store_that_their_workers_have_no_client_for(
    store: Store, cluster: SparkCluster, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.served_files", cluster.master, f"{store.root}/states/{tmp_path.name}"],
        cwd=ROOT,
        env={**plain_environ(), **cluster.environ, **store.environ(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    services = {task.pop("service") for task in told["tasks"]}
    folders = {task.pop("folder") for task in told["tasks"]}
    assert len(services) == len(folders), "each executor has its own"
    expected = {
        "before": "FileNotFoundError",
        "whole": True,
        "part": "them",
        "second": "FileExistsError",
        "short": "CheckpointError",
        "after": "CheckpointError",
    }
    assert told["tasks"] == [expected] * 4
    driver = told["driver"]
    assert driver["found"] == [True] * 4
    assert driver["half"] == "again"
    assert driver["service"] not in services
    ended = time.monotonic() + DEADLINE_S
    while left := [path for path in (driver["service"], *services) if Path(path).parent.exists()]:
        assert time.monotonic() < ended, f"these are left after the end of their JVMs: {left}"
        time.sleep(0.05)

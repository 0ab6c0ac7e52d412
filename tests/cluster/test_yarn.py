"""The page about YARN: its commands, as they are printed, while executors and application masters are killed.

The results are compared with a plain loop's: an application's counts, and what a plain query writes.
"""

import os
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyspark
import pytest
from scripts.brokers import Hdfs, Yarn
from scripts.brokers._ivy import java
from scripts.brokers._yarn import write_settings
from tests.cluster.hosts import OtherHost
from tests.cluster.stores import plain_environ
from tests.cluster.yarn_node import EXECUTOR, LAUNCHER, MASTER, Submitted, applications
from tests.docs.pages import blocks

from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess, headrace

PAGE = "docs/run/yarn.md"
DEADLINE_S = 900.0
LINES = 300
"""That are offered before each kill, and after the last one."""
_WORDS = ("mill", "race", "water", "wheel", "sluice", "lock", "weir", "Head", "head")
_SMALL = {
    "spark.executor.instances": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
}

pytestmark = pytest.mark.timeout(3600)


class Site:
    """A gateway, a source and sinks here, and drivers that the page's commands start."""

    def __init__(self, folder: Path, yarn: Yarn, hdfs: Hdfs, python: Path, here: str) -> None:
        self.folder, self.yarn = folder, yarn
        address = f"{here}:{free_address().rpartition(':')[2]}"
        self._names = {
            "gateway:7433": address,
            "hdfs:///": f"hdfs:///{folder.name}-{os.getpid()}-",
            "/opt/headrace": str(python.parents[1]),
            "/opt/spark": str(Path(pyspark.__file__).parent),
            "/etc/": f"{folder}/etc/",
        }
        hadoop = folder / "etc" / "hadoop"
        shutil.copytree(yarn.configuration, hadoop)
        write_settings(hadoop / "core-site.xml", {"fs.defaultFS": hdfs.url, "hadoop.tmp.dir": str(folder / "tmp")})
        self._provide_hdfs_command(folder / "bin")
        (folder / "app.py").write_text(blocks("README.md", "python")[-1].text)
        for language in ("properties", "python"):
            for block in blocks(PAGE, language):
                self._write(self._text(block.text))
        self.lines = folder / "lines.txt"
        self.lines.touch()
        self.offered: list[str] = []
        self._choose = random.Random(1)
        self.processes: list[OwnedProcess] = []
        self.application: Submitted | None = None
        at = ("--gateway", address)
        self._start("gateway", headrace("gateway", "--listen", address, "--insecure"))
        source = ("--path", str(self.lines), "--source", "lines", "--format", "lines")
        self._start("source", headrace("connector", "run", "file", *source, *at))
        for name in ("counts", "lengths"):
            sink = ("--path", str(folder / name), "--sink", name, "--format", "lines")
            self._start(name, headrace("connector", "run", "file-sink", *sink, *at))

    def run(self, heading: str) -> None:
        """Runs the commands of a section to their end."""
        self._wait_for_end(self.start(heading))

    def start(self, heading: str) -> OwnedProcess:
        """Starts the commands of a section."""
        (block,) = (block for block in blocks(PAGE, "bash") if block.heading == heading)
        *before, last = self._text(block.text).splitlines()
        return self._start(heading.replace(" ", "-"), ["bash", "-ec", "\n".join([*before, f"exec {last}"])])

    def submit(self, heading: str) -> tuple[OwnedProcess, Submitted]:
        """Starts the commands of a section that submit an application."""
        known = applications(self.yarn)
        driver = self.start(heading)
        self.wait_for("the application", lambda: bool(applications(self.yarn) - known))
        self.application = Submitted(self.yarn, known)
        return driver, self.application

    def kill(self, main: str) -> None:
        """Kills a container with this main class, at once, and waits until YARN has replaced it."""
        assert self.application is not None
        containers = partial(self.application.containers, main)
        self.wait_for(f"a container of {main}", lambda: bool(containers()))
        killed = containers()
        os.kill(killed[0], signal.SIGKILL)
        self.wait_for(f"another container of {main}", lambda: bool(set(containers()) - set(killed)))

    def stop(self, process: OwnedProcess) -> None:
        """SIGTERM, which ends a driver in good order."""
        os.kill(process.pid, signal.SIGTERM)
        self._wait_for_end(process)

    def offer(self) -> None:
        """Gives the source more lines."""
        lines = [" ".join(self._choose.choices(_WORDS, k=self._choose.randint(1, 6))) for _ in range(LINES)]
        self.offered += lines
        with self.lines.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def offer_and_see(self, sink: str) -> None:
        """Gives it more lines, and waits until more is visible, with some to come."""
        before = len(self.visible(sink))
        self.offer()
        self.wait_for("something to be visible", lambda: len(self.visible(sink)) > before)

    def visible(self, sink: str) -> list[str]:
        """The whole lines of a sink's files."""
        files = sorted((self.folder / sink).glob("*.lines"))
        return [line for file in files for line in file.read_text().split("\n")[:-1]]

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits until something holds, while all processes run."""
        self._until(what, lambda: holds() or self._has_ended())
        assert not self._has_ended(), self._told(what)

    def close(self) -> None:
        """Ends everything."""
        for process in self.processes:
            process.kill()
        if self.application is not None and self.application.state == "RUNNING":
            self.application.end()

    def _provide_hdfs_command(self, folder: Path) -> None:
        """Makes the command `hdfs dfs`, which Hadoop has as a script, of Spark's jars."""
        folder.mkdir()
        command = folder / "hdfs"
        shell = "org.apache.hadoop.fs.FsShell"
        jars = Path(pyspark.__file__).parent / "jars"
        command.write_text(f'#!/bin/sh\nshift\nexec {java()} -cp "$HADOOP_CONF_DIR:{jars}/*" {shell} "$@"\n')
        command.chmod(0o755)

    def _wait_for_end(self, process: OwnedProcess) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while (code := process.exit_code()) is None:
            assert time.monotonic() < deadline, self._told(f"{process.name} does not end")
            time.sleep(0.1)
        assert code == 0, self._told(process.name)
        self.processes.remove(process)

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, self._told(what)
            time.sleep(0.1)

    def _has_ended(self) -> bool:
        return any(not process.runs or process.exit_code() is not None for process in self.processes)

    def _told(self, what: str) -> str:
        tails = "\n".join(f"=== {process.name}\n" + "\n".join(process.tail()) for process in self.processes)
        node = self.yarn.log.read_text(errors="replace")[-2000:]
        return f"{what}\n{tails}\n=== yarn\n{node}\n{self.application.logs() if self.application else ''}"

    def _text(self, text: str) -> str:
        pattern = "|".join(map(re.escape, self._names))
        return re.sub(pattern, lambda match: self._names[match[0]], text)

    def _write(self, text: str) -> None:
        name = text.splitlines()[0].removeprefix("# ")
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".conf":
            text += "".join(f"{setting}  {value}\n" for setting, value in _SMALL.items())
        path.write_text(text)

    def _start(self, name: str, command: list[str]) -> OwnedProcess:
        path = os.pathsep.join([str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        # gzip need not take its time over an archive that stays on this machine.
        environ = {**plain_environ(), "PATH": path, "GZIP": "-1", "PYTHONUNBUFFERED": "1"}
        process = OwnedProcess(name, command, self.folder, environ)
        process.start()
        self.processes.append(process)
        return process


@pytest.fixture
def site(tmp_path: Path, yarn: Yarn, hdfs: Hdfs, executor_python: Path, other_host: OtherHost) -> Iterator[Site]:
    site = Site(tmp_path, yarn, hdfs, executor_python, other_host.here)
    try:
        yield site
    finally:
        site.close()


def test_the_commands_of_the_page_give_exact_results_whatever_is_killed(site: Site) -> None:
    site.run("Once")

    driver, application = site.submit("An application")
    for main in (EXECUTOR, LAUNCHER):
        site.offer_and_see("counts")
        site.kill(main)
    site.offer()
    words = Counter(word.lower() for line in site.offered for word in line.split())
    site.wait_for("all counts", lambda: len(site.visible("counts")) >= words.total())
    counted = defaultdict(list)
    for line in site.visible("counts"):
        word, count = line.split()
        counted[word.lower()].append(int(count))
    assert counted == {word: list(range(1, count + 1)) for word, count in words.items()}
    assert application.environments()
    assert (application.attempts, application.state) == (2, "RUNNING")
    site.stop(driver)

    _, application = site.submit("A program on the cluster")
    site.wait_for("something to be visible", lambda: bool(site.visible("lengths")))
    for main in (EXECUTOR, MASTER):
        site.offer_and_see("lengths")
        site.kill(main)
    site.offer()
    site.wait_for("all lengths", lambda: len(site.visible("lengths")) >= len(site.offered))
    assert Counter(site.visible("lengths")) == Counter(str(len(line)) for line in site.offered)
    assert (application.attempts, application.state) == (2, "RUNNING")

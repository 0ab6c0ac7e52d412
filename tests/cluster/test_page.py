"""The page about clusters: its commands, as they are printed, on a real cluster with the gateway and connectors on another host.

One story in the order of the page: what one section leaves, the next one continues with.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.cluster.conftest import ONE_EXECUTOR
from tests.cluster.hosts import OtherHost
from tests.docs.pages import Block, blocks
from tests.gateway.certificates import Authority

from headrace.laboratory.cluster import SparkCluster
from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess

PAGE = "docs/run/cluster.md"
TOLD_ELSEWHERE = {"HDFS", "S3"}
"""Sections whose commands `test_stores.py` runs."""
DEADLINE_S = 240.0

pytestmark = [pytest.mark.timeout(1200), pytest.mark.in_turn(1)]


class Site:
    """Hosts on which the page's commands are run, with names and paths of this test in place of the page's."""

    def __init__(self, folder: Path, cluster: SparkCluster, executor_python: Path, other_host: OtherHost) -> None:
        self.folder, self.cluster, self.other_host = folder, cluster, other_host
        network = other_host.here.rpartition(".")[0]
        port = free_address().rpartition(":")[2]
        self.moving_address = f"{network}.10"
        self._names = {
            "gateway:7433": f"{self.moving_address}:{port}",
            "0.0.0.0:7433": f"0.0.0.0:{port}",
            "192.0.2.10": self.moving_address,
            "spark://master:7077": cluster.master,
            "/opt/headrace": str(executor_python.parents[1]),
            **{f"/{place}/": f"{folder}/{place}/" for place in ("etc", "mnt", "srv")},
        }
        binaries = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # gzip need not take its time over an archive that stays on this machine.
        self._environ = {
            **cluster.environ,
            **ONE_EXECUTOR,
            "PATH": binaries,
            "HEADRACE_TOKEN": "the-token-of-word-count",
            "GZIP": "-1",
        }
        self._processes: list[OwnedProcess] = []
        self.done: list[Block] = []

    def text(self, block: Block) -> str:
        """A block with the names of this test."""
        pattern = "|".join(map(re.escape, self._names))
        return re.sub(pattern, lambda match: self._names[match[0]], block.text)

    def write(self, block: Block) -> None:
        """Writes a block into the file that its first line names."""
        text = self.text(block)
        path = self.folder / text.splitlines()[0].removeprefix("# ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, block: Block, there: bool = False) -> list[OwnedProcess]:
        """Runs a block's commands in order; returns the ones that continue."""
        self.done.append(block)
        environ, started = dict(self._environ), []
        for line in self.text(block).splitlines():
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                environ[name] = value
            elif goes_on(line):
                started.append(self.start(line, environ, there))
            else:
                self.finish(line, environ, there)
        return started

    def start(self, line: str, environ: Mapping[str, str] | None = None, there: bool = False) -> OwnedProcess:
        """Starts a command that continues until it is stopped."""
        name = f"{len(self._processes)}-{line.split()[0]}"
        process = OwnedProcess(name, self._command(f"exec {line}", there), self.folder, environ or self._environ)
        self._processes.append(process)
        process.start()
        return process

    def finish(self, line: str, environ: Mapping[str, str] | None = None, there: bool = False) -> None:
        """Runs a command to its end."""
        words = self._command(line.replace("dev eth0", f"dev {self._device(there)}"), there)
        done = subprocess.run(
            words, cwd=self.folder, env=environ or self._environ, capture_output=True, text=True, timeout=DEADLINE_S
        )
        assert done.returncode == 0, f"{line}: {done.stdout} {done.stderr}"

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        """Waits, and fails as soon as something has ended that should continue."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            for process in self._processes:
                assert not process.runs or process.exit_code() is None, f"{process.name} ended: {process.tail()}"
            assert time.monotonic() < deadline, f"{what}: {[(p.name, p.tail()[-10:]) for p in self._processes]}"
            time.sleep(0.05)

    def stop(self, process: OwnedProcess) -> None:
        """SIGTERM, which ends it in good order."""
        os.kill(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + DEADLINE_S
        while (code := process.exit_code()) is None:
            assert time.monotonic() < deadline, process.tail()
            time.sleep(0.05)
        assert code == 0, process.tail()

    def offer(self, file: str, *words: str) -> None:
        """Gives the file source a file of these lines."""
        folder = self.folder / "srv" / "in"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("".join(f"{word}\n" for word in words))

    def out(self, folder: str = "out") -> Counter[str]:
        """The visible lines of a file sink."""
        return Counter(line for path in (self.folder / "srv" / folder).glob("*.lines") for line in path.read_text().splitlines())

    def close(self) -> None:
        """Ends everything."""
        for process in self._processes:
            process.kill()

    def _command(self, line: str, there: bool) -> list[str]:
        words = ["bash", "-ec", line]
        return self.other_host.command(*words) if there else words

    def _device(self, there: bool) -> str:
        """The device that links the two hosts."""
        address = self.other_host.address if there else self.other_host.here
        words = ["ip", "-oneline", "-4", "address", "show", "to", address]
        shown = subprocess.run(self.other_host.command(*words) if there else words, capture_output=True, text=True, check=True)
        return shown.stdout.split()[1]


def goes_on(line: str) -> bool:
    """Whether a command runs until it is stopped."""
    return line.startswith(("headrace run ", "headrace-connectors run ", "spark-submit ")) or (
        line.startswith("headrace-gateway ") and "--check" not in line
    )


@pytest.fixture
def site(tmp_path: Path, cluster: SparkCluster, executor_python: Path, other_host: OtherHost) -> Iterator[Site]:
    site = Site(tmp_path, cluster, executor_python, other_host)
    for folder in ("etc/headrace", "mnt/checkpoints", "mnt/backups", "srv"):
        (tmp_path / folder).mkdir(parents=True)
    authority = Authority(tmp_path / "etc" / "headrace", "ca")
    pair = authority.issue("gateway", address=site.moving_address)
    assert (pair.cert.name, pair.key.name) == ("gateway.pem", "gateway.key")
    (tmp_path / "app.py").write_text(blocks("README.md", "python")[-1].text)
    try:
        yield site
    finally:
        site.close()
        subprocess.run(["ip", "address", "delete", f"{site.moving_address}/24", "dev", site._device(False)], capture_output=True)


@pytest.mark.in_turn(2, 6)
def test_the_commands_of_the_page(site: Site) -> None:
    commands = {heading: [b for b in blocks(PAGE, "bash") if b.heading == heading] for heading in headings()}
    for language in ("toml", "python"):
        for block in blocks(PAGE, language):
            if block.heading not in TOLD_ELSEWHERE:
                site.write(block)

    gateway_there, connectors_there, driver_here = commands["An example"]
    site.finish(f"ip address add {site.moving_address}/24 dev eth0", there=True)
    (gateway,) = site.run(gateway_there, there=True)
    site.run(connectors_there, there=True)
    site.offer("1.txt", "one", "two", "two")
    (driver,) = site.run(driver_here)
    site.wait_for("the example's counts", lambda: site.out() == Counter(["one 1", "two 1", "two 2"]))
    site.stop(driver)

    site.offer("2.txt", "two")
    (driver,) = site.run(*commands["Python on the executors"])
    site.wait_for("a count by an archive's Python", lambda: site.out()["two 3"] == 1)
    assert any((worker.folder / "work").glob("app-*/*/environment/bin/python") for worker in site.cluster.workers)
    site.stop(driver)

    lengths = site.start(sink_of(site, connectors_there, "lengths"), there=True)
    (program,) = site.run(*commands["A program of your own"])
    site.wait_for("what the program writes", lambda: site.out("lengths") == Counter({"3": 4}))
    program.kill()
    site.stop(lengths)

    backup, restore = commands["Backup and restore"]
    site.run(backup)

    (driver,) = site.run(driver_here)
    site.offer("3.txt", "three")
    site.wait_for("a count before the gateway is lost", lambda: site.out()["three 1"] == 1)
    passive, gives_up, takes_over = commands["Two gateways, one of them passive"]
    site.run(passive)
    gateway.kill()
    site.run(gives_up, there=True)
    site.run(takes_over)
    site.offer("4.txt", "three")
    site.wait_for("a count by way of the other gateway", lambda: site.out()["three 2"] == 1)
    site.stop(driver)
    counted = site.out()
    assert counted == Counter(["one 1", "two 1", "two 2", "two 3", "three 1", "three 2"])

    site.run(restore)
    site.wait_for("what came after the copy", lambda: site.out() == counted + Counter(["three 1", "three 2"]))
    assert {block.heading for block in site.done} | TOLD_ELSEWHERE >= set(headings())


def headings() -> list[str]:
    """The sections that have commands."""
    return list(dict.fromkeys(block.heading for block in blocks(PAGE, "bash")))


def sink_of(site: Site, block: Block, sink: str) -> str:
    """The command of the page that serves a sink, for another one."""
    export, _, line = site.text(block).splitlines()
    assert "--sink counts" in line
    address = export.partition("=")[2]
    return line.replace("/srv/out", f"/srv/{sink}").replace("counts", sink) + f" --gateway {address}"

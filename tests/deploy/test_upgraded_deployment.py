"""A deployment that runs is upgraded and goes back by the commands of the page, with two installed releases and real Spark.

The commands of systemd start and stop `headrace run` as its unit does. Messages come before, between and after.
"""

import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.test_upgrade import DEADLINE_S, NEW, OLD, Releases, releases
from tests.distributions.programs import environ
from tests.docs.pages import blocks
from tests.docs.test_production_page import PAGE, moved

from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess

__all__ = ["releases"]

DEPLOYMENT = """
[gateway]
listen = "{listen}"

[connectors.lines]
connector = "file"
path = "in/*.txt"
source = "lines"

[connectors.counts]
connector = "file-sink"
path = "out"
sink = "counts"
format = "lines"

[application.orders]
app = "app.py"
checkpoint = "{checkpoint}"
master = "local[1]"
parallelism = 1
conf = {{ "spark.ui.enabled" = false }}
options = {{ onOlderCheckpoint = "accept" }}
"""


class Host:
    """A folder in place of the root of a host, whose service is the deployment."""

    def __init__(self, root: Path, releases: Releases) -> None:
        self._root = root
        self._checkpoint = root / "var/lib/headrace/checkpoints/orders"
        self._work = root / "etc/headrace"
        for folder in (self._work / "in", self._checkpoint.parent, root / "var/backups/headrace", root / "opt"):
            folder.mkdir(parents=True)
        for release, program in releases.items():
            (root / f"opt/headrace-{release}").symlink_to(program.parents[1])
        (root / "opt/headrace").symlink_to(root / f"opt/headrace-{OLD}")
        self.listen = free_address()
        (self._work / "deploy.toml").write_text(DEPLOYMENT.format(listen=self.listen, checkpoint=self._checkpoint))
        (self._work / "app.py").write_text(blocks("README.md", "python")[-1].text)
        self._service: OwnedProcess | None = None
        self._starts = 0
        self._sent = 0

    def follow(self, text: str, **variables: str) -> None:
        """Does what a block of the page has, line by line."""
        for line in moved(text, self._root).splitlines():
            if line.startswith("systemctl "):
                {"start": self.start, "stop": self.stop}[line.split()[1]]()
            elif not line.startswith("chown "):
                # The user of the service is the one of the test.
                done = subprocess.run(
                    ["bash", "-euc", line],
                    env={**environ(), **variables},
                    capture_output=True,
                    text=True,
                    timeout=DEADLINE_S,
                    check=False,
                )
                assert done.returncode == 0, (line, done.stdout + done.stderr)

    def start(self) -> None:
        self._starts += 1
        command = [str(self._root / "opt/headrace/bin/headrace"), "run", "deploy.toml", "--json"]
        self._service = OwnedProcess(f"service-{self._starts}", command, self._work, environ(), ends_with_parent=True)
        self._service.start()

    def stop(self) -> None:
        assert self._service is not None
        self._service.ask_to_stop()
        deadline = time.monotonic() + DEADLINE_S
        while (code := self._service.exit_code()) is None:
            assert time.monotonic() < deadline, self._service.tail()
            time.sleep(0.05)
        assert code == 0, self._service.tail()
        self._service = None

    def send(self) -> None:
        """Sends a word once more."""
        with (self._work / "in/lines.txt").open("a") as file:
            file.write("tea\n")
        self._sent += 1

    def until_shown(self) -> Counter[str]:
        """The counts that the sink shows, once it shows the last one."""
        deadline = time.monotonic() + DEADLINE_S
        while f"tea {self._sent}" not in (shown := self._shown()):
            assert self._service is not None
            assert self._service.exit_code() is None, self._service.tail()
            assert time.monotonic() < deadline, (shown, self._service.tail())
            time.sleep(0.05)
        return shown

    def _shown(self) -> Counter[str]:
        return Counter(line for file in (self._work / "out").glob("counts-*") for line in file.read_text().splitlines())

    def version(self) -> str:
        """The release of the gateway that runs."""
        words = [self._root / f"opt/headrace-{OLD}/bin/headrace", "status", "--gateway", self.listen]
        done = subprocess.run(words, env=environ(), capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        (found,) = re.findall(r"version (\S+)", done.stdout.partition("\n")[0])
        return str(found)

    def end(self) -> None:
        if self._service is not None:
            self._service.kill()


@pytest.fixture
def host(tmp_path: Path, releases: Releases) -> Iterator[Host]:
    made = Host(tmp_path, releases)
    try:
        yield made
    finally:
        made.end()


@pytest.mark.in_turn(5, 6)
@pytest.mark.timeout(1200)
def test_a_running_deployment_is_upgraded_and_goes_back_by_the_commands_of_the_page(host: Host) -> None:
    upgrade, rollback = (block.text for block in blocks(PAGE, "bash") if block.heading == "Upgrade and rollback")
    host.start()
    host.send()
    assert host.until_shown() == {"tea 1": 1}
    assert host.version() == OLD

    # The backup is taken while it runs.
    host.follow(upgrade, NEW=NEW)
    host.send()
    assert host.until_shown() == {"tea 1": 1, "tea 2": 1}
    assert host.version() == NEW

    host.follow(rollback)
    host.send()
    # Messages that arrived after the backup are processed again, as the page says, and their counts are shown again.
    assert host.until_shown() == {"tea 1": 1, "tea 2": 2, "tea 3": 1}
    assert host.version() == OLD

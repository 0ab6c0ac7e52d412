"""An upgrade and its way back, with two installed releases: nothing is lost, and nothing counts twice.

The newer one is this tree with another version and one more field on the wire. What a release stores is the same in both: this is
no proof that a later one reads what this one has written.
"""

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from tests.cli.json_shape import result_of
from tests.deploy.newer_release import BUILT, change
from tests.distributions.programs import environ
from tests.distributions.wheels import build, install, released
from tests.docs.pages import blocks

from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess

DEADLINE_S = 300.0
"""For a start of Spark with its first micro-batch, on a machine with other work to do."""
STARTS = 3
"""How often the application is started before its end is an error."""
OLD, NEW = metadata.version("headrace"), "9.0.0"
WORDS = ("one", "two", "three")

Releases = dict[str, Path]
"""The program `headrace` of each release."""


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    """Two releases, each installed from its wheels: this tree, and one with another version and a field more on the wire."""
    folder = tmp_path_factory.mktemp("releases")
    wheels = {OLD: build(folder / "wheels"), NEW: released(NEW, folder, change)}
    for version, found in wheels.items():
        assert {wheel.metadata["Version"] for wheel in found.values()} == {version}
        install(found["headrace"], folder / version)
    return {version: folder / version / "bin/headrace" for version in wheels}


class Site:
    """A gateway, a source, a two-phase sink and the README's application, each of the release that it was started with."""

    def __init__(self, folder: Path, releases: Releases) -> None:
        self._folder, self._releases = folder, releases
        self._environ = {**environ(), "HEADRACE_GATEWAY": free_address()}
        self._parts: dict[str, OwnedProcess] = {}
        self._starts = 0
        self._sent: Counter[str] = Counter()
        (folder / "in").mkdir()
        (folder / "in/lines.txt").touch()
        (folder / "app.py").write_text(blocks("README.md", "python")[-1].text)
        self.checkpoint = folder / "checkpoints/word-count"

    def start(self, part: str, version: str, *more: str) -> None:
        """Starts a part of a release, once the one that runs has stopped in order."""
        self.stop(part)
        words = {
            "gateway": ("gateway", "--listen", self._environ["HEADRACE_GATEWAY"]),
            "source": ("connector", "run", "file", "--path", "in/*.txt", "--source", "lines"),
            "sink": ("connector", "run", "file-sink", "--path", "out", "--sink", "counts", "--format", "lines"),
            "application": ("run", "app.py", "--master", "local[1]", "--parallelism", "1", "--conf", "spark.ui.enabled=false"),
        }[part]
        self._starts += 1
        command = [str(self._releases[version]), *words, *more]
        process = OwnedProcess(f"{self._starts}-{part}-{version}", command, self._folder, self._environ)
        process.start()
        self._parts[part] = process

    def stop(self, part: str) -> None:
        """Stops a part in order, if it runs."""
        if (process := self._parts.pop(part, None)) is not None:
            process.stop(DEADLINE_S)

    def count_more(self) -> None:
        """Sends each word once more, and waits until the sink shows the counts."""
        with (self._folder / "in/lines.txt").open("a") as file:
            file.write(" ".join(WORDS) + "\n")
        self._sent.update(WORDS)
        last = {f"{word} {count}" for word, count in self._sent.items()}
        self.wait_for(f"{last}", lambda: last <= set(self.shown()))

    def shown(self) -> list[str]:
        """The visible content of the sink."""
        return [line for file in sorted((self._folder / "out").glob("counts-*")) for line in file.read_text().splitlines()]

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits for something, while all parts run."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            for part, process in self._parts.items():
                if process.exit_code() is not None:
                    starts = STARTS if part == "application" else 1
                    assert len(process.pids) < starts, (process.name, process.log.read_text()[:2_000], process.tail())
                    # As a supervisor. Spark gives each of its Python processes ten seconds to come up, and processes of a new
                    # installation compile everything first.
                    process.start()
            assert time.monotonic() < deadline, (what, {part.name: part.tail() for part in self._parts.values()})
            time.sleep(0.05)

    def call(self, version: str, *words: str) -> Any:
        """The result of a command of a release."""
        done = subprocess.run(
            [self._releases[version], *words, "--json"],
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return result_of(done.stdout)

    def versions(self) -> dict[str, str]:
        """The releases of what the gateway knows, as the other release's command shows it, too."""
        status, other = self.call(OLD, "status"), self.call(NEW, "status")
        assert status.keys() == other.keys()
        assert status["gateway"]["version"] == other["gateway"]["version"]
        (source,), (sink,) = status["sessions"], status["sink_sessions"]
        self._check_new_field(other["sessions"] + other["sink_sessions"])
        assert all("build" not in session["sdk"] for session in (source, sink))
        return {
            "gateway": status["gateway"]["version"],
            "source": source["sdk"]["version"],
            "sink": sink["sdk"]["version"],
        }

    def _check_new_field(self, sessions: list[dict[str, Any]]) -> None:
        """The newer release's field is there in what its SDK sent, whichever gateway has passed it on, and nowhere else."""
        for session in sessions:
            assert session["sdk"]["build"] == (BUILT if session["sdk"]["version"] == NEW else ""), session

    def end(self) -> None:
        """Kills what still runs."""
        for process in self._parts.values():
            process.kill()


@pytest.fixture
def site(tmp_path: Path, releases: Releases) -> Iterator[Site]:
    site = Site(tmp_path, releases)
    try:
        yield site
    finally:
        site.end()


@pytest.mark.in_turn(2, 6)
@pytest.mark.timeout(1200)
def test_an_upgrade_part_by_part_loses_nothing_and_so_does_the_way_back(site: Site) -> None:
    for part in ("gateway", "source", "sink", "application"):
        site.start(part, OLD)
    site.count_more()
    site.call(OLD, "checkpoint", "backup", str(site.checkpoint), "--into", "backup")
    site.call(OLD, "checkpoint", "verify", "backup")
    at_backup = len(site.shown())

    mixed = {"gateway": OLD, "source": OLD, "sink": OLD}
    for part in ("gateway", "source", "sink", "application"):
        site.start(part, NEW)
        site.count_more()
        mixed |= {part: NEW} if part in mixed else {}
        assert site.versions() == mixed
    upgraded = Counter(site.shown())
    assert upgraded == Counter(f"{word} {count}" for word in WORDS for count in range(1, 6))

    for part in ("application", "sink", "source", "gateway"):
        site.stop(part)
    site.checkpoint.rename(site.checkpoint.with_suffix(".after-upgrade"))
    site.call(OLD, "checkpoint", "restore", "backup", "--into", str(site.checkpoint))
    for part in ("gateway", "source", "sink"):
        site.start(part, OLD)
    site.start("application", OLD, "--option", "onOlderCheckpoint=accept")
    site.count_more()
    # What came after the backup is written once more, as the page says, with the counts that it had.
    again = Counter(f"{word} {count}" for word in WORDS for count in range(2, 7))
    assert at_backup == len(WORDS)
    assert Counter(site.shown()) == upgraded + again
    assert site.versions() == dict.fromkeys(mixed, OLD)

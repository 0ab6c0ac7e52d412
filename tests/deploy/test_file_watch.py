"""A deployment's file while it runs: what is on the disk now decides whether it is valid, not what SIGHUP has read once."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.deploy.supervisors import plan

from headrace.deploy import DeploymentError, IsStopped, Kind, Plan
from headrace.deploy import file_watch as file_watch_module
from headrace.deploy.file_watch import FileWatch
from headrace.deploy.sources import sources_beside

DEADLINE_S = 60.0
VALID = "deploy.toml is valid again; SIGHUP applies it"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(file_watch_module, "LOOK_EVERY_S", 0.005)


class Disk:
    """A file, and an application that it names."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "deploy.toml"
        self.write("valid")
        self.app_error: Exception | None = None
        self.checks = 0
        self.imports = 0
        self._plan = plan(folder, source=(Kind.SOURCE, "true"))

    def write(self, text: str) -> None:
        """Replaces the file at once: nobody sees a part of it."""
        written = self.file.with_suffix(".new")
        written.write_text(text)
        written.replace(self.file)

    def check(self) -> Sequence[Path]:
        self.checks += 1
        try:
            text = self.file.read_text()
        except OSError as error:
            raise DeploymentError(f"{self.file} cannot be read: {error.strerror}") from None
        if text != "valid":
            raise DeploymentError(f"{self.file.name}:1:\n  {text}")
        return [self.file]

    def replan(self, _: IsStopped) -> Plan:
        self.imports += 1
        self.check()
        if self.app_error is not None:
            raise self.app_error
        return self._plan


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def told(watch: FileWatch) -> list[str]:
    """All lines until the file is valid again."""
    said: list[str] = []
    deadline = time.monotonic() + DEADLINE_S
    while VALID not in said:
        assert time.monotonic() < deadline
        said += watch.look()
        time.sleep(0.002)
    return said


def cause(watch: FileWatch) -> str | None:
    return None if watch.fault is None else watch.fault.cause


def test_an_invalid_file_is_a_fault_until_it_is_valid_again_without_a_signal(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    watch = FileWatch("deploy.toml", disk.check, disk.replan)
    try:
        assert watch.look() == []
        until(lambda: disk.checks >= 2)
        assert watch.fault is None
        disk.write("no such key")
        until(lambda: cause(watch) == "deploy.toml:1: no such key")
        assert watch.fault is not None
        since = watch.fault.since
        disk.write("no such value")
        until(lambda: cause(watch) == "deploy.toml:1: no such value")
        assert watch.fault.since == since
        disk.file.unlink()
        until(lambda: "cannot be read" in (cause(watch) or ""))
        disk.write("valid")
        said = told(watch)
        assert said[-1] == VALID
        invalid = "deploy.toml is invalid, and what was valid before stays in effect"
        assert [line.partition(":")[0] for line in said[:-1]] == [invalid] * 3
        assert watch.fault is None
        assert disk.imports == 0
    finally:
        watch.close()


def test_a_file_that_does_not_change_is_not_read_again(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    watch = FileWatch("deploy.toml", disk.check, disk.replan)
    looks = 0
    stamped = threading.Event()
    original = file_watch_module.stamp_of

    def counted(path: Path) -> object:
        nonlocal looks
        looks += 1
        if looks > 20:
            stamped.set()
        return original(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_watch_module, "stamp_of", counted)
        try:
            watch.look()
            assert stamped.wait(DEADLINE_S)
            # Once before it knew the names of the files, and once after.
            assert disk.checks == 2
        finally:
            watch.close()


class Looks:
    """Counts how often the watch has looked at a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
        self.made = 0
        original = file_watch_module.stamp_of

        def counted(path: Path) -> object:
            self.made += path == file
            return original(path)

        monkeypatch.setattr(file_watch_module, "stamp_of", counted)

    def again(self) -> None:
        """Waits until it has looked several times more."""
        before = self.made
        until(lambda: self.made >= before + 10)


@pytest.mark.parametrize("error", [DeploymentError("app.py: no module prices"), SystemExit(3), RecursionError()])
@pytest.mark.parametrize("corrected", ["deploy.toml", "app.py", "package/deep/prices.py", "new.py", "prices.py"])
def test_applications_that_sighup_could_not_import_are_imported_again_only_when_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, corrected: str
) -> None:
    deep = tmp_path / "package" / "deep"
    deep.mkdir(parents=True)
    for file in (tmp_path / "app.py", tmp_path / "prices.py", tmp_path / "package" / "__init__.py", deep / "prices.py"):
        file.write_text("before")
    disk, looks = Disk(tmp_path), Looks(monkeypatch, tmp_path / "deploy.toml")
    disk.app_error = error
    watch = FileWatch("deploy.toml", disk.check, disk.replan)
    try:
        watch.look()
        looks.again()
        watch.reloaded(error)
        looks.again()
        imports = disk.imports
        assert 1 <= imports <= 2, "a file may change while SIGHUP imports the applications"
        looks.again()
        assert disk.imports == imports
        assert cause(watch) == (str(error) or type(error).__name__)
        # The supervisor has answered SIGHUP itself.
        assert watch.look() == []
        disk.app_error = None
        if corrected == "deploy.toml":
            disk.write("valid")
        else:
            (tmp_path / corrected).write_text("corrected")
        assert told(watch) == [VALID]
        assert watch.fault is None
    finally:
        watch.close()


def test_nothing_is_imported_while_the_file_itself_is_invalid(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.write("no such key")
    watch = FileWatch("deploy.toml", disk.check, disk.replan)
    try:
        watch.reloaded(DeploymentError("deploy.toml:1: no such key"))
        watch.look()
        until(lambda: disk.checks >= 10)
        assert disk.imports == 0
        disk.write("valid")
        assert told(watch) == [VALID]
        assert disk.imports == 1
    finally:
        watch.close()


def test_a_stop_ends_an_import_at_once_and_nothing_is_imported_after_it(tmp_path: Path) -> None:
    disk, began, ended = Disk(tmp_path), threading.Event(), threading.Event()

    def slow(is_stopped: IsStopped) -> Plan:
        disk.imports += 1
        began.set()
        until(is_stopped)
        ended.set()
        raise DeploymentError("stopped")

    watch = FileWatch("deploy.toml", disk.check, slow)
    try:
        watch.reloaded(DeploymentError("app.py: no module prices"))
        watch.look()
        assert began.wait(DEADLINE_S)
        watch.stop()
        assert ended.wait(DEADLINE_S)
        until(lambda: not [thread for thread in threading.enumerate() if thread.name == "deployment-file"])
        watch.look()
        assert not [thread for thread in threading.enumerate() if thread.name == "deployment-file"]
        assert (disk.imports, cause(watch)) == (1, "app.py: no module prices")
    finally:
        watch.close()


def test_folders_without_python_files_are_not_searched_for_what_is_imported(tmp_path: Path) -> None:
    for name in ("checkpoints/orders/offsets/0", "app.py", "lib/__init__.py", "lib/more/a.py", "deploy.run/app.py", ".venv/a.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    found = {path.relative_to(tmp_path) for path in sources_beside([tmp_path / "deploy.toml"]) if path.is_relative_to(tmp_path)}
    assert found == {Path(name) for name in ("deploy.toml", "app.py", "lib/__init__.py", "lib/more/a.py")}


def test_what_was_read_before_a_signal_tells_nothing_after_it_and_is_read_again(tmp_path: Path) -> None:
    disk, reads, may_answer = Disk(tmp_path), threading.Event(), threading.Event()

    def slow_once() -> Sequence[Path]:
        found = disk.check()
        if disk.checks == 1:
            reads.set()
            assert may_answer.wait(DEADLINE_S)
            raise DeploymentError("as it was before")
        return found

    watch = FileWatch("deploy.toml", slow_once, disk.replan)
    try:
        watch.look()
        assert reads.wait(DEADLINE_S)
        watch.reloaded(None)
        may_answer.set()
        until(lambda: disk.checks >= 2)
        assert (watch.look(), watch.fault) == ([], None)
    finally:
        may_answer.set()
        watch.close()

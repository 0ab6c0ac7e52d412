"""The set-up script on machines that lack something, made up from a PATH of our own."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup.sh"
TOOLS = ("bash", "env", "dirname", "sed", "head", "uname", "cat", "cksum")


class Machine:
    """A copy of the script with nothing around it, and a PATH of our own."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "bin"
        self._bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (self._bin / tool).symlink_to(found)
        self._project = folder / "project"
        (self._project / "scripts").mkdir(parents=True)
        (self._project / "sdk" / "python").mkdir(parents=True)
        (self._project / "protocol").mkdir()
        for name in ("pyproject.toml", "sdk/python/pyproject.toml", "protocol/pyproject.toml", "constraints.txt"):
            (self._project / name).write_text("")
        self._script = shutil.copy(SCRIPT, self._project / "scripts")

    def program(self, name: str, body: str) -> None:
        path = self._bin / name
        path.write_text(f"#!{self._bin}/bash\n{body}\n")
        path.chmod(0o755)

    def java(self, version: str) -> None:
        self.program("java", f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")

    def set_up(self, **environ: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self._bin), **environ}
        return subprocess.run(
            [self._bin / "bash", self._script], env=env, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_no_java(machine: Machine) -> None:
    machine.program("apt-get", "exit 1")

    result = machine.set_up()

    assert result.returncode == 3
    assert result.stderr == (
        "headrace: needs Java 17 or newer, found none at PATH; run: sudo apt-get install -y openjdk-17-jre-headless\n"
    )


def test_the_hint_is_for_the_machines_own_package_manager(machine: Machine) -> None:
    machine.program("brew", "exit 1")

    assert machine.set_up().stderr.endswith("run: brew install openjdk@17\n")


@pytest.mark.parametrize(("version", "major"), [("1.8.0_432", "8"), ("11.0.25", "11"), ("16", "16")])
def test_java_that_is_too_old(machine: Machine, version: str, major: str) -> None:
    machine.java(version)

    result = machine.set_up()

    assert result.returncode == 3
    assert result.stderr.startswith(f"headrace: needs Java 17 or newer, found {major} at PATH; run: ")
    assert len(result.stderr.splitlines()) == 1


def test_java_home_wins_over_the_path(machine: Machine, tmp_path: Path) -> None:
    machine.java("21.0.5")

    result = machine.set_up(JAVA_HOME=str(tmp_path / "nowhere"))

    assert result.returncode == 3
    assert f"found none at {tmp_path}/nowhere" in result.stderr


def test_python_that_is_too_old(machine: Machine) -> None:
    machine.java("17.0.15")
    machine.program("apt-get", "exit 1")
    machine.program("python3", 'case "$2" in *platform*) echo 3.9.2 ;; *) exit 1 ;; esac')

    result = machine.set_up()

    assert result.returncode == 3
    assert result.stderr == (
        "headrace: needs Python 3.11 or newer, found 3.9.2; run: sudo apt-get install -y python3.11 python3.11-venv\n"
    )


def test_no_python_at_all(machine: Machine) -> None:
    machine.java("17.0.15")

    result = machine.set_up()

    assert result.returncode == 3
    assert result.stderr.startswith("headrace: needs Python 3.11 or newer, found none; run: ")


def test_a_newer_python_beside_an_old_one_is_found(machine: Machine) -> None:
    machine.java("17.0.15")
    machine.program("apt-get", "exit 1")
    machine.program("python3", "exit 1")
    machine.program("python3.12", 'case "$2" in *ensurepip*) exit 1 ;; *%d.%d*) echo 3.12 ;; esac')

    result = machine.set_up()

    assert result.returncode == 3
    assert result.stderr == "headrace: Python 3.12 has no venv module; run: sudo apt-get install -y python3.12-venv\n"

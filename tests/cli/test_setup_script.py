"""The set-up script on machines that lack something, made up from a PATH of our own."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup.sh"
TOOLS = ("bash", "env", "dirname", "sed", "head", "uname", "cat", "cksum", "cut", "cp", "mkdir", "sleep")
PYTHON = """
echo "python $*" >>calls.txt
case "$*" in
  --version) echo Python 3.12.1 ;;
  *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp uv headrace .venv/bin ;;
esac
"""
"""Stands in for a Python that makes environments and installs uv."""
UV = """
echo "uv $*" >>calls.txt
[ "$1" != --version ] || echo "uv 1.2.3 (of a test)"
"""


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
        (self._project / "base").mkdir()
        for name in ("pyproject.toml", "sdk/python/pyproject.toml", "base/pyproject.toml", "constraints.txt"):
            (self._project / name).write_text("")
        self._script = shutil.copy(SCRIPT, self._project / "scripts")

    def program(self, name: str, body: str) -> None:
        path = self._bin / name
        path.write_text(f"#!{self._bin}/bash\n{body}\n")
        path.chmod(0o755)

    def java(self, version: str) -> None:
        self.program("java", f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")

    def installable(self) -> None:
        """Everything is there, and whatever is called is written down."""
        self.java("17.0.15")
        self.program("python3", PYTHON)
        (self._project / "constraints.txt").write_text("uv==1.2.3\n")
        for name, body in (("uv", UV), ("headrace", 'echo "headrace $*" >>calls.txt')):
            self.program(name, body)
            (self._bin / name).rename(self._project / name)

    def calls(self) -> list[str]:
        """The calls since the last time."""
        file = self._project / "calls.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def set_up(self, **environ: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self._bin), **environ}
        return subprocess.run(
            [self._bin / "bash", self._script], env=env, capture_output=True, text=True, timeout=300, check=False
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


def test_set_up_installs_and_compiles_and_starts_no_spark(machine: Machine) -> None:
    machine.installable()

    result = machine.set_up()

    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "headrace: makes .venv with Python 3.12.1"
    assert "PySpark, 450 MB, and some 60 other packages, 110 MB" in lines[1]
    assert lines[-1].endswith(" s: ready; the command line is .venv/bin/headrace")
    calls = machine.calls()
    (install,) = [call for call in calls if call.startswith("uv pip install")]
    assert "--no-progress" in install
    assert "--group dev" not in install
    assert any("-m compileall" in call for call in calls)
    assert [call for call in calls if call.startswith("headrace")] == [], "the first demo comes before the archive"


def test_a_second_set_up_has_nothing_to_do(machine: Machine) -> None:
    machine.installable()
    assert machine.set_up().returncode == 0
    machine.calls()

    result = machine.set_up()

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not any("install" in call or "compileall" in call for call in machine.calls())

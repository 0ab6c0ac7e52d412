"""The wheels of all distributions, and environments that one of them is installed into."""

import os
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
MEMBERS = (".", *tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["workspace"]["members"])


@dataclass(frozen=True)
class Wheel:
    """A wheel, and what is in it."""

    path: Path
    files: tuple[str, ...]
    metadata: Message

    @property
    def name(self) -> str:
        """The distribution's name."""
        return str(self.metadata["Name"])

    @property
    def info(self) -> str:
        """The folder of its metadata."""
        return next(file for file in self.files if file.endswith(".dist-info/METADATA")).removesuffix("/METADATA")

    def text(self, file: str) -> str:
        """What is in a file."""
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(file).decode()


def build(folder: Path) -> dict[str, Wheel]:
    """Builds all distributions, by name: the source archive of each, and its wheel from that."""
    # Without isolation: what builds is in this environment, so nothing is downloaded.
    python = ["--no-build-isolation", "--python", sys.executable, "--offline"]
    _uv("build", "--all-packages", *python, "--out-dir", str(folder))
    wheels = [_read(path) for path in sorted(folder.glob("*.whl"))]
    return {wheel.name: wheel for wheel in wheels}


def install(wheel: Wheel, into: Path) -> Path:
    """Makes an environment with one distribution and what it needs; returns where its packages are."""
    _uv("venv", "--quiet", "--python", sys.executable, str(into))
    python = into / "bin" / "python"
    arguments = ["pip", "install", "--python", str(python), "--constraint", "constraints.txt"]
    arguments += ["--find-links", str(wheel.path.parent), str(wheel.path)]
    # Set-up has left everything in uv's cache; what was cleaned away since is fetched as set-up fetched it.
    if _tried(*arguments, "--offline").returncode != 0:
        _uv(*arguments)
    (packages,) = into.glob("lib/python*/site-packages")
    return packages


def size_mb(folder: Path) -> float:
    """The size of all files in a folder, in units of a million bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink()) / 1e6


def _read(path: Path) -> Wheel:
    with zipfile.ZipFile(path) as archive:
        files = tuple(archive.namelist())
        (metadata,) = (file for file in files if file.endswith(".dist-info/METADATA"))
        return Wheel(path, files, BytesParser().parsebytes(archive.read(metadata)))


def _uv(*arguments: str) -> None:
    done = _tried(*arguments)
    assert done.returncode == 0, f"uv {' '.join(arguments)}\n{done.stdout}{done.stderr}"


def _tried(*arguments: str) -> "subprocess.CompletedProcess[str]":
    environ = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    return subprocess.run([UV, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300, check=False)

"""The wheels of all distributions, and environments that one of them is installed into."""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

from scripts.build_console import PAGES

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
        """The content of a file."""
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(file).decode()


def build(folder: Path, root: Path = ROOT) -> dict[str, Wheel]:
    """Builds all distributions of a tree, by name: the source archive of each, and its wheel from that; this tree once."""
    if root == ROOT:
        shutil.copytree(_built_here(), folder, dirs_exist_ok=True)
    else:
        _build(folder, root)
    wheels = [_read(path) for path in sorted(folder.glob("*.whl"))]
    return {wheel.name: wheel for wheel in wheels}


@functools.cache
def _built_here() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="headrace-distributions-"))
    _build(folder, ROOT)
    return folder


def _build(folder: Path, root: Path) -> None:
    # Without isolation: what builds is in this environment, so nothing is downloaded.
    python = ["--no-build-isolation", "--python", sys.executable, "--offline"]
    _uv("build", "--all-packages", *python, "--out-dir", str(folder), root=root)


def released(version: str, folder: Path, change: Callable[[Path], None]) -> dict[str, Wheel]:
    """Builds all distributions as of another version, from a copy of the tree that `change` makes another one."""
    tree = folder / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in listed.stdout.decode().split("\0"):
        # Git still lists a file that is deleted without a commit; one entry is a link to a folder.
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    # Not committed, and as good as new: a copy need not build them again.
    if PAGES.exists():
        shutil.copytree(PAGES, tree / PAGES.relative_to(ROOT))
    for member in MEMBERS:
        file = tree / member / "pyproject.toml"
        text = file.read_text()
        (own,) = re.findall(r'^version = "([^"]+)"$', text, re.MULTILINE)
        text = text.replace(f'version = "{own}"', f'version = "{version}"')
        file.write_text(re.sub(rf'("headrace[^"]*)=={re.escape(own)}"', rf'\1=={version}"', text))
    change(tree)
    return build(folder / "wheels", tree)


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


def _uv(*arguments: str, root: Path = ROOT) -> None:
    done = _tried(*arguments, root=root)
    assert done.returncode == 0, f"uv {' '.join(arguments)}\n{done.stdout}{done.stderr}"


def _tried(*arguments: str, root: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    environ = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    return subprocess.run([UV, *arguments], cwd=root, env=environ, capture_output=True, text=True, timeout=300, check=False)

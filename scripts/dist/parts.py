"""The parts of a release, each for one registry, as functions that build into an empty folder.

Two builds of a commit are equal, byte by byte: each build takes the date of the commit.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from scripts.set_version import present

ROOT = Path(__file__).resolve().parents[2]
GO_MODULE = "github.com/headrace/headrace/sdk/go"
Build = Callable[[Path], None]


class BuildError(Exception):
    """A tool is missing or has failed; the message contains what it printed."""


def run(command: list[str], folder: Path, environ: Mapping[str, str] | None = None) -> str:
    """Runs a command, and returns its standard output.

    Raises:
        BuildError: It is not installed, or its exit code is not 0.
    """
    try:
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **(environ or {})}, capture_output=True, text=True, check=False, timeout=1800
        )
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is not installed") from None
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def commit_time() -> int:
    """When the commit was made that is checked out, in seconds since 1970."""
    return int(run(["git", "log", "-1", "--format=%ct"], ROOT))


def build_python(into: Path) -> None:
    """Source archives and wheels of all distributions. `make setup-dev` has installed the tools, so nothing is downloaded."""
    uv = str(Path(sys.executable).with_name("uv"))
    environ = {"SOURCE_DATE_EPOCH": str(commit_time())}
    isolation = ["--no-build-isolation", "--python", sys.executable, "--offline"]
    run([uv, "build", "--all-packages", *isolation, "--out-dir", str(into)], ROOT, environ)
    (into / ".gitignore").unlink(missing_ok=True)


def build_maven(into: Path) -> None:
    """A repository of Maven: the artifacts of Java, with their sources, documentation and checksums."""
    when = datetime.fromtimestamp(commit_time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    command = ["mvn", "--batch-mode", "--quiet", "-Prelease", "-DskipTests", "--projects", ".,bom,protocol,sdk"]
    command += [f"-Dmaven.repo.local={ROOT / '.build' / 'm2'}", f"-Dproject.build.outputTimestamp={when}"]
    # Cleaned first: what an earlier build has left is not part of a release.
    run([*command, f"-DaltDeploymentRepository=dist::{into.as_uri()}", "clean", "deploy"], ROOT / "sdk" / "java")
    for index in into.rglob("maven-metadata.xml*"):
        index.unlink()  # the registry makes its own, and it has the time of the build


def build_npm(into: Path) -> None:
    """The package for npm."""
    source = into / "source"
    _copy_committed("sdk/typescript", source)
    run(["npm", "ci", "--no-audit", "--no-fund"], source)
    run(["npm", "run", "build"], source)
    run(["npm", "pack", "--pack-destination", str(into)], source)
    shutil.rmtree(source)


def build_cargo(into: Path) -> None:
    """The crate, which Cargo has built from what it has packed."""
    target = ROOT / ".build" / "rust"
    run(["cargo", "package", "--allow-dirty", "--target-dir", str(target)], ROOT / "sdk" / "rust")
    shutil.copy2(target / "package" / f"headrace-{present(ROOT)}.crate", into)


def build_go(into: Path) -> None:
    """The module as a folder that `GOPROXY=file://...` reads: https://go.dev/ref/mod#goproxy-protocol."""
    version, folder = f"v{present(ROOT)}", into / GO_MODULE / "@v"
    folder.mkdir(parents=True)
    shutil.copyfile(ROOT / "sdk/go/go.mod", folder / f"{version}.mod")
    when = datetime.fromtimestamp(commit_time(), UTC)
    (folder / f"{version}.info").write_text(json.dumps({"Version": version, "Time": when.strftime("%Y-%m-%dT%H:%M:%SZ")}))
    (folder / "list").write_text(f"{version}\n")
    names = committed("sdk/go")
    others = {PurePosixPath(name).parent for name in names if name != "go.mod" and name.endswith("/go.mod")}
    with zipfile.ZipFile(folder / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            if others.isdisjoint(PurePosixPath(name).parents):
                entry = zipfile.ZipInfo(f"{GO_MODULE}@{version}/{name}", when.timetuple()[:6])
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, (ROOT / "sdk/go" / name).read_bytes())


PARTS: dict[str, Build] = {
    "python": build_python,
    "maven": build_maven,
    "npm": build_npm,
    "cargo": build_cargo,
    "go": build_go,
}


def committed(folder: str) -> list[str]:
    """The files of a folder that Git has, sorted, relative to the folder."""
    return sorted(filter(None, run(["git", "ls-files", "-z"], ROOT / folder).split("\0")))


def _copy_committed(folder: str, into: Path) -> None:
    for name in committed(folder):
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / folder / name, into / name)

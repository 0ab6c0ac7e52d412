"""Builds the console's pages into the gateway's package, unless they are current. Needs Node.js with npm.

Usage: python scripts/build_console.py

Set-up runs it before anything is installed, and so does the build of the gateway's wheel: it needs nothing but Python itself.
Exit codes: 0 if the pages are current, 3 if this machine has no npm, 1 if the build has failed.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSOLE = ROOT / "gateway" / "console"
PAGES = ROOT / "gateway" / "src" / "headrace" / "gateway" / "http" / "console"
_STAMP = "sources.sha256"
"""The file among the pages with the digest of the sources that they are made of."""
TYPES = Path("src", "client", "openapi.ts")
"""The types of the gateway's documents, of which pages contain nothing. They are generated, where there is a gateway."""
_INPUTS = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "src")


class NpmMissing(Exception):
    """This machine has no npm."""


class BuildFailed(Exception):
    """A command of the build has failed."""


def digest(console: Path = CONSOLE) -> str:
    """Returns the digest of the sources of the pages."""
    found = hashlib.sha256()
    for name in _INPUTS:
        path = console / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file != console / TYPES:
                content = file.read_bytes()
                found.update(f"{file.relative_to(console).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()


def is_current(console: Path = CONSOLE, pages: Path = PAGES) -> bool:
    """Returns whether the pages were built from the current sources."""
    stamp = pages / _STAMP
    return stamp.is_file() and stamp.read_text() == digest(console)


def install(console: Path = CONSOLE) -> None:
    """Installs what the console depends on, if package-lock.json has changed since.

    Raises:
        NpmMissing: There is no npm.
        BuildFailed: npm has failed.
    """
    lock, installed = console / "package-lock.json", console / "node_modules" / ".headrace-lock"
    if not installed.is_file() or installed.read_bytes() != lock.read_bytes():
        run(console, "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund")
        shutil.copyfile(lock, installed)


def build(console: Path = CONSOLE, pages: Path = PAGES) -> None:
    """Builds the pages, if they are not current.

    Raises:
        NpmMissing: There is no npm.
        BuildFailed: npm or Vite has failed.
    """
    if is_current(console, pages):
        return
    with _alone(console):
        if is_current(console, pages):
            return
        install(console)
        sources = digest(console)
        with tempfile.TemporaryDirectory(dir=pages.parent, prefix=".console-") as folder:
            built, former = Path(folder, "new"), Path(folder, "former")
            run(console, "npm", "run", "--silent", "build", environ={"CONSOLE_OUT": str(built)})
            (built / _STAMP).write_text(sources)
            if pages.exists():
                pages.rename(former)
            built.rename(pages)


def run(console: Path, *command: str, environ: Mapping[str, str] | None = None) -> None:
    """Runs a command of npm in the console's folder.

    Raises:
        NpmMissing: There is no npm.
        BuildFailed: It has failed; the text is what it has printed.
    """
    npm = shutil.which(command[0])
    if npm is None:
        raise NpmMissing(f"{command[0]} is not installed; install Node.js 20.19 or newer")
    cache = {"npm_config_cache": str(ROOT / ".build" / "typescript" / "npm")}
    done = subprocess.run(
        [npm, *command[1:]],
        cwd=console,
        env={**os.environ, **cache, **(environ or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} in {console} has failed\n{done.stdout}{done.stderr}")


@contextmanager
def _alone(console: Path) -> Iterator[None]:
    """Waits while another process builds: two commands of make may run at once."""
    with (console / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Builds the pages; returns the exit code."""
    try:
        build()
    except NpmMissing as error:
        print(f"headrace: the gateway has no console: {error}, and run: make console", file=sys.stderr)
        return 3
    except BuildFailed as error:
        print(f"headrace: the gateway has no console of this version: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

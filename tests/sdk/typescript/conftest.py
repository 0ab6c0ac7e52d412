import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.absent import absent

from headrace.contract.languages import LANGUAGES

ROOT = Path(__file__).resolve().parents[3]
SDK = ROOT / "sdk" / "typescript"
BUILD = ROOT / ".build" / "typescript"


@dataclass(frozen=True)
class Package:
    """A package, built, with the tools that it needs for that."""

    node: str
    folder: Path

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs a command in its folder."""
        environ = {**os.environ, "npm_config_cache": str(BUILD / "npm")}
        return subprocess.run(list(map(str, command)), cwd=self.folder, env=environ, capture_output=True, text=True, check=False)

    def checked(self, *command: str | Path) -> None:
        """Runs a command that must succeed."""
        done = self.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr

    def example(self, name: str) -> tuple[str, Path]:
        """The command of an example."""
        return self.program(f"examples/{name}")

    def program(self, name: str) -> tuple[str, Path]:
        """The command of a program of the package."""
        return self.node, self.folder / "dist" / f"{name}.js"


def built(node: str, folder: Path = SDK) -> Package:
    """Builds a package. Its dependencies are installed again only where package-lock.json has changed."""
    found = Package(node, folder)
    lock, installed = folder / "package-lock.json", folder / "node_modules" / ".headrace-lock"
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        found.checked("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund")
        shutil.copyfile(lock, installed)
    found.checked("npx", "tsc", "--build")
    return found


@pytest.fixture(scope="session")
def package() -> Package:
    """The SDK, built."""
    missing = [tool for tool in LANGUAGES["typescript"].tools if shutil.which(tool) is None]
    if missing:
        text = f"{', '.join(missing)} not installed; install {LANGUAGES['typescript'].needs} to test sdk/typescript"
        absent(text)
    return built(shutil.which("node") or "node")


@pytest.fixture(scope="session")
def event_stream(package: Package) -> Package:
    """The source of server-sent events, built on the SDK."""
    return built(package.node, ROOT / "sdk" / "examples" / "typescript-event-stream")


@pytest.fixture(scope="session")
def browser_sink(package: Package) -> Package:
    """The sink of browsers, built on the SDK."""
    return built(package.node, ROOT / "sdk" / "examples" / "typescript-browser-sink")

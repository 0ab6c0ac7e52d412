import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SDK = ROOT / "sdk" / "typescript"
BUILD = ROOT / ".build" / "typescript"
TOOLS = ("node", "npm", "npx")


@dataclass(frozen=True)
class Package:
    """The SDK, built, with the tools that it needs for that."""

    node: str

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs a command in its folder."""
        environ = {**os.environ, "npm_config_cache": str(BUILD / "npm")}
        return subprocess.run(list(map(str, command)), cwd=SDK, env=environ, capture_output=True, text=True, check=False)

    def checked(self, *command: str | Path) -> None:
        """Runs a command that must succeed."""
        done = self.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr

    def example(self, name: str) -> tuple[str, Path]:
        """The command of an example."""
        return self.node, SDK / "dist" / "examples" / f"{name}.js"


@pytest.fixture(scope="session")
def package() -> Package:
    """The SDK, built. Packages are installed again only where package-lock.json has changed."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        text = f"{', '.join(missing)} not installed; install Node.js 20 or newer to test sdk/typescript"
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)
    found = Package(shutil.which("node") or "node")
    lock, installed = SDK / "package-lock.json", SDK / "node_modules" / ".headrace-lock"
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        found.checked("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund")
        shutil.copyfile(lock, installed)
    found.checked("npx", "tsc", "--build")
    return found

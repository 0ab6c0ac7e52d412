import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SDK = ROOT / "sdk" / "go"
BUILD = ROOT / ".build" / "go"
STATICCHECK = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"


@dataclass(frozen=True)
class Toolchain:
    """The Go toolchain, whose caches are in the checkout."""

    go: str

    def run(self, *arguments: str | Path, folder: Path = SDK) -> subprocess.CompletedProcess[str]:
        """Runs a command of `go`."""
        environ = {**os.environ, "GOCACHE": str(BUILD / "cache"), "STATICCHECK_CACHE": str(BUILD / "staticcheck")}
        command = [self.go, *map(str, arguments)]
        return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def go() -> Toolchain:
    """The Go toolchain."""
    found = shutil.which("go")
    if found is None:
        missing = "go is not installed; install Go 1.26 or newer to test sdk/go"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return Toolchain(found)


@pytest.fixture(scope="session")
def example(go: Toolchain) -> Callable[[str], Path]:
    """Builds an example, and returns the program; Go's cache makes the second build short."""

    def build(name: str, folder: Path = SDK / "examples") -> Path:
        program = BUILD / name
        done = go.run("build", "-o", program, ".", folder=folder / name)
        assert done.returncode == 0, done.stderr
        return program

    return build

"""The Go toolchain, whose caches are in the checkout, so that all tests compile gRPC once."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".build" / "go"


@dataclass(frozen=True)
class Toolchain:
    """The commands of `go`."""

    go: str

    def run(self, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
        """Runs a command of `go` in a folder."""
        environ = {**os.environ, "GOCACHE": str(BUILD / "cache"), "STATICCHECK_CACHE": str(BUILD / "staticcheck")}
        command = [self.go, *map(str, arguments)]
        return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)

    def build(self, folder: Path) -> Path:
        """Builds the program in a folder; the cache makes the second build short."""
        program = BUILD / folder.name
        done = self.run("build", "-o", program, ".", folder=folder)
        assert done.returncode == 0, done.stderr
        return program

    def unformatted(self, folder: Path) -> str:
        """The files below a folder that gofmt would change."""
        done = self.run("run", "cmd/gofmt", "-l", ".", folder=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout


def toolchain(tested: str) -> Toolchain:
    """The toolchain that tests need; without it they are skipped, and fail with CI=true."""
    found = shutil.which("go")
    if found is None:
        missing = f"go is not installed; install Go 1.26 or newer to test {tested}"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return Toolchain(found)

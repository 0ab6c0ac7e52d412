"""The Go toolchain, whose caches are in the checkout, so that all tests compile gRPC once."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from scripts.generate_stubs import GO_ENVIRON
from tests.absent import absent

from headrace.contract.languages import LANGUAGES

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / ".build" / "go"
STATICCHECK = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"


@dataclass(frozen=True)
class Toolchain:
    """The commands of `go`."""

    go: str

    def run(self, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
        """Runs a command of `go` in a folder."""
        command = [self.go, *map(str, arguments)]
        return subprocess.run(command, cwd=folder, env=os.environ | GO_ENVIRON, capture_output=True, text=True, check=False)

    def build(self, folder: Path) -> Path:
        """Builds the program in a folder; the cache makes the second build short."""
        program = BUILD / folder.name
        done = self.run("build", "-o", program, ".", folder=folder)
        assert done.returncode == 0, done.stderr
        return program

    def test(self, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
        """Runs the tests below a folder, without what `go vet` is run for by itself."""
        return self.run("test", "-vet=off", *flags, "./...", folder=folder)

    def unformatted(self, folder: Path) -> str:
        """The files below a folder that gofmt would change."""
        done = self.run("run", "cmd/gofmt", "-l", ".", folder=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout


def toolchain(tested: str) -> Toolchain:
    """The toolchain that tests need; without it they are skipped, and fail with CI=true."""
    found = shutil.which("go")
    if found is None:
        missing = f"go is not installed; install {LANGUAGES['go'].needs} to test {tested}"
        absent(missing)
    return Toolchain(found)

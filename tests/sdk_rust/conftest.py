import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SDK = ROOT / "sdk" / "rust"
TARGET = ROOT / ".build" / "rust" / "target"


@dataclass(frozen=True)
class Toolchain:
    """The Rust toolchain, which builds in the checkout."""

    cargo: str

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of `cargo` on the SDK."""
        variables = {**os.environ, "CARGO_TARGET_DIR": str(TARGET), **environ}
        return subprocess.run([self.cargo, *arguments], cwd=SDK, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def cargo() -> Toolchain:
    """The Rust toolchain."""
    found = shutil.which("cargo")
    if found is None:
        missing = "cargo is not installed; install Rust 1.88 or newer, with clippy and rustfmt, to test sdk/rust"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return Toolchain(found)


@pytest.fixture(scope="session")
def example(cargo: Toolchain) -> Callable[[str], Path]:
    """Builds the examples, and returns the program of one; the second build is short."""
    done = cargo.run("build", "--examples")
    assert done.returncode == 0, done.stderr
    return lambda name: TARGET / "debug" / "examples" / name

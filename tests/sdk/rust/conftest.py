import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.absent import absent

ROOT = Path(__file__).resolve().parents[3]
SDK = ROOT / "sdk" / "rust"
TARGET = ROOT / ".build" / "rust" / "target"
PROGRAMS = TARGET / "release"
ENVIRON = {
    "CARGO_INCREMENTAL": "0",
    "CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS": "true",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
    "CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS": "true",
}
"""Everything is built as new projects are, with --release, and with the checks and the speed of a debug build.

So nothing that the SDK, its examples and new projects have in common is compiled twice.
"""


@dataclass(frozen=True)
class Toolchain:
    """The Rust toolchain, which builds in the checkout, all crates in one folder: what they need is compiled once."""

    cargo: str

    def run(self, *arguments: str, folder: Path = SDK, **environ: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of `cargo` on a crate, by default the SDK."""
        variables = {**os.environ, "CARGO_TARGET_DIR": str(TARGET), **ENVIRON, **environ}
        return subprocess.run([self.cargo, *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False)

    def build(self, name: str) -> Path:
        """Builds a crate of sdk/examples/, and returns its program; the second build is short."""
        done = self.run("build", "--release", folder=ROOT / "sdk" / "examples" / name)
        assert done.returncode == 0, done.stderr
        return PROGRAMS / name

    def check(self, name: str) -> None:
        """Runs the tests, the formatter and the linter on a crate of sdk/examples/."""
        for command in (
            ["test", "--release"],
            ["fmt", "--check"],
            ["clippy", "--release", "--all-targets", "--", "-D", "warnings"],
        ):
            done = self.run(*command, folder=ROOT / "sdk" / "examples" / name)
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def cargo() -> Toolchain:
    """The Rust toolchain."""
    found = shutil.which("cargo")
    if found is None:
        missing = "cargo is not installed; install Rust 1.89 or newer, with clippy and rustfmt, to test sdk/rust"
        absent(missing)
    return Toolchain(found)


@pytest.fixture(scope="session")
def example(cargo: Toolchain) -> Callable[[str], Path]:
    """Builds the examples, and returns the program of one; the second build is short.

    With the same features everywhere, nothing is compiled twice.
    """
    done = cargo.run("build", "--release", "--all-features", "--examples")
    assert done.returncode == 0, done.stderr
    return lambda name: PROGRAMS / "examples" / name

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SDK = ROOT / "sdk" / "java"
REPOSITORY = ROOT / ".build" / "m2"


@dataclass(frozen=True)
class Toolchain:
    """Maven and Java, with a local repository in the checkout."""

    maven: str
    java: str

    def build(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs Maven on the SDK and its examples."""
        command = [
            self.maven,
            "--batch-mode",
            "--no-transfer-progress",
            "--quiet",
            f"-Dmaven.repo.local={REPOSITORY}",
            *arguments,
        ]
        return subprocess.run(command, cwd=SDK, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """Maven and Java."""
    found = {name: shutil.which(name) for name in ("mvn", "java", "javac")}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        text = f"{', '.join(missing)} is not installed; install a JDK 17 or newer and Maven to test sdk/java"
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)
    assert found["mvn"] is not None
    assert found["java"] is not None
    return Toolchain(found["mvn"], found["java"])


@pytest.fixture(scope="session")
def built(toolchain: Toolchain) -> subprocess.CompletedProcess[str]:
    """What one build of everything printed: formats, compiles, lints, tests, documents and packs."""
    return toolchain.build("verify")


@pytest.fixture(scope="session")
def example(toolchain: Toolchain, built: subprocess.CompletedProcess[str]) -> Callable[[str], list[str]]:
    """The command that runs an example, by the name of its class."""
    assert built.returncode == 0, built.stdout
    target = SDK / "examples" / "target"
    # A small heap and a quick start: tests start many of them.
    flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    classes = f"{target}/headrace-examples-0.1.0.jar:{target}/lib/*"
    return lambda name: [toolchain.java, *flags, "-cp", classes, f"io.headrace.examples.{name}"]

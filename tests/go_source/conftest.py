import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.fake_gateway.committing import CommittingGateway
from tests.go_source.processes import Program

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "examples" / "go-source"


@pytest.fixture(scope="session")
def go() -> str:
    """The Go toolchain."""
    found = shutil.which("go")
    if found is None:
        missing = "go is not installed; install Go 1.26 or newer to test examples/go-source"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@pytest.fixture(scope="session")
def go_binary(go: str) -> Path:
    """The built program; Go's own cache makes the second build short."""
    binary = ROOT / ".build" / "go-source"
    subprocess.run([go, "build", "-o", binary, "."], cwd=SOURCES, check=True)
    return binary


@pytest.fixture
def go_source(go_binary: Path, tmp_path: Path) -> Program:
    logs = tmp_path / "logs"
    logs.mkdir()
    return Program(go_binary, logs)


@pytest.fixture
async def gateway() -> AsyncIterator[CommittingGateway]:
    """A fake gateway; at the end of the test it must have nothing to complain of."""
    fake = CommittingGateway()
    await fake.start()
    yield fake
    await fake.stop()
    assert fake.violations == []

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.fake_gateway.committing import CommittingGateway
from tests.go_source.processes import Program
from tests.sdk.go.toolchain import ROOT, Toolchain, toolchain

SOURCES = ROOT / "sdk" / "examples" / "go-source"


@pytest.fixture(scope="session")
def go() -> Toolchain:
    """The Go toolchain."""
    return toolchain("sdk/examples/go-source")


@pytest.fixture(scope="session")
def go_binary(go: Toolchain) -> Path:
    """The built program."""
    return go.build(SOURCES)


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

import pytest
from tests.sdk.go.toolchain import ROOT, Toolchain, toolchain

SDK = ROOT / "sdk" / "go"


@pytest.fixture(scope="session")
def go() -> Toolchain:
    """The Go toolchain."""
    return toolchain("sdk/go")

"""examples/go_application is formatted, vetted and checked; tests/examples runs it on Spark."""

import pytest
from tests.sdk.go.toolchain import ROOT, STATICCHECK, Toolchain

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(4, 6)]


def test_it_is_formatted_vetted_and_checked(go: Toolchain) -> None:
    application = ROOT / "examples" / "go_application"
    assert go.unformatted(application) == ""
    for command in (["vet", "./..."], ["run", STATICCHECK, "./..."], ["mod", "verify"]):
        done = go.run(*command, folder=application)
        assert done.returncode == 0, done.stdout + done.stderr

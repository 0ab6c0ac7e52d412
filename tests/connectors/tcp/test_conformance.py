"""The source for TCP passes the conformance kit."""

import pytest
from tests.conformance.systems import judge
from tests.connectors.programs import free_port

pytestmark = pytest.mark.timeout(600)


def test_the_source_passes() -> None:
    # No client waits for it when it is started, and what it has received is lost with it: at most once.
    command = ["tcp", "--source=s", f"--listen=127.0.0.1:{free_port()}"]
    verdict = judge("source", command, {"kind": "redelivering"}, {}, jobs=1)

    assert verdict.failed == set(), verdict.explained()
    assert verdict.named("passed") >= {"kind", "shutdown"}

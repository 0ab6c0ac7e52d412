"""The source for TCP passes the conformance kit."""

import pytest
from tests.conformance.systems import judge

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(1)]


def test_the_source_passes() -> None:
    # No client waits for it when it is started, and what it has received is lost with it: best effort.
    command = ["tcp", "--source=s", "--listen=127.0.0.1:0"]
    verdict = judge("source", command, {"kind": "redelivering"}, {})

    assert verdict.failed == set(), verdict.explained()
    assert verdict.named("passed") >= {"kind", "shutdown"}

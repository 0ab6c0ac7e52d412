"""Each way to close too often, too early or never is caught, beside the fault that every check of `close` has."""

import asyncio
import tomllib

import pytest
from tests.conformance import in_process, test_sinks, test_sources
from tests.conformance.kit import Planted, judged_at_once
from tests.conformance.session_faults import CLOSE_FAULTS

from headrace.conformance.core.spec import SinkSpec, SourceSpec
from headrace.conformance.sinks import SINK_CHECKS
from headrace.conformance.sources import SOURCE_CHECKS

ONLY_OF_SOURCES = {"close-last/goodbye"}
"""A sink says Goodbye at once."""


def check_of(fault: str) -> str:
    """The check that must catch a fault."""
    return fault.partition("/")[0]


@pytest.mark.parametrize("fault", CLOSE_FAULTS)
def test_a_further_fault_of_a_source_is_caught(fault: str) -> None:
    spec = SourceSpec.model_validate(tomllib.loads(test_sources.SPECS["replayable"]))
    checks = tuple(check for check in SOURCE_CHECKS if check.name == check_of(fault))
    planted = [Planted(check_of(fault), spec, test_sources.command("replayable", fault), checks)]
    verdicts = asyncio.run(judged_at_once(planted, in_process.new_source_trial))
    assert verdicts[check_of(fault)].failed == {check_of(fault)}


@pytest.mark.parametrize("fault", sorted(CLOSE_FAULTS.keys() - ONLY_OF_SOURCES))
def test_a_further_fault_of_a_sink_is_caught(fault: str) -> None:
    spec = SinkSpec.model_validate({"mode": "two-phase", **test_sinks.DECLARED})
    checks = tuple(check for check in SINK_CHECKS if check.name == check_of(fault))
    planted = [Planted(check_of(fault), spec, test_sinks.command("two-phase", fault), checks)]
    verdicts = asyncio.run(judged_at_once(planted, in_process.new_sink_trial))
    assert verdicts[check_of(fault)].failed == {check_of(fault)}

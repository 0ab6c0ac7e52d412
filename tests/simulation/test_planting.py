"""Planting a fault changes a function wherever it was imported, and only until the block ends."""

import pytest
from tests.simulation.planted_faults import FAULTS, Fault
from tests.simulation.planting import Change, planted

from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.streams.stream import Stream

STREAM = "headrace.gateway.core.streams.stream:Stream.caught_up"


def test_a_function_is_changed_until_the_block_ends() -> None:
    stream = Stream("orders/0")
    stream.ended, stream.received = True, BEGINNING
    with planted(Change(STREAM, "return True", "return False")):
        assert not stream.caught_up()
    assert stream.caught_up()


def test_a_text_that_a_function_does_not_have_once_is_an_error() -> None:
    with pytest.raises(AssertionError, match="must have this text once"), planted(Change(STREAM, "nothing of the kind", "")):
        pass


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_planted_fault_fits_the_code(fault: Fault) -> None:
    with planted(*fault.changes):
        pass


def test_there_are_many_faults_each_with_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 30

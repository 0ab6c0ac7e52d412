"""The simulation finds each planted fault of the gateway, the SDK and the engine, within a number of schedules."""

import pytest
from tests.selection.turns import in_turns
from tests.simulation.planted_faults import FAULTS, Fault
from tests.simulation.planting import planted

from headrace.simulation.drawing import draw
from headrace.simulation.simulating import simulate


@pytest.mark.parametrize("fault", in_turns(FAULTS), ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault) -> None:
    with planted(*fault.changes):
        found = next((seed for seed in fault.seeds if _finds(fault, seed)), None)
    assert found is not None, f"no schedule of {fault.within} found it"
    assert not _finds(fault, found), "the schedule fails without the fault, too"
    print(f"{fault.name}: found by seed {found} --profile {fault.profile} --scale {fault.scale.name}")


def _finds(fault: Fault, seed: int) -> bool:
    return simulate(draw(str(seed), fault.profile, fault.scale)).violations != ()

"""Every test of a fault asks everywhere, from the fault to its end; and no place names a fault that there is not."""

import ast
from pathlib import Path

import pytest
from tests.health.flows import One, connected, querying
from tests.health.looks import LOOKS, Fault, Look
from tests.health.site import Site

OF_NO_FAULT = {
    "test_no_secret_and_no_message_is_in_anything_that_is_shown",
    # Nothing is wrong while a token is replaced in good order.
    "test_a_driver_takes_a_new_token_from_its_file_while_it_runs",
    # About the error of a query; the test before it is about the same outages while the query waits.
    "test_a_query_whose_sink_no_longer_waits_names_it_and_the_setting_and_loses_nothing",
}
"""The tests of this folder that are about something else."""


def test_every_test_of_a_fault_asks_everywhere_until_it_is_over() -> None:
    """`names` and `clears` ask all places: a new place is added to `LOOKS`, and to no test."""
    found = {
        test.name: {one.attr for one in ast.walk(test) if isinstance(one, ast.Attribute)}
        for module in Path(__file__).parent.glob("test_*.py")
        if module != Path(__file__)
        for test in ast.parse(module.read_text()).body
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith("test_")
    }
    assert found.keys() >= OF_NO_FAULT
    assert len(found) > len(OF_NO_FAULT)
    assert {name for name, calls in found.items() if not {"names", "clears"} <= calls} == OF_NO_FAULT


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.place)
async def test_no_place_names_a_fault_that_there_is_not(look: Look, here: Site) -> None:
    name = f"quiet-{look.place}"
    part, stream = f"stream {name}/0", f"{name}/0"
    async with querying(here, name), connected(here, One(name), stream):
        assert await look.lacks(here, Fault(part, "source-stalled", part, "it lags by", stream)) is not None
        assert await look.still(here, frozenset({part}), frozenset({stream})) is None

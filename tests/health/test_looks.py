"""Every test of a fault asks everywhere, from the fault to its end; and no place names a fault that there is not."""

import ast
from collections.abc import Iterator
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
FAULTS = Path(__file__).parents[1] / "faults"
BEFORE_ANYBODY_LOOKS = {
    # A process is killed and started again at once; what they are about is that nothing is lost or doubled.
    "test_kills.py", "test_many_kills.py", "test_join_kills.py", "test_clock_kills.py", "test_async_kills.py",
    "test_bootstrap_kills.py", "test_orderly_stops.py",
    # Nothing is wrong: a place is held, streams are named anew, acknowledgements are prompt, checkpoints are read.
    "test_leases.py", "test_narrowed_queries.py", "test_pipelines.py", "test_prompt_acks.py",
    # A bounded run ends with its error.
    "test_absent_streams.py",
}  # fmt: skip
"""The modules of `tests/faults` whose faults do not last."""
FAILED_QUERIES = {
    # The gateway is away, and cannot tell anything; the error of the query does.
    "test_a_gateway_that_is_away_for_too_long_fails_the_query",
    "test_a_gateway_that_is_away_in_a_batch_for_too_long_fails_the_query",
    "test_a_gateway_that_comes_back_in_time_is_waited_for",
    "test_a_query_may_start_before_its_gateway",
    # The same loss as in the test before each, where it is named, met in another place, or skipped, which is no fault.
    "test_messages_that_were_never_planned_are_skipped_on_request",
    "test_a_replay_that_is_lost_in_part_is_skipped_on_request",
    "test_a_replay_that_is_lost_as_a_whole_fails_the_query",
    "test_a_replay_that_was_lost_while_the_query_was_down_fails_it",
    "test_a_replay_that_is_lost_as_a_whole_is_skipped_on_request",
}
"""The other tests of `tests/faults` that do not ask everywhere."""


def test_every_test_of_a_fault_asks_everywhere_until_it_is_over() -> None:
    """`names` and `clears` ask all places: a new place is added to `LOOKS`, and to no test."""
    found = {test: calls for module in _modules(Path(__file__).parent) for test, calls in _tests(module)}
    assert found.keys() >= OF_NO_FAULT
    assert len(found) > len(OF_NO_FAULT)
    assert {name for name, calls in found.items() if not {"names", "clears"} <= calls} == OF_NO_FAULT


def test_every_test_that_injects_a_fault_which_lasts_asks_everywhere_until_it_is_over() -> None:
    modules = {module.name: dict(_tests(module)) for module in _modules(FAULTS)}
    assert modules.keys() > BEFORE_ANYBODY_LOOKS
    found = {test: calls for name, tests in modules.items() if name not in BEFORE_ANYBODY_LOOKS for test, calls in tests.items()}
    assert {test for test, calls in found.items() if not {"names", "clears"} <= calls} == FAILED_QUERIES
    assert len(found) > len(FAILED_QUERIES)


def _modules(folder: Path) -> list[Path]:
    return [module for module in folder.glob("test_*.py") if module != Path(__file__)]


def _tests(module: Path) -> Iterator[tuple[str, set[str]]]:
    """The tests of a module, each with the names of the methods that it calls."""
    for test in ast.parse(module.read_text()).body:
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith("test_"):
            yield test.name, {one.attr for one in ast.walk(test) if isinstance(one, ast.Attribute)}


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.place)
async def test_no_place_names_a_fault_that_there_is_not(look: Look, here: Site) -> None:
    name = f"quiet-{look.place}"
    part, stream = f"stream {name}/0", f"{name}/0"
    async with querying(here, name), connected(here, One(name), stream):
        assert await look.lacks(here, Fault(part, "source-stalled", part, "it lags by", stream)) is not None
        assert await look.still(here, frozenset({part}), frozenset({stream})) is None

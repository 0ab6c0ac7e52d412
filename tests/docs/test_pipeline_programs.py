"""The programs of the pages about pipelines run as they are printed. They say themselves what comes out."""

import pytest
from tests.docs.pages import blocks, codes, table, text

import headrace.pipelines
from headrace.pipelines import Late, OnError, Trial

PIPELINES = "docs/write/pipelines.md"
PROGRAMS = [*blocks(PIPELINES, "python"), *blocks("docs/write/lakes.md", "python")]


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=[program.heading for program in PROGRAMS])
def test_a_program_of_the_pages_about_pipelines(number: int) -> None:
    program = PROGRAMS[number].text
    assert "assert trial" in program
    names: dict[str, object] = {}
    exec(compile(program, PIPELINES, "exec"), names)
    for name, test in names.items():
        if name.startswith("test_") and callable(test):
            test()


def test_every_policy_is_told() -> None:
    assert [row[0] for row in table(PIPELINES, "Functions that raise")] == [f"`{policy}`" for policy in OnError]
    for policy in Late:
        assert f"- `{policy}`: " in text(PIPELINES)


def test_every_method_of_a_trial_is_told() -> None:
    told = {codes(row[0])[0].partition("(")[0] for row in table(PIPELINES, "Testing")}
    assert {name for name in vars(Trial) if not name.startswith("_")} - {"buckets"} <= told


def test_what_there_is_to_import_is_told() -> None:
    # Types that no application imports, and what belongs to columnar steps.
    others = {"Flow", "GraphError", "KeyStates", "KeyedFlow", "PipelineError", "Windowed", "Written"}
    assert {name for name in headrace.pipelines.__all__ if name not in text(PIPELINES)} <= others

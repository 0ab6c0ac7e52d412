"""The page about the simulation has its options and what can go wrong."""

from tests.docs.pages import spans, text

from headrace.simulation.__main__ import parser
from headrace.simulation.drawing import PROFILES

PAGE = "docs/internals/simulation.md"


def test_the_page_has_all_options_and_no_others() -> None:
    options = {option for action in parser()._actions for option in action.option_strings if option.startswith("--")}
    items = {line.split("`")[1] for line in text(PAGE).splitlines() if line.startswith("- `--")}
    assert items == options - {"--help"}


def test_the_page_has_all_profiles() -> None:
    assert set(PROFILES) <= set(spans(PAGE))

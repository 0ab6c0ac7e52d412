"""The page about the simulation has options and profiles that there are."""

import re

from tests.docs.pages import spans, text

from headrace.simulation.__main__ import parser
from headrace.simulation.drawing import PROFILES

PAGE = "docs/internals/simulation.md"


def test_the_page_has_only_options_that_there_are() -> None:
    options = {option for action in parser()._actions for option in action.option_strings}
    named = set(re.findall(r"--[a-z][a-z-]*", text(PAGE)))
    assert {"--help", "--profile", "--scale"} <= named <= options


def test_the_page_has_all_profiles() -> None:
    assert set(PROFILES) <= set(spans(PAGE))

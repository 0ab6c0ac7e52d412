"""Parameters of a test that come in turn: a run of all tests has one of each few."""

from collections.abc import Iterable
from typing import Any

import pytest
from tests.selection.choice import TURNS


def in_turns(values: Iterable[Any], of: int = TURNS) -> list[Any]:
    """Gives values for `parametrize` the mark `in_turn`, one number after the other; each run has one of `of` values."""
    return [pytest.param(value, marks=pytest.mark.in_turn(1 + place % of, of)) for place, value in enumerate(values)]

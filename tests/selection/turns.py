"""Parameters of a test that come in turn: of each three, a run of all tests has one."""

from collections.abc import Iterable
from typing import Any

import pytest
from tests.selection.choice import TURNS


def in_turns(values: Iterable[Any]) -> list[Any]:
    """Gives values for `parametrize` the mark `in_turn`, one number after the other."""
    return [pytest.param(value, marks=pytest.mark.in_turn(1 + place % TURNS)) for place, value in enumerate(values)]

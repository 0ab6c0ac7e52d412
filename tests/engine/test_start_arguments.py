"""Arguments with which no application can start are refused before a session is used."""

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headrace.engine import OptionError, start
from headrace.pipelines import Pipeline

ODD: list[Any] = [0, 5, 2.5, b"bytes", "", [None], object(), timedelta(seconds=5), str, {"gateway": 5}, {5: "gateway"}, "soon"]
CAN_BE: dict[str, Callable[[Any], bool]] = {
    "checkpoint": lambda odd: odd == "soon",
    "folder": lambda odd: odd == "soon",
    "drop_states": lambda odd: odd == {"gateway": 5},
    "migrate_states": lambda odd: odd == {"gateway": 5},
}
PARAMETERS = [name for name in inspect.signature(start).parameters if name != "spark"]


class Untouched:
    """A session that nothing may use."""

    def __getattr__(self, name: str) -> Any:
        pytest.fail(f"the session was asked for {name}")


def application() -> Pipeline:
    app = Pipeline("argued")
    app.source("s/*").sink("out")
    return app


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_an_argument_that_is_none_is_refused_by_name(parameter: str) -> None:
    for odd in ODD:
        if CAN_BE.get(parameter, lambda odd: False)(odd):
            continue
        arguments = {"pipeline": application(), "spark": Untouched(), "checkpoint": "checkpoint", parameter: odd}
        with pytest.raises(OptionError, match=rf"^({parameter}\b|option (gateway|5)\b.*text)"):
            start(**arguments)

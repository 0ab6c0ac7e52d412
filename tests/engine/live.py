"""An application whose results are parts of its states; a module of its own since each of Spark's Python processes imports it."""

import json
from typing import Any

from headrace.pipelines import OnError, Pipeline, collect


def add(number: int, state: dict[str, Any]) -> dict[str, Any]:
    state["sum"] = state.get("sum", 0) + number
    state.setdefault("numbers", []).append(number)
    return state


def last(value: dict[str, Any], state: dict[str, Any]) -> str:
    before = state.get("value")
    state["value"] = value
    return f"{before and before['numbers']} {value['numbers']}"


def spoiled(value: dict[str, Any]) -> str:
    value["numbers"].clear()
    return str(value["sum"])


def live(on_error: OnError = OnError.FAIL) -> Pipeline:
    app = Pipeline("live", on_error=on_error)
    numbers = app.source("n/*", decode=int)
    keyed = numbers.key_by(lambda n: n % 2, name="parity")
    added = keyed.stateful(add, dict, name="add")
    added.map(spoiled).sink("sums")
    added.stateful(last, dict, name="last").sink("last")
    added.key_by(lambda value: value["sum"] % 3, name="again").stateful(last, dict, name="last-again").sink("again")
    keyed.aggregate(collect(), name="all").sink("all", encode=lambda values: json.dumps(values).encode())
    return app

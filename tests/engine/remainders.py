"""Applications that count numbers by their remainder of seven.

Each of Spark's Python processes imports them; it would import a test module with all that its tests need, which takes a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.pipelines import Pipeline, total, tumbling


@dataclass
class Count:
    seen: int = 0


def count(number: int, state: Count) -> str:
    state.seen += 1
    return f"{number}:{state.seen}"


def counts() -> Pipeline:
    """Gives each number with its count."""
    app = Pipeline("counts")
    app.source("n/*", decode=int).key_by(lambda n: n % 7).stateful(count, Count, name="count").sink("out")
    return app


def count_key(number: int, state: Count) -> str:
    state.seen += 1
    return f"{number % 7}:{state.seen}"


def numbers(step: str = "count", size: str = "10 s") -> Pipeline:
    """Gives each key with its count, and sums by key in windows of ten seconds, a number being its own time in seconds."""
    app = Pipeline("numbers")
    timed = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000).key_by(lambda n: n % 7)
    timed.stateful(count_key, Count, name=step).sink("counts")
    timed.window(tumbling(size)).aggregate(total(), name="sums").map(str).sink("sums")
    return app


def sees(number: int, rows: Mapping[int, int]) -> str:
    return f"{number} {[*rows.items()]}"


def broadcast() -> Pipeline:
    """Gives each number with the last number of each remainder of four, up to it."""
    app = Pipeline("broadcast")
    seconds = 1_000_000
    rows = app.broadcast(
        "n/*", decode=int, key=lambda message: int(message.value) % 4, event_time=lambda message: int(message.value) * seconds
    )
    timed = app.source("n/*", decode=int, name="values").event_time(lambda n: n * seconds).key_by(lambda n: n % 7)
    timed.map_with(rows, sees).sink("seen")
    return app

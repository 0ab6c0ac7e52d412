"""Applications that count numbers by key, with one shuffle and with two."""

from dataclasses import dataclass

from headrace.pipelines import Pipeline


@dataclass
class Count:
    seen: int = 0


def number(payload: bytes) -> int:
    return int(payload.partition(b" ")[0])


def count(value: int, state: Count) -> str:
    state.seen += 1
    return f"{value % 5}:{state.seen}"


def again(value: str, state: Count) -> str:
    state.seen += 1
    return f"{value}:{state.seen}"


def one_level() -> Pipeline:
    app = Pipeline("counts")
    app.source("n/*", decode=number).key_by(lambda value: value % 5).stateful(count, Count, name="count").sink("out")
    return app


def two_levels() -> Pipeline:
    app = Pipeline("counts-again")
    counts = app.source("n/*", decode=number).key_by(lambda value: value % 5).stateful(count, Count, name="count")
    counts.key_by(lambda text: text[0]).stateful(again, Count, name="again").sink("out")
    return app

"""An application with two stages: keys are computed before the shuffle, and counted after it."""

from headrace.pipelines import Pipeline


def number(payload: bytes) -> int:
    return int(payload.split()[-1])


def count(value: int, seen: list[int]) -> str:
    seen.append(value)
    return f"{len(seen)} {value}"


app = Pipeline("counting")
numbers = app.source("n/*", decode=number).filter(lambda value: value >= 0, name="positive")
numbers.key_by(lambda value: value % 2, name="parity").stateful(count, list, name="count").sink("out")

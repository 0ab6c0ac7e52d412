"""What a driver reports as the reason why its run makes no progress."""

from pathlib import Path

from headrace.pipelines import Pipeline

ROOT = Path(__file__).parents[2]


def price(line: str) -> str:
    if line == "bad":
        raise ValueError("no price in 'bad'")
    return line


def priced() -> Pipeline:
    app = Pipeline("priced")
    app.source("n/*", decode=str).map(price).sink("out")
    return app

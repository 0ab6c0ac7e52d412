"""Applications whose functions take long; a module of its own since each of Spark's Python processes imports it."""

import os
import time

from headrace.pipelines import Pipeline

SECONDS = 0.005


def slow(number: int) -> tuple[int, float, int]:
    begun = time.time()
    time.sleep(SECONDS)
    return os.getpid(), begun, number


def slowly(number: int, count: list[int]) -> str:
    process, begun, _ = slow(number)
    count.append(number)
    return f"{process} {begun}"


def in_the_keyed_stage() -> Pipeline:
    app = Pipeline("slow-keyed")
    app.source("n/*", decode=int).key_by(lambda number: number % 16).stateful(slowly, list[int], name="slow").sink("out")
    return app


def before_the_keyed_stage() -> Pipeline:
    app = Pipeline("slow-before")
    app.source("n/*", decode=int).map(slow).map(lambda found: f"{found[0]} {found[1]}").sink("out")
    return app

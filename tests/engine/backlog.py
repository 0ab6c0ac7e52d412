"""Applications with windows; a module of their own since each of Spark's Python processes imports it."""

from headrace.pipelines import Pipeline, Window, count, tumbling

SECOND = 1_000_000
STREAMS = 4


def described(key: object, values: int, window: Window) -> str:
    return f"{window.start // SECOND} {values}"


def hours() -> Pipeline:
    """Windows of an hour of all streams: directly, and of windows of half an hour."""
    app = Pipeline("backlog")
    seconds = app.source("n/*", decode=int, await_streams=STREAMS).event_time(lambda value: value * SECOND, name="time")
    keyed = seconds.key_by(lambda _: "all", name="all")
    keyed.window(tumbling("1 hour")).aggregate(count(), output=described, name="hours").sink("hours")
    halves = keyed.window(tumbling("30 minutes")).aggregate(count(), name="halves")
    later = halves.key_by(lambda _: "all", name="again").window(tumbling("1 hour"))
    later.aggregate(count(), output=described, name="later").sink("later")
    return app


def add(values: list[int], value: int) -> list[int]:
    return [*values, value]


def closed(key: bytes, values: list[int], window: Window) -> str:
    return f"{window.start // SECOND}:{sum(values)}"


def sums_of_tens() -> Pipeline:
    """The sum of each window of ten seconds, a number being its own time in seconds."""
    app = Pipeline("real-time-windows")
    values = app.source("n/*", decode=int).event_time(lambda n: n * SECOND, name="time").key_by(lambda n: b"", name="all")
    values.window(tumbling("10s")).aggregate(initial=list[int], update=add, output=closed, name="sums").sink("out")
    return app

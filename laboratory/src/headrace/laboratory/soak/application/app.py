"""Counts the messages of each key: after the first round of the keys, its state has a fixed size."""

from dataclasses import dataclass

from headrace.pipelines import Pipeline

EVERY = 32
"""One of this many messages of a key is passed on to the sink."""


@dataclass(slots=True)
class Count:
    """The state of a key."""

    n: int = 0


def count(message: bytes, state: Count) -> bytes | None:
    """Counts a message, and passes on every 32nd of its key."""
    state.n = (state.n + 1) % EVERY
    return None if state.n else message


app = Pipeline("headrace-soak")
app.source("soak/*", decode=bytes).key_by().stateful(count, Count, name="counts").sink("soak")

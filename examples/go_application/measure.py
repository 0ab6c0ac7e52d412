"""Measures the program against the same step in Python, in one process and without Spark: `python measure.py`."""

import random
import sys
import time
from dataclasses import dataclass

from app import app

from headrace.pipelines import Flow, Message, Pipeline, Trial

_MESSAGES = 200_000
_SMALL = 20_000
"""The number of messages where each is sent alone."""


@dataclass
class Votes:
    """The state of a candidate, in Python."""

    count: int = 0
    last: bytes | None = None


def count(vote: Message, votes: Votes) -> bytes:
    """Counts a vote."""
    votes.count += 1
    votes.last = vote.value
    return b"%s %d" % (vote.key, votes.count)


def in_python() -> Pipeline:
    """Returns the step in Python."""
    pipeline = Pipeline("election")
    votes: Flow[Message] = pipeline.source("votes/*")
    votes.key_by().stateful(count, Votes, name="votes").sink("totals")
    return pipeline


def in_go() -> Pipeline:
    """Returns the step in Go, for messages with keys."""
    pipeline = Pipeline("election")
    votes: Flow[Message] = pipeline.source("votes/*")
    totals = votes.key_by().stateful_program([f"{app.folder}/votes"], state=["count", "last"], name="votes")
    totals.sink("totals")
    return pipeline


def rate(pipeline: Pipeline, keys: int, block: int) -> float:
    """Returns the messages per second, in micro-batches of this size."""
    choose = random.Random(1)
    messages = [
        Message(b"voter-%06d" % number, b"candidate-%d" % choose.randrange(keys), number, "votes/0", number + 1)
        for number in range(_SMALL if block == 1 else _MESSAGES)
    ]
    trial = Trial(pipeline)
    trial.send(messages[0])
    began = time.perf_counter()
    for at in range(0, len(messages), block):
        trial.send(*messages[at : at + block])
    return len(messages) / (time.perf_counter() - began)


if __name__ == "__main__":
    print(f"{'keys':>8}{'block':>8}{'Go/s':>12}{'Python/s':>12}", file=sys.stderr)
    for number in (100, 100_000):
        for size in (1, 100, 1_000, 4_000):
            print(f"{number:8,}{size:8,}{rate(in_go(), number, size):12,.0f}{rate(in_python(), number, size):12,.0f}")

"""The Spark driver, a process of its own: `python -m tests.broker_crashes.query FOLDER GATEWAY MESSAGES PAIR...`.

It runs one query for all pairs, since each costs Spark several processes, and starts it again where it has failed, as whoever
runs queries does. MESSAGES is how many a micro-batch has at most, of all pairs. The name of a pair of which repeats are to be
dropped ends with `!`, the name of one whose messages have no key with `?`.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery
from tests.broker_crashes.workload import DEDUPLICATES, HAS_NO_KEY, Row, State, key_of

from headrace.engine import build_session, start
from headrace.pipelines import Message, Pipeline

_SETTINGS: dict[str, str | int | bool] = {
    "spark.sql.shuffle.partitions": 1,
    "spark.log.level": "ERROR",
    "spark.ui.enabled": False,
}
_LOOKS_EVERY_S = 0.1


@dataclass
class Followed:
    """The state of a key.

    Attributes:
        state: Its count and checksum.
        seen: The ids of its messages, where repeats are dropped.
    """

    state: State = field(default_factory=State)
    seen: set[str] = field(default_factory=set)


def follow(message: Message, followed: Followed) -> Row:
    """Counts a message; the row that it makes."""
    assert message.value is not None
    followed.state = followed.state.after(message.value)
    return Row.of(key_in_value(message), message.value, followed.state)


def key_in_value(message: Message) -> str:
    """The key of a message, which follows from the number in its value."""
    assert message.value is not None
    return key_of(int(message.value.split(b" ")[0]))


def follow_once(message: Message, followed: Followed) -> Row | None:
    """The same, unless the source has given it before."""
    assert message.message_id is not None
    if message.message_id in followed.seen:
        return None
    followed.seen.add(message.message_id)
    return follow(message, followed)


def application(pairs: Sequence[str]) -> Pipeline:
    """The query: what each source gives goes to its sink."""
    app = Pipeline("crashes")
    for pair in pairs:
        name = pair.rstrip(DEDUPLICATES + HAS_NO_KEY)
        messages = app.source(f"{name}/*", name=f"{name}-messages")
        keyed = messages.key_by(key_in_value) if HAS_NO_KEY in pair else messages.key_by()
        function = follow_once if DEDUPLICATES in pair else follow
        rows = keyed.stateful(function, Followed, name=f"{name}-follow")
        rows.sink(f"{name}-results", encode=Row.encode)
    return app


def main(folder: str, gateway: str, max_messages: str, *pairs: str) -> None:
    """Runs the query until SIGTERM comes, or whoever started this is gone."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    parent = os.getppid()
    options = {"gateway": gateway, "maxMessagesPerTrigger": max_messages}
    spark = build_session("broker crashes", "local[2]", _SETTINGS, quick_start=True)
    query: StreamingQuery | None = None
    while not stop.wait(_LOOKS_EVERY_S) and os.getppid() == parent:
        if query is not None and query.isActive:
            continue
        if query is not None:
            print(f"the query has failed: {query.exception()}", flush=True)
            query = None
        try:
            query = start(application(pairs), spark, Path(folder, "checkpoint"), options=options)
        except (PySparkException, Py4JError) as error:
            # Spark gives each of its Python processes ten seconds to come up: little, where the machine is busy.
            print(f"the query has not started: {error}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

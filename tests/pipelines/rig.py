"""Messages with keys and times, short to write, and batches of them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from headrace.pipelines import Flow, KeyedFlow, Message, OnError, Pipeline, Trial

SECOND = 1_000_000


class Value(NamedTuple):
    """The class of the messages of these tests; `number` is what is counted with."""

    key: str
    second: int | None
    number: int


def message(text: str, stream: str = "s/0") -> Message:
    """The message of `key@second` or `key@second=number`; without a time, `key@`."""
    event, _, number = text.partition("=")
    key, _, second = event.partition("@")
    return Message(f"{key}@{second}={number or 1}".encode(), key.encode(), None, stream)


def messages(text: str, stream: str = "s/0") -> list[Message]:
    """The messages of such texts, separated by spaces."""
    return [message(word, stream) for word in text.split()]


def decode(payload: bytes) -> Value:
    event, _, number = payload.decode().partition("=")
    key, _, second = event.partition("@")
    return Value(key, int(second) if second else None, int(number))


def read(app: Pipeline, streams: str = "s/*") -> Flow[Value]:
    """The values of streams, with their times."""
    return app.source(streams, decode=decode).event_time(
        lambda value: None if value.second is None else value.second * SECOND, name="event-time"
    )


def keyed(app: Pipeline, streams: str = "s/*") -> KeyedFlow[int]:
    """Their numbers by key."""
    return read(app, streams).key_by(lambda value: value.key, name="by-key").map(lambda value: value.number, name="number")


def pipeline(on_error: OnError = OnError.FAIL) -> Pipeline:
    return Pipeline("test", on_error=on_error, dead_letters="failed" if on_error is OnError.DEAD_LETTER else None)


def text(value: object) -> bytes:
    return str(value).encode()


def sent(app: Pipeline, *batches: str, buckets: int = 1, finish: bool = False) -> Trial:
    """A trial that got messages of one stream in batches."""
    trial = Trial(app, buckets=buckets)
    for batch in batches:
        trial.send(*messages(batch))
    if finish:
        trial.finish()
    return trial


def lines(trial: Trial, sink: str = "out") -> list[str]:
    """What a sink got, with the keys: `key value`."""
    return [f"{written.key} {written.value.decode()}" for written in trial.written[sink]]


def by_key(written: Iterable[tuple[object, object]]) -> dict[object, list[object]]:
    """Values of each key in their order."""
    found: defaultdict[object, list[object]] = defaultdict(list)
    for key, value in written:
        found[key].append(value)
    return dict(found)


def cut(whole: Sequence[Message], ends: Iterable[int]) -> list[list[Message]]:
    """Messages in batches that end at some places."""
    places = sorted({0, len(whole), *(end % (len(whole) + 1) for end in ends)})
    return [list(whole[a:b]) for a, b in pairwise(places)]

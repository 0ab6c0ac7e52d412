"""One of the two queries, as a pipeline: it writes the same rows as the other one, with Headrace's own keyed state."""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.laboratory.chaos.workload import AFTER, REDELIVERING, REPLAYABLE, TIMERS, WINDOW, WINDOWS, Row, State
from headrace.pipelines import Context, Flow, Message, Pipeline, Window, tumbling

_SECOND = 1_000_000


@dataclass
class Followed:
    """The state of a key.

    Attributes:
        state: Its count and checksum.
        seen: The ids of the queue's messages so far, to drop redeliveries.
    """

    state: State = field(default_factory=State)
    seen: set[str] = field(default_factory=set)


def follow(message: Message, followed: Followed) -> Row | None:
    """Counts a message and updates the checksum, unless it is a redelivery. Returns its row."""
    if message.message_id is not None:
        if message.message_id in followed.seen:
            return None
        followed.seen.add(message.message_id)
    key, value = message.key or b"", message.value or b""
    followed.state = followed.state.after(value)
    return Row(message.stream, message.message_id or str(message.sequence), key, -1, followed.state, value)


@dataclass
class Timed:
    """The number of timers that were set for a key."""

    timers: int = 0


def set_timer(message: Message, timed: Timed, context: Context) -> None:
    """Sets a timer for each message."""
    timed.timers += 1
    context.set_timer(after=f"{AFTER}s")


def ring(timed: Timed, context: Context) -> Row:
    """Returns the row of a timer that has fired."""
    return Row(TIMERS, str((context.event_time or 0) // _SECOND), context.key, -1, State(), b"")


@dataclass
class Gathered:
    """The accumulator of a window."""

    state: State = field(default_factory=State)


def gather(gathered: Gathered, message: Message) -> Gathered:
    """Adds a message to a window."""
    gathered.state = gathered.state.after(message.value or b"")
    return gathered


def close(key: bytes, gathered: Gathered, window: Window) -> Row:
    """Returns the row of a closed window."""
    return Row(WINDOWS, str(window.start // _SECOND), key, -1, gathered.state, b"")


def application(sink: str, batch: Callable[[], int]) -> Pipeline:
    """Builds the pipeline that writes to a sink; `batch` returns the current micro-batch, which rows contain."""

    def encode(row: Row) -> bytes:
        return Row(row.stream, row.name, row.key, batch(), row.state, row.value).encode()

    app = Pipeline(sink)
    messages: Flow[Message] = app.source(f"{REPLAYABLE}/*,{REDELIVERING}/*", name="messages")
    rows = messages.key_by().stateful(follow, Followed, name="follow")
    rows.sink(sink, encode)
    again: Flow[Message] = app.source(f"{REPLAYABLE}/*", name="timed")
    timed = again.event_time(lambda message: message.sequence * _SECOND, name="sequences").key_by(name="by-key")
    timed.window(tumbling(f"{WINDOW}s")).aggregate(initial=Gathered, update=gather, output=close, name=WINDOWS).sink(sink, encode)
    timed.stateful(set_timer, Timed, on_timer=ring, name=TIMERS).sink(sink, encode)
    return app

"""The application of these tests, which `headrace run` loads: a count and a checksum for each key of each stream."""

from dataclasses import dataclass, field

from headrace.laboratory.chaos.workload import State
from headrace.pipelines import Message, Pipeline

KEPT, TOLD = "kept", "told"
"""The sinks: a two-phase one, and one that writes at least once."""


@dataclass
class Followed:
    """The state of a key."""

    state: State = field(default_factory=State)


def key_of(message: Message) -> str:
    """The streams have the same keys, whose messages arrive in any order."""
    return f"{message.stream} {(message.key or b'').decode()}"


def follow(message: Message, followed: Followed) -> bytes:
    """Counts a message and updates the checksum; returns both, with the message."""
    value = message.value or b""
    followed.state = now = followed.state.after(value)
    return b"%s %d %s %d %d %s" % (
        message.stream.encode(),
        message.sequence,
        message.key or b"",
        now.count,
        now.checksum,
        value,
    )


app = Pipeline("real-time")
rows = app.source("numbers/*", name="numbers").key_by(key_of).stateful(follow, Followed, name="follow")
rows.sink(KEPT)
rows.sink(TOLD)

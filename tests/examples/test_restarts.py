"""Every example continues where it was when it is stopped and started again: its states can be stored and read back."""

from typing import Any

import pytest
from tests.examples.loading import Example

from headrace.pipelines import Message, Trial


def market(example: Any) -> list[Message]:
    feed = example.feed.Feed(rejected=0.01)
    blocks = [("nbbo", feed.nbbo(0)), ("orders", feed.orders(0))]
    return [Message(value, key, stream=f"market/{name}") for name, block in blocks for key, value in block.messages()[:1000]]


def fed(example: Any, stream: str, rows: str) -> list[Message]:
    payloads = [row if isinstance(row, bytes) else row.encode() for row in getattr(example.feed, rows)(1000)]
    return [Message(payload, stream=stream) for payload in payloads]


@pytest.mark.parametrize(
    ("name", "stream", "rows"),
    [
        ("alerts", "sensors/0", "lines"),
        ("alphabet", "votes/0", "records"),
        ("flights", "flights/0", "lines"),
        ("market_spread", None, None),
        ("word_count", "lines/0", "lines"),
    ],
)
def test_a_restart_changes_nothing(name: str, stream: str, rows: str) -> None:
    example = Example(name)
    messages = fed(example, stream, rows) if stream else market(example)
    found = []
    for restart in (False, True):
        trial = Trial(example.app.app)
        for at in range(0, len(messages), 250):
            trial.send(*messages[at : at + 250])
            if restart:
                trial.restart()
        trial.finish()
        found.append({sink: trial.written[sink] for sink in sorted(trial.written)})
    assert found[0]
    assert found[0] == found[1]

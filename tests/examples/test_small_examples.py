"""Word count, celsius and alphabet on their feeds, each against a plain computation."""

import struct
from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest
from tests.examples.loading import Example

from headrace.pipelines import Message, Pipeline, StepError, Trial


def run(app: Pipeline, stream: str, payloads: Iterable[bytes], batch: int = 300) -> Trial:
    trial, waiting = Trial(app), [Message(payload, stream=stream) for payload in payloads]
    for at in range(0, len(waiting), batch):
        trial.send(*waiting[at : at + batch])
    return trial


def last_of_each(lines: Iterable[bytes]) -> dict[str, int]:
    return {word: int(count) for word, _, count in (line.decode().partition(" ") for line in lines)}


def test_celsius_gives_a_line_for_each() -> None:
    example = Example("celsius")
    fed = example.feed.lines(2000)
    trial = run(example.app.app, "celsius/celsius.txt", [line.encode() for line in fed])
    # In whole tenths: 9 C = 5 (F - 32).
    tenths = [round(float(line) * 10) for line in fed]
    assert [round(float(value) * 50) for value in trial.values("fahrenheit")] == [
        round((9 * tenth + 1600) / 5) * 5 for tenth in tenths
    ]


@pytest.mark.parametrize(("celsius", "fahrenheit"), [(b"0", b"32.0"), (b"100", b"212.0"), (b"-40", b"-40.0"), (b"37", b"98.6")])
def test_celsius_where_the_answer_is_known(celsius: bytes, fahrenheit: bytes) -> None:
    assert run(Example("celsius").app.app, "celsius/0", [celsius]).values("fahrenheit") == [fahrenheit]


def test_a_line_that_is_no_temperature_is_named() -> None:
    with pytest.raises(StepError, match=r"pipeline celsius, step celsius/\*, stream celsius/0, sequence 2: ValueError"):
        run(Example("celsius").app.app, "celsius/0", [b"20.5", b"warm"])


def test_word_count_counts_every_word_as_it_comes() -> None:
    example = Example("word_count")
    fed = example.feed.lines(1000)
    words = [word.strip(".").lower() for line in fed for word in line.split()]
    assert len(set(words)) > 1000, "a feed with few words would show little"
    trial = run(example.app.app, "lines/lines.txt", [line.encode() for line in fed])
    seen: defaultdict[str, list[int]] = defaultdict(list)
    for value in trial.values("counts"):
        word, _, count = value.decode().partition(" ")
        seen[word].append(int(count))
    assert seen == {word: list(range(1, total + 1)) for word, total in Counter(words).items()}
    assert {key: tally.seen for key, tally in trial.states("tallies").items()} == Counter(words)


def test_word_count_goes_by_words_not_by_how_they_are_written() -> None:
    trial = run(Example("word_count").app.app, "lines/0", [b"The mill, the MILL -- don't!", b"", b"don't"])
    assert last_of_each(trial.values("counts")) == {"the": 2, "mill": 2, "don't": 2}


def test_alphabet_adds_up_the_votes_of_each_letter() -> None:
    example = Example("alphabet")
    fed = example.feed.records(3000)
    trial = run(example.app.app, "votes/votes.msg", fed)
    totals: Counter[bytes] = Counter()
    running = defaultdict(list)
    for record in fed:
        totals[record[:1]] += int.from_bytes(record[1:], "big")
        running[record[:1]].append(totals[record[:1]])
    assert len(totals) == 26
    found = defaultdict(list)
    for letter, total in (struct.unpack(">cQ", value) for value in trial.values("totals")):
        found[letter].append(total)
    assert found == running


@pytest.mark.parametrize(("example", "rows"), [("celsius", "lines"), ("word_count", "lines"), ("alphabet", "records")])
def test_feeds_are_the_same_every_time(example: str, rows: str) -> None:
    one, other = (getattr(Example(example).feed, rows)(100) for _ in range(2))
    assert one == other
    assert getattr(Example(example).feed, rows)(40) == one[:40], "a longer feed continues where a shorter one ends"

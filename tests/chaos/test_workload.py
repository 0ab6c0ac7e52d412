"""What senders, query and validator agree on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.laboratory.chaos.application import application
from headrace.laboratory.chaos.workload import (
    PARTITIONS,
    REPLAYABLE,
    STREAMS,
    TIMERS,
    WINDOWS,
    Row,
    State,
    content,
    due,
    model,
    name_of,
    number_at,
    number_of,
    sequence_of,
)
from headrace.pipelines import Message, Trial


def test_sequences_have_gaps_and_lead_back_to_their_numbers() -> None:
    sequences = [sequence_of(number) for number in range(1, 200)]
    assert sequences == sorted(set(sequences))
    assert len(set(range(1, sequences[-1])) - set(sequences)) > 20
    assert [number_at(sequence) for sequence in sequences] == list(range(1, 200))


def test_a_missing_sequence_leads_to_the_message_before_it() -> None:
    sequences = {sequence_of(number): number for number in range(1, 200)}
    for sequence in range(1, sequence_of(199)):
        assert number_at(sequence) == max(number for at, number in sequences.items() if at <= sequence)


@pytest.mark.parametrize("stream", STREAMS)
def test_names_lead_back_to_numbers_and_messages_differ(stream: str) -> None:
    assert [number_of(stream, name_of(stream, number)) for number in range(1, 50)] == list(range(1, 50))
    contents = [content(stream, number) for number in range(1, 50)]
    assert len({sent.value for sent in contents}) > 45
    assert 2 <= len({sent.key for sent in contents}) <= 5


@given(st.binary(), st.binary(), st.integers(0, 2**31), st.integers(0, 2**31))
def test_a_row_is_read_as_it_was_written(key: bytes, value: bytes, batch: int, count: int) -> None:
    row = Row("replayable/3", "17", key, batch, State(count, 5), value)
    assert Row.decode(row.encode()) == row


@pytest.mark.parametrize("data", [b"", b"replayable/3 17", b"a b c\nvalue", b"a b zz 1 2 3\nvalue", b"\xff\n"])
def test_what_is_no_row_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever its words
        Row.decode(data)


def test_the_state_depends_on_every_value_and_on_their_order() -> None:
    def state(*values: bytes) -> State:
        now = State()
        for value in values:
            now = now.after(value)
        return now

    assert len({state(b"ab", b"c"), state(b"a", b"bc"), state(b"c", b"ab"), state(b"ab"), state()}) == 5


def test_the_model_counts_each_key_on_its_own() -> None:
    found = list(model(STREAMS[0], 100))
    last = {sent.key: state for _, sent, state in found}
    assert sum(state.count for state in last.values()) == 100


@pytest.mark.parametrize("size", [3, 40])
def test_the_pipeline_gives_what_the_model_says(size: int) -> None:
    trial = Trial(application("two-phase", lambda: 7), buckets=2)
    sent = {stream: [(number, content(stream, number)) for number in range(1, 81)] for stream in STREAMS}
    for at in range(0, 80, size):
        for stream, some in sent.items():
            ids = [None if stream.startswith(REPLAYABLE) else name_of(stream, number) for number, _ in some[at : at + size]]
            trial.send(
                *(
                    Message(content.value, content.key, None, stream, sequence_of(number), id_)
                    for (number, content), id_ in zip(some[at : at + size], ids, strict=True)
                )
            )
        trial.restart()
    rows = [Row.decode(value) for value in trial.values("two-phase")]
    expected = [
        Row(stream, name, sent.key, 7, state, sent.value) for stream in STREAMS for name, sent, state in model(stream, 80)
    ]
    for partition in PARTITIONS:
        timed = due(f"{REPLAYABLE}/{partition}", 80)
        expected += [Row(kind, name, key, 7, state, b"") for kind, name, key, state in timed]
    assert sorted(map(str, rows)) == sorted(map(str, expected))
    assert {row.stream for row in rows} == {*STREAMS, WINDOWS, TIMERS}

"""Messages that wait in real-time mode: each is taken once, in order, in slices that take about the same time."""

import random

import pytest
from tests.engine.frames import Message, frame

from headrace.engine.applications.real_time.arrivals import MAX_MESSAGES, SLICE_BYTES, SLICE_S, Arrivals
from headrace.engine.applications.real_time.following import Arrived
from headrace.engine.checkpoint.position import Position
from headrace.engine.codec import columns, record_batch, sequences_of


def arrived(stream: str, messages: list[Message], cursor: bytes | None = None) -> Arrived:
    made = columns(stream, frame(messages))
    return Arrived(made, Position(0, made.last, cursor))


def many(first: int, count: int, size: int = 10) -> Arrived:
    return arrived("n/0", [Message(n, b"x" * size) for n in range(first, first + count)])


def process(arrivals: Arrivals, seconds_each: float) -> list[int]:
    """The sizes of slices if each message takes so long."""
    sizes = []
    while arrivals:
        taken = sum(each.frame.rows for each in arrivals.take())
        arrivals.took(taken, taken * seconds_each)
        sizes.append(taken)
    return sizes


@pytest.mark.parametrize("seed", range(20))
def test_every_message_is_taken_once_in_order_and_positions_and_cursors_fit(seed: int) -> None:
    chance = random.Random(seed)
    arrivals = Arrivals()
    sent: list[tuple[str, int, bytes]] = []
    taken: list[tuple[str, int, bytes]] = []
    cursors: dict[str, dict[int, bytes | None]] = {"n/0": {}, "n/1": {}}
    at = {"n/0": 0, "n/1": 7}

    def take() -> None:
        slice_ = arrivals.take()
        for part in slice_:
            stream = part.frame.stream
            sequences = sequences_of(part.frame).tolist()
            values = record_batch([part.frame]).column("value").to_pylist()
            taken.extend((stream, sequence, value) for sequence, value in zip(sequences, values, strict=True))
            assert part.end.sequence == part.frame.last == sequences[-1]
            assert part.end.cursor == cursors[stream].get(sequences[-1])
        arrivals.took(sum(part.frame.rows for part in slice_), chance.choice([1e-6, 0.001, 0.1, 3.0]))

    for _ in range(60):
        stream = chance.choice(["n/0", "n/1"])
        messages = []
        for _ in range(chance.choice([1, 3, 40, 400])):
            at[stream] += chance.choice([1, 1, 5])
            messages.append(Message(at[stream], chance.randbytes(chance.choice([0, 5, 300])), headers=(("h", b"v"),)))
        cursor = chance.choice([None, b"%d" % at[stream]])
        cursors[stream][at[stream]] = cursor
        arrivals.put([arrived(stream, messages, cursor)])
        sent += ((stream, message.sequence, message.value or b"") for message in messages)
        while chance.random() < 0.5 and arrivals:
            take()
    while arrivals:
        take()
    assert taken == sent
    assert arrivals.bytes == 0


@pytest.mark.parametrize("seconds_each", [1e-6, 1e-4, 0.002, 0.5])
def test_slices_take_about_the_same_time_however_slow_a_function_is(seconds_each: float) -> None:
    arrivals = Arrivals()
    arrivals.put([many(1 + 1000 * n, 1000) for n in range(50 if seconds_each < 0.001 else 1)])
    sizes = process(arrivals, seconds_each)
    assert max(sizes[1:]) <= max(1, SLICE_S / seconds_each)
    assert max(sizes) >= min(max(1, SLICE_S / seconds_each), MAX_MESSAGES, 16_384) * 0.9


def test_a_function_that_becomes_slow_shortens_the_next_slice() -> None:
    arrivals = Arrivals()
    arrivals.put([many(1, 20_000)])
    for _ in range(10):
        taken = sum(each.frame.rows for each in arrivals.take())
        arrivals.took(taken, taken * 1e-5)
    assert taken == 2_500
    arrivals.took(taken, taken * 0.01)
    assert sum(each.frame.rows for each in arrivals.take()) == 2


def test_a_slice_of_large_messages_is_small() -> None:
    arrivals = Arrivals()
    arrivals.put([many(1, 100, 300_000)])
    arrivals.took(1_000_000, 1e-6)
    first = arrivals.take()
    assert sum(len(each.frame.values) for each in first) <= SLICE_BYTES + 300_000
    arrivals.put([many(101, 1, 5 * SLICE_BYTES)])
    assert sum(process(arrivals, 1e-6)) + sum(each.frame.rows for each in first) == 101

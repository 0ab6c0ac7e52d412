"""What a process does is recorded where others can read it: the step, the stream and the message of each call."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.pipelines.test_exits import STEPS, application, numbers

from headrace.pipelines import Message, OnError, Pipeline, StepError, Trial, tumbling
from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.elements.message import Origin
from headrace.pipelines.execution.call_record import RECORD_BYTES, CallRecord, call_record


@pytest.fixture
def memory() -> Iterator[bytearray]:
    memory = bytearray(RECORD_BYTES)
    call_record().keep_in(memory)
    yield memory
    call_record().keep_in(None)


def text(memory: bytearray) -> str:
    assert len(memory) == RECORD_BYTES
    assert memory.endswith(b"\n")
    return memory.decode().strip()


@pytest.mark.parametrize("step", STEPS)
def test_each_call_names_the_step_the_stream_and_the_message(step: str, memory: bytearray) -> None:
    seen: list[str] = []
    Trial(application(step, lambda: seen.append(text(memory)), OnError.FAIL)).send(*numbers(*range(40), 7))
    assert seen == [f"pipeline exits, step step, stream n/0, sequence {sequence}" for sequence in (8, 41)]
    assert text(memory) == ""


def test_a_step_that_fails_leaves_nothing_behind(memory: bytearray) -> None:
    def fail() -> None:
        raise ValueError

    with pytest.raises(StepError):
        Trial(application("map", fail, OnError.FAIL)).send(*numbers(7))
    assert text(memory) == ""


def test_a_window_that_closes_names_the_step(memory: bytearray) -> None:
    seen: list[str] = []

    def closed(key: Any, values: list[int], window: Any) -> int:
        seen.append(text(memory))
        return 0

    app = Pipeline("windows")
    values = app.source("n/*", decode=int).event_time(lambda n: n * 1_000_000, name="time").key_by(lambda _: 0, name="all")
    values.window(tumbling("1 s")).aggregate(initial=list, update=lambda all_, n: all_, output=closed, name="sums").sink(
        "out", encode=lambda n: b""
    )
    trial = Trial(app)
    trial.send(Message(b"1", stream="n/0"))
    trial.finish()
    assert seen == ["pipeline windows, step sums, timers and windows that are due"]


def elements(sequences: list[int], at: list[int] | None = None) -> Elements:
    origin = Origin("n/0", np.array(sequences, np.int64))
    return Elements([None] * len(sequences if at is None else at), origin, at)


SEQUENCES: dict[str, Callable[[random.Random], Iterator[int]]] = {
    "from zero": lambda chance: iter(range(300)),
    "with gaps": lambda chance: iter(sorted(chance.sample(range(10**8), 200))),
    "few": lambda chance: iter(sorted(chance.sample(range(10**8), 5))),
    "one": lambda chance: iter([chance.randrange(2**63)]),
    "large with the same leading digits": lambda chance: iter(sorted(17 * 10**15 + n for n in chance.sample(range(10**8), 200))),
    "around a leading digit": lambda chance: iter(range(10**8 - 100, 10**8 + 100)),
    "anything": lambda chance: iter(sorted({chance.randrange(2**62) for _ in range(100)})),
}


@pytest.mark.parametrize("kind", SEQUENCES)
@pytest.mark.parametrize("seed", range(5))
def test_every_note_is_the_sequence_of_its_element(kind: str, seed: int) -> None:
    chance, record, memory = random.Random(seed), CallRecord(), bytearray(RECORD_BYTES)
    record.keep_in(memory)
    sequences = list(SEQUENCES[kind](chance))
    for at in (None, sorted(chance.choices(range(len(sequences)), k=2 * len(sequences)))):
        given = elements(sequences, at)
        record.begin("app", "step", given)
        cell, notes = record.notes("app", "step", given)
        expected = sequences if at is None else [sequences[place] for place in at]
        found = []
        for cell[0] in notes:
            found.append(text(memory))
        assert found == [f"pipeline app, step step, stream n/0, sequence {sequence}" for sequence in expected]


def test_elements_of_a_step_without_notes_are_named_by_their_range(memory: bytearray) -> None:
    record = call_record()
    record.begin("app", "columns", elements([5, 6, 90]))
    assert text(memory) == "pipeline app, step columns, stream n/0, sequences 5 to 90"
    record.begin("app", "columns", elements([5, 6, 90], [1, 1]))
    assert text(memory) == "pipeline app, step columns, stream n/0, sequence 6"


def test_names_that_are_too_long_are_cut_between_characters(memory: bytearray) -> None:
    record = call_record()
    record.begin("\N{SNOWMAN}" * 300, "step", elements([2**62]))
    assert text(memory).startswith("pipeline \N{SNOWMAN}\N{SNOWMAN}")
    assert text(memory).endswith(f"sequence {2**62}")


def test_nothing_is_recorded_without_memory() -> None:
    record = CallRecord()
    record.begin("app", "step", elements([1, 2]))
    cell, notes = record.notes("app", "step", elements([1, 2]))
    for cell[0] in notes:
        pass
    record.end()
    assert len(notes) == 2

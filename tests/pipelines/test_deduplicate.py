"""Values that were there before are left out."""

import pytest
from tests.pipelines.rig import keyed, lines, messages, pipeline, read, sent, text

from headrace.pipelines import GraphError, Message, OnError, Pipeline, StepError, Trial


def by_number() -> Pipeline:
    app = pipeline()
    keyed(app).deduplicate(lambda number: number or None, within="10s").sink("out", encode=text)
    return app


@pytest.mark.parametrize("size", [1, 3, 7])
def test_ids_are_remembered_for_so_long(size: int) -> None:
    values = ["a@0=1", "a@0=1", "b@0=1", "a@9=1", "a@9=2", "a@10=1", "a@15=1"]
    batches = [" ".join(values[at : at + size]) for at in range(0, len(values), size)]
    assert sorted(lines(sent(by_number(), *batches))) == ["a 1", "a 1", "a 2", "b 1"]


def test_what_is_forgotten_is_gone_from_memory() -> None:
    trial = sent(by_number(), "b@0=3 a@0=1 a@5=2")
    assert {key: sorted(ids) for key, ids in trial.states("deduplicate").items()} == {"a": [1, 2], "b": [3]}
    trial.send(*messages("c@11=4"))
    assert {key: sorted(ids) for key, ids in trial.states("deduplicate").items()} == {"a": [2], "c": [4]}


def test_a_late_value_is_remembered_as_long_as_any_other() -> None:
    assert lines(sent(by_number(), "b@100=1 a@0=1 a@0=1 b@109=2 a@0=1")) == ["b 1", "a 1", "b 2"]


def test_a_value_without_an_id_goes_on() -> None:
    app = pipeline()
    keyed(app).deduplicate(lambda number: None, within="10s").sink("out", encode=text)
    assert lines(sent(app, "a@0=1 a@0=1")) == ["a 1", "a 1"]


def test_the_id_is_that_of_the_message() -> None:
    app = pipeline()
    keyed(app).deduplicate(within="1 hour").sink("out", encode=text)
    trial = Trial(app)
    for number, id_ in enumerate(["x", "y", "x", None, None, ""]):
        trial.send(Message(f"a@1={number}".encode(), stream="s/0", message_id=id_))
    assert lines(trial) == ["a 0", "a 1", "a 3", "a 4", "a 5"]


@pytest.mark.parametrize("buckets", [1, 4])
def test_a_whole_flow_without_repetitions(buckets: int) -> None:
    app = pipeline()
    once = read(app).deduplicate(lambda value: value.number or None, within="10s")
    once.key_by(lambda value: value.key).map(lambda value: value.number).sink("out", encode=text)
    trial = sent(app, "a@0=1 b@0=1 a@0=2", "b@1=2 b@1=3 a@2=0 a@2=0", "c@12=1", buckets=buckets)
    assert sorted(lines(trial)) == ["a 0", "a 0", "a 1", "a 2", "b 3", "c 1"]
    assert set(trial.states("deduplicate")) == {1}


def test_a_whole_flow_by_the_ids_of_messages() -> None:
    app = pipeline()
    read(app).deduplicate(within="1 hour").map(lambda value: str(value.number)).sink("out")
    trial = Trial(app)
    for number, id_ in enumerate(["x", "y", "x", None, None]):
        trial.send(Message(f"a@1={number}".encode(), stream=f"s/{number % 2}", message_id=id_))
    assert sorted(trial.values("out")) == [b"0", b"1", b"3", b"4"]


def test_an_id_that_cannot_be_looked_up_is_an_error_of_the_value() -> None:
    app = pipeline(OnError.SKIP)
    keyed(app).deduplicate(lambda number: [] if number < 0 else number, within="1s").sink("out", encode=text)  # type: ignore[arg-type, return-value]
    assert lines(sent(app, "a@0=-1 a@0=1 a@0=1 a@0=-1")) == ["a 1"]


def test_event_time_is_needed() -> None:
    with pytest.raises(StepError, match=r"event_time\(\.\.\.\)"):
        sent(by_number(), "a@=1")


def test_a_span_that_is_none() -> None:
    with pytest.raises(GraphError, match="step deduplicate: within: '1 fortnight' is not a duration"):
        keyed(pipeline()).deduplicate(within="1 fortnight")

"""States are stored and read back, and their classes change."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.pipelines.rig import keyed, lines, messages, pipeline, sent

from headrace.pipelines import Context, Pipeline, StateError, Trial, Window, collect, count_window, tumbling


def stateful(make: Callable[[], Any], function: Callable[[int, Any], Any] | None = None) -> Pipeline:
    app = pipeline()
    keyed(app).stateful(function or (lambda number, state: setattr(state, "number", number)), make, name="step").sink("out")
    return app


def contextual(make: Callable[[], Any]) -> Pipeline:
    def function(number: int, state: Any, context: Context) -> None:
        state.number = number
        context.set_timer(after="100s")

    app = pipeline()
    keyed(app).stateful(function, make, on_timer=lambda state, context: str(state.number), name="step").sink("out")
    return app


def windowed(make: Callable[[], Any]) -> Pipeline:
    def update(state: Any, number: int) -> Any:
        state.number = number
        return state

    app = pipeline()
    flow = keyed(app).window(tumbling("100s"))
    flow.aggregate(initial=make, update=update, output=lambda key, state, window: str(state.number), name="step").sink("out")
    return app


def counted(make: Callable[[], Any]) -> Pipeline:
    app = pipeline()
    flow = keyed(app).window(count_window(9))
    flow.aggregate(initial=make, update=lambda state, n: setattr(state, "number", n) or state, name="step").sink("out")
    return app


KINDS = pytest.mark.parametrize("kind", [stateful, contextual, windowed, counted])
"""What all hold of classes holds wherever their instances lie."""


def only(trial: Trial, key: str = "a") -> Any:
    """The one instance that a step keeps for a key."""
    state = trial.states("step")[key]
    if isinstance(state, dict):
        (state,) = state.values()
    return state[1] if isinstance(state, tuple) else state


@dataclass
class Old:
    number: int = 0


@KINDS
def test_a_field_that_is_new_takes_its_default(kind: Callable[..., Pipeline]) -> None:
    @dataclass
    class Old:
        number: int = 0
        tags: list[str] = field(default_factory=list)
        colour: str = "red"

    trial = sent(kind(globals()["Old"]), "a@1=5 b@1=6")
    trial.restart(kind(Old))
    assert (only(trial), only(trial, "b")) == (Old(5, [], "red"), Old(6, [], "red"))
    assert only(trial).tags is not only(trial, "b").tags
    trial.send(*messages("a@2=7"))
    assert only(trial) == Old(7, [], "red")


@KINDS
def test_a_field_that_is_gone_is_an_error(kind: Callable[..., Pipeline]) -> None:
    @dataclass
    class New:
        total: int

    trial = sent(kind(Old), "a@1=5")
    with pytest.raises(StateError, match=r"step step: .*have number, .* and lack total, which has no default; raise its version"):
        trial.restart(kind(lambda: New(0)))


@dataclass
class New:
    total: int = 0
    number: int = 0
    version = 2

    @classmethod
    def upgrade(cls, version: int, fields: dict[str, Any]) -> dict[str, Any]:
        assert version == 0
        return {"total": fields["number"], "number": -1}


@KINDS
def test_a_class_says_how_old_states_become_new_ones(kind: Callable[..., Pipeline]) -> None:
    trial = sent(kind(Old), "a@1=5 b@1=6")
    trial.restart(kind(New))
    assert (only(trial), only(trial, "b")) == (New(5, -1), New(6, -1))
    trial.restart()
    assert only(trial) == New(5, -1)


@KINDS
def test_a_version_without_an_upgrade_is_an_error(kind: Callable[..., Pipeline]) -> None:
    @dataclass
    class Newer:
        number: int = 0
        version = 3

    trial = sent(kind(Old), "a@1=5")
    with pytest.raises(StateError, match=r"version 0 of .*Newer, which is at version 3 now; give it .* upgrade"):
        trial.restart(kind(Newer))


@KINDS
def test_instances_do_not_become_plain_values(kind: Callable[..., Pipeline]) -> None:
    trial = sent(kind(Old), "a@1=5")
    with pytest.raises(StateError, match="has states of Old, and they are now plain values"):
        trial.restart(kind(list))


def test_a_step_that_became_another_kind_is_told_to_take_another_name() -> None:
    for before in (stateful, contextual, windowed, counted):
        for after in (windowed, counted, stateful):
            if before is after or (before, after) == (contextual, stateful):
                continue
            trial = sent(before(Old), "a@1=5")
            with pytest.raises(StateError, match="give the step another name"):
                trial.restart(after(Old))


def test_states_with_slots_and_without_a_dataclass() -> None:
    class Slotted:
        __slots__ = ("number", "other")

    class Plain:
        def __init__(self) -> None:
            self.number = 0
            self.seen = {1, 2}

    for kind in (Slotted, Plain):
        trial = sent(stateful(kind), "a@1=5")
        trial.restart()
        assert only(trial).number == 5
        assert type(only(trial)) is kind


def test_what_cannot_be_stored_is_an_error() -> None:
    trial = sent(stateful(list, lambda number, state: state.append(lambda: number)), "a@1=5")
    with pytest.raises(StateError, match=r"step step: a state cannot be stored: .*; keep plain data in states"):
        trial.restart()


def test_open_windows_and_timers_live_on() -> None:
    for kind in (windowed, contextual):
        trial = sent(kind(Old), "a@1=5 b@2=6 a@3=7")
        trial.restart()
        trial.send(*messages("c@500=1"))
        assert sorted(lines(trial)) == ["a 7", "a 7", "b 6"] if kind is contextual else ["a 7", "b 6"]


def test_windows_of_another_size_begin_beside_those_that_are_open() -> None:
    def app(size: str) -> Pipeline:
        made = pipeline()
        flow = keyed(made).window(tumbling(size))
        flow.aggregate(collect(), output=lambda key, values, window: f"{window.end // 10**6} {values}").sink("out")  # type: ignore[union-attr]
        return made

    trial = sent(app("30s"), "a@1=1")
    with pytest.raises(
        StateError, match=r"step window .* its windows are 0:00:20 every 0:00:20, .* now, and 0:00:30 .* --migrate-states"
    ):
        trial.restart(app("20s"))
    trial.restart(app("20s"), migrate_states=["window"])
    trial.send(*messages("a@2=2"))
    assert set(trial.states("window")["a"]) == {Window(0, 20_000_000), Window(0, 30_000_000)}
    trial.finish()
    assert lines(trial) == ["a 20 [2]", "a 30 [1]"]


def test_a_step_that_is_gone_takes_its_states_with_it() -> None:
    trial = sent(stateful(Old), "a@1=5")
    other = pipeline()
    keyed(other).stateful(lambda number, state: None, list, name="other").sink("out")
    with pytest.raises(StateError, match=r"has states of step step, .* --drop-states step"):
        trial.restart(other)
    trial.restart(other, drop_states=["step"])
    assert trial.states("other") == {}

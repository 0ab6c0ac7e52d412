"""A function sees the rows of a broadcast table as a loop over all changes does, however the streams are read and divided."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.pipelines.rig import cut
from tests.pipelines.test_joins import (
    BOUNDS,
    CUTS,
    LEFTS,
    PROPERTY,
    RESTARTS,
    RIGHTS,
    Placed,
    Sent,
    hashed,
    in_turn,
    of,
    placed,
    results,
    streams,
    tried,
    us,
    with_hashes,
)

from headrace.pipelines import GraphError, Late, Message, OnError, Pipeline, StepError, Trial, tumbling


def seen(value: Message, rows: Mapping[bytes, str]) -> str:
    return f"{value.value.decode()} sees {[*rows.items()]}"  # type: ignore[union-attr]


def rows_at(changes: Sequence[Placed], at: int) -> dict[bytes, str]:
    """The rows as of a time, in the order of their keys."""
    known = sorted((one for one in changes if one.at is not None and one.at <= at), key=_by_time)
    last = {change.sent.key.encode(): change.sent for change in known}
    return {key: of(last[key]) for key in sorted(last) if last[key].text is not None}


def _by_time(change: Placed) -> tuple[Any, ...]:
    return change.at, change.sent.stream, change.sent.sequence


@pytest.mark.parametrize("is_shuffled_twice", [False, True])
@PROPERTY
@given(
    values=streams(LEFTS, False),
    changes=streams(RIGHTS, True),
    random=st.randoms(use_true_random=False),
    cuts=CUTS,
    restarts=RESTARTS,
    buckets=st.integers(1, 8),
    retention=BOUNDS,
    delay=BOUNDS,
)
def test_a_function_sees_the_rows_as_of_the_time_of_each_value(
    is_shuffled_twice: bool,
    values: list[Sent],
    changes: list[Sent],
    random: Any,
    cuts: list[int],
    restarts: list[bool],
    buckets: int,
    retention: int,
    delay: int,
) -> None:
    app = Pipeline("rules")
    rules = app.broadcast("r/*", decode=bytes.decode, name="rules")
    keyed = app.source("l/*").key_by(name="plain")
    if is_shuffled_twice:
        keyed = keyed.key_by(lambda value: value.key, name="again")
    texts = keyed.map_with(rules, seen, retention=us(retention), delay=us(delay))
    texts.sink("out")
    texts.stateful(hashed, dict).sink("hashes")
    trial = tried(app, random, values + changes, cuts, restarts, buckets)
    there = placed(changes, RIGHTS, delay, Late.PLACE_IN_OLDEST)
    found = [
        (one.key, (one.mark, one.sequence, one.stream), f"{of(one)} sees {[*rows_at(there, at).items()]}")  # type: ignore[arg-type]
        for one, at in placed(values, LEFTS, retention, Late.PLACE_IN_OLDEST)
    ]
    assert results(trial) == in_turn(found)
    assert results(trial, "hashes") == with_hashes(in_turn(found))
    assert trial.states("seen") == {}
    assert trial.states("seen-rows") == rows_at(there, 2**62)
    assert trial.counts["late", "seen"] == sum(one.mark - one.time > retention for one in values)
    assert trial.counts["late", "seen-rows"] == sum(one.mark - one.time > delay for one in changes)


def rule(key: bytes, value: bytes | None, at: int | None = 1) -> Message:
    return Message(value, key, at, "r/0")


def value(text: bytes, at: int) -> Message:
    return Message(text, text, at, "l/0")


@pytest.mark.parametrize("policy", OnError)
def test_more_rows_than_max_rows_end_the_query_under_every_policy_and_deleted_ones_do_not_count(policy: OnError) -> None:
    app = Pipeline("app", on_error=policy, dead_letters="failed")
    rules = app.broadcast("r/*", decode=bytes.decode, max_rows=2)
    app.source("l/*").key_by().map_with(rules, seen).sink("out")
    trial = Trial(app, buckets=3)
    trial.send(rule(b"a", b"1"), rule(b"b", b"2"), rule(b"a", b"3", 2), rule(b"b", None, 3), rule(b"c", b"4", 4))
    with pytest.raises(StepError, match=r"step seen-rows, key b'd', stream r/0.*more than 2 rows, its max_rows: raise max_rows"):
        trial.send(rule(b"d", b"5", 5))


@PROPERTY
@example([("a", True), ("a", False), ("b", True), ("a", True)], [], 1)
@given(
    changes=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30),
    cuts=st.lists(st.integers(1, 30), max_size=5),
    most=st.integers(1, 2),
)
def test_the_query_ends_at_the_first_row_too_many_and_continues_with_more_max_rows(
    changes: list[tuple[str, bool]], cuts: list[int], most: int
) -> None:
    def app(max_rows: int) -> Pipeline:
        app = Pipeline("app")
        rules = app.broadcast("r/*", decode=bytes.decode, max_rows=max_rows)
        app.source("l/*").key_by().map_with(rules, seen).sink("out")
        return app

    trial, there, limit = Trial(app(most)), set[str](), most
    trial.open("l/0", "r/0")
    for batch in cut(changes, cuts):
        sent = [rule(key.encode(), b"1" if is_there else None, 1) for key, is_there in batch]
        largest, after = 0, set(there)
        for key, is_there in batch:
            before = len(after)
            (after.add if is_there else after.discard)(key)
            largest = max(largest, len(after) if len(after) > before else 0)
        if largest > limit:
            with pytest.raises(StepError, match=rf"more than {limit} rows?,"):
                trial.send(*sent)
            limit = largest
            trial.restart(app(limit))
        trial.send(*sent)
        there = after
    trial.finish()
    assert set(map(bytes.decode, trial.states("seen-rows"))) == there


def test_the_rows_can_be_read_only_during_the_call() -> None:
    kept = list[Mapping[bytes, str]]()

    def views(value: Message, rows: Mapping[bytes, str]) -> object:
        kept.append(rows)
        return {b"map": rows, b"items": rows.items(), b"copy": dict(rows)}[value.value]  # type: ignore[index]

    app = Pipeline("app", on_error=OnError.DEAD_LETTER, dead_letters="failed")
    rules = app.broadcast("r/*", decode=bytes.decode)
    app.source("l/*").key_by().map_with(rules, views).map(lambda found: repr(list(found)), name="text").sink("out")
    trial = Trial(app)
    trial.open("l/0", "r/0")
    trial.send(rule(b"a", b"1", 1), rule(b"a", None, 4), value(b"map", 1), value(b"items", 2), value(b"copy", 3))
    trial.finish()
    assert trial.values("out") == [b"[b'a']"]
    assert len(trial.failed) == 2
    assert all("step text" in why and "return a copy of them from it, such as dict(rows)" in why for why in trial.failed)
    with pytest.raises(RuntimeError, match="only during the call"):
        kept[0].get(b"a")
    assert repr(kept[0]) == "the rows of a call that has ended"


def test_what_fails_and_what_is_late_counts_once_however_many_buckets_there_are() -> None:
    app = Pipeline("app", on_error=OnError.SKIP)
    rules = app.broadcast("r/*", decode=int, name="rules")

    def divided(value: Message, rows: Mapping[bytes, int]) -> str | None:
        return None if value.value == b"c" else f"{value.value!r} {1 // rows.get(b'a', 1)}"

    app.source("l/*").key_by().map_with(rules, divided).sink("out")
    trial = Trial(app, buckets=5)
    trial.open("l/0", "r/0")
    trial.send(rule(b"a", b"0", 5), rule(b"b", b"x", 6), rule(b"c", b"2", None), rule(b"c", b"2", 3), rule(b"a", None, 8))
    trial.send(value(b"a", 4), value(b"b", 5), value(b"c", 8), value(b"d", 8))
    trial.finish()
    assert sorted(trial.values("out")) == [b"b'a' 1", b"b'd' 1"]
    assert dict(trial.counts) == {
        ("skipped", "rules-rows"): 1,
        ("skipped", "divided-rows-key"): 1,
        ("skipped", "divided"): 1,
        ("late", "divided-rows"): 1,
    }


def test_a_function_cannot_change_the_rows_that_others_see() -> None:
    app = Pipeline("app")
    rules = app.broadcast("r/*", decode=lambda payload: [int(payload)])

    def changed(value: Message, rows: Mapping[bytes, list[int]]) -> str:
        rows[b"a"].append(0)
        for row in rows.values():
            row.append(1)
        assert b"b" not in rows
        assert rows.get(b"b") is None
        assert (len(rows), list(rows)) == (1, [b"a"])
        with pytest.raises(KeyError):
            rows[b"b"]
        return repr(rows)

    app.source("l/*").key_by().map_with(rules, changed).sink("out")
    trial = Trial(app)
    trial.send(rule(b"a", b"7"), value(b"a", 2), value(b"a", 3))
    trial.finish()
    assert trial.values("out") == [b"{b'a': [7]}", b"{b'a': [7]}"]


def test_what_map_with_is_given_must_fit_together() -> None:
    app = Pipeline("app")
    rules, keyed = app.broadcast("r/*", decode=int), app.source("l/*").key_by()
    with pytest.raises(GraphError, match=r"pipeline app, step seen: rows is what app\.broadcast"):
        keyed.map_with(app.table("t/*", decode=int), seen)  # type: ignore
    with pytest.raises(GraphError, match="pipeline app, step seen: rows is of another pipeline: other"):
        keyed.map_with(Pipeline("other").broadcast("r/*", decode=bytes.decode), seen)
    with pytest.raises(GraphError, match=r"map_with\(...\) has states.*is made of a lambda"):
        keyed.map_with(rules, lambda value, rows: 1)
    with pytest.raises(GraphError, match="step rules: max_rows must be at least 1, and is 0"):
        app.broadcast("r/*", decode=int, max_rows=0, name="rules")


def test_windows_may_follow_and_a_retention_that_changes_is_refused() -> None:
    def app(retention: str) -> Pipeline:
        app = Pipeline("app")
        rules = app.broadcast("r/*", decode=int)
        weights = (
            app.source("l/*")
            .key_by(lambda value: 0)
            .map_with(rules, lambda value, rows: rows.get(b"w", 0), retention=retention, name="weights")
        )
        weights.window(tumbling("10us")).aggregate(initial=int, update=lambda a, b: a + b, name="sum").map(str).sink("out")
        return app

    trial = Trial(app("5us"))
    trial.send(rule(b"w", b"2", 1), rule(b"w", b"3", 6), rule(b"w", b"5", 12), *(value(b"v", at) for at in (2, 7, 4, 15, 30)))
    trial.restart(app("5us"))
    trial.send(rule(b"w", None, 40))
    trial.finish()
    assert trial.values("out") == [b"7", b"5", b"5"]
    with pytest.raises(Exception, match="step weights is not the step"):
        trial.restart(app("6us"))

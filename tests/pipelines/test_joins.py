"""Joins give what a plain loop over all messages gives, in whatever order streams are read, cut, stored and divided."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipelines.rig import cut

from headrace.pipelines import (
    GraphError,
    KeyedFlow,
    Late,
    Message,
    OnError,
    Pipeline,
    Trial,
    count_window,
    session,
    sliding,
    total,
    tumbling,
)
from headrace.pipelines.joins.waiting import Entry

PROPERTY = settings(max_examples=80, derandomize=True, database=None, deadline=None)
LEFTS, RIGHTS = ("l/0", "l/1"), ("r/0", "r/1")


class Sent(NamedTuple):
    """A message in its stream."""

    stream: str
    sequence: int
    key: str
    time: int
    mark: int
    text: str | None


class Placed(NamedTuple):
    """A value where it meets others: at its time, or where a late one was put. None: it meets nothing."""

    sent: Sent
    at: int | None


def streams(names: Sequence[str], deletes: bool) -> st.SearchStrategy[list[Sent]]:
    step = st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 6),
        st.one_of(st.just(0), st.integers(0, 20)),
        st.sampled_from([True, *[False] * 3]) if deletes else st.just(False),
    )

    def built(steps: list[list[tuple[str, int, int, bool]]]) -> list[Sent]:
        found = []
        for name, some in zip(names, steps, strict=True):
            now, mark = 0, -1000
            for sequence, (key, on, behind, is_deleted) in enumerate(some, 1):
                now += on
                mark = max(mark, now - behind)
                text = None if is_deleted else f"{name} {sequence}"
                found.append(Sent(name, sequence, key, now - behind, mark, text))
        return found

    return st.tuples(*[st.lists(step, max_size=12) for _ in names]).map(list).map(built)


def mixed(random: Any, sent: list[Sent]) -> list[Message]:
    """The messages in an order that leaves each stream in its own."""
    waiting: defaultdict[str, list[Sent]] = defaultdict(list)
    for one in sent:
        waiting[one.stream].append(one)
    found = []
    while any(waiting.values()):
        some = waiting[random.choice([name for name, left in waiting.items() if left])]
        found.append(message(some.pop(0)))
    return found


def message(sent: Sent) -> Message:
    value = None if sent.text is None else f"{sent.time} {sent.text}".encode()
    return Message(value, sent.key.encode(), sent.time, sent.stream, sent.sequence)


def tried(
    app: Pipeline,
    random: Any,
    sent: list[Sent],
    cuts: list[int],
    restarts: list[bool],
    buckets: int,
    bootstrap: int | None = None,
) -> Trial:
    """A trial that gets all messages, in some order and in some micro-batches, and then the end of each stream.

    `bootstrap` is the number of the micro-batch with which tables are read to their present end; None if the pipeline has none.
    """
    trial = Trial(app, buckets=buckets)
    trial.open(*LEFTS, *RIGHTS)
    ends = [*LEFTS, *RIGHTS]
    random.shuffle(ends)
    for number, batch in enumerate(cut(mixed(random, sent), cuts)):
        if number == bootstrap:
            trial.bootstrap(*(one for one in batch if one.stream in RIGHTS))
            batch = [one for one in batch if one.stream in LEFTS]
        trial.send(*batch)
        if restarts[number % len(restarts)]:
            trial.restart()
    for stream in ends:
        trial.end(stream)
    trial.finish()
    return trial


def results(trial: Trial, sink: str = "out") -> dict[Any, list[str]]:
    found: defaultdict[Any, list[str]] = defaultdict(list)
    for written in trial.written[sink]:
        found[written.key].append(written.value.decode())
    return dict(found)


def in_turn(found: list[tuple[str, tuple[int, int, str], str]]) -> dict[Any, list[str]]:
    """The results of each key in their order, of triples of a key, a place and a result."""
    by_key: defaultdict[Any, list[str]] = defaultdict(list)
    for key, _, result in sorted(found, key=lambda one: one[1]):
        by_key[key.encode()].append(result)
    return dict(by_key)


def placed(sent: list[Sent], names: Sequence[str], bound: int, late: Late) -> list[Placed]:
    """What becomes of values that are further behind their stream than a bound."""
    found = []
    for one in sent:
        if one.stream in names and one.mark - one.time <= bound:
            found.append(Placed(one, one.time))
        elif one.stream in names and late is Late.PLACE_IN_OLDEST:
            found.append(Placed(one, one.mark - bound))
        elif one.stream in names and late is Late.FIRE:
            found.append(Placed(one, None))
    return found


def text_of(pair: tuple[Message | None, Message | None]) -> str:
    return " + ".join("none" if one is None else one.value.decode() for one in pair)  # type: ignore[union-attr]


def of(sent: Sent | None) -> str:
    return "none" if sent is None else f"{sent.time} {sent.text}"


def hashed(pair: Any, state: dict[str, int]) -> str:
    """A result that depends on all results of its key before it."""
    text = pair if isinstance(pair, str) else text_of(pair)
    state["hash"] = (state.get("hash", 0) * 31 + sum(text.encode())) % 10_007
    return f"{text} {state['hash']}"


def with_hashes(found: dict[Any, list[str]]) -> dict[Any, list[str]]:
    states: defaultdict[Any, dict[str, int]] = defaultdict(dict)
    return {key: [hashed(text, states[key]) for text in texts] for key, texts in found.items()}


CUTS = st.lists(st.integers(0, 100), max_size=8)
RESTARTS = st.lists(st.booleans(), min_size=1, max_size=9)
BOUNDS = st.sampled_from([0, 3, 10, 1000])


def us(span: int) -> str:
    return f"{span}us"


@PROPERTY
@given(
    lefts=streams(LEFTS, False),
    rights=streams(RIGHTS, False),
    random=st.randoms(use_true_random=False),
    cuts=CUTS,
    restarts=RESTARTS,
    buckets=st.integers(1, 8),
    before=st.integers(0, 9),
    after=st.integers(0, 9),
    delay=BOUNDS,
    how=st.sampled_from(["inner", "left", "full"]),
    late=st.sampled_from(Late),
)
def test_values_within_a_span_meet_as_a_loop_over_all_of_them_says(
    lefts: list[Sent],
    rights: list[Sent],
    random: Any,
    cuts: list[int],
    restarts: list[bool],
    buckets: int,
    before: int,
    after: int,
    delay: int,
    how: Any,
    late: Late,
) -> None:
    late = Late.DROP if how == "inner" and late is Late.FIRE else late
    app = Pipeline("within")
    left, right = app.source("l/*").key_by(name="left"), app.source("r/*").key_by(name="right")
    pairs: KeyedFlow[Any] = left.join_within(
        right, before=us(before), after=us(after), how=how, delay=us(delay), late=late, name="pairs"
    )
    pairs.map(text_of).sink("out")
    pairs.stateful(hashed, dict).sink("hashes")
    trial = tried(app, random, lefts + rights, cuts, restarts, buckets)
    expected = within(placed(lefts, LEFTS, delay, late), placed(rights, RIGHTS, delay, late), before, after, delay, how)
    assert results(trial) == expected
    assert results(trial, "hashes") == with_hashes(expected)
    assert trial.states("pairs") == {}
    assert trial.counts["late", "pairs"] == sum(one.mark - one.time > delay for one in lefts + rights)


def within(lefts: list[Placed], rights: list[Placed], before: int, after: int, delay: int, how: str) -> dict[Any, list[str]]:
    found, met = list[tuple[str, tuple[int, int, str], str]](), set[Sent]()
    for left, at in lefts:
        near = [
            other
            for other in rights
            if other.at is not None and at is not None and left.key == other.sent.key and -before <= other.at - at <= after
        ]
        near.sort(key=lambda other: (other.at, other.sent.stream, other.sent.sequence))
        met |= {other.sent for other in near}
        partners: list[Sent | None] = [other.sent for other in near]
        partners = partners or ([] if how == "inner" else [None])
        place = left.mark + after + delay + 1, left.sequence, left.stream
        found += [(left.key, place, f"{of(left)} + {of(right)}") for right in partners]
    for right, _ in rights if how == "full" else []:
        if right not in met:
            place = right.mark + before + delay + 1, right.sequence, right.stream
            found.append((right.key, place, f"none + {of(right)}"))
    return in_turn(found)


@PROPERTY
@given(
    lefts=streams(LEFTS, False),
    rights=streams(RIGHTS, False),
    random=st.randoms(use_true_random=False),
    cuts=CUTS,
    restarts=RESTARTS,
    buckets=st.integers(1, 8),
    size=st.integers(1, 15),
    delay=BOUNDS,
    how=st.sampled_from(["inner", "left", "full"]),
    late=st.sampled_from(Late),
)
def test_values_in_a_window_meet_as_a_loop_over_all_of_them_says(
    lefts: list[Sent],
    rights: list[Sent],
    random: Any,
    cuts: list[int],
    restarts: list[bool],
    buckets: int,
    size: int,
    delay: int,
    how: Any,
    late: Late,
) -> None:
    late = Late.DROP if how == "inner" and late is Late.FIRE else late
    app = Pipeline("windows")
    left, right = app.source("l/*").key_by(name="left"), app.source("r/*").key_by(name="right")
    windows = left.window(tumbling(us(size)), delay=us(delay), late=late)
    pairs: KeyedFlow[Any] = windows.join(right, how=how, name="pairs")
    pairs.map(text_of).sink("out")
    pairs.stateful(hashed, dict).sink("hashes")
    trial = tried(app, random, lefts + rights, cuts, restarts, buckets)
    expected = in_windows(lefts, rights, size, delay, how, late)
    assert results(trial) == expected
    assert results(trial, "hashes") == with_hashes(expected)
    assert trial.states("pairs") == {}
    assert trial.counts["late", "pairs"] == sum(is_closed(one, size, delay) for one in lefts + rights)


def is_closed(sent: Sent, size: int, delay: int) -> bool:
    return (sent.time // size + 1) * size + delay <= sent.mark


def in_windows(lefts: list[Sent], rights: list[Sent], size: int, delay: int, how: str, late: Late) -> dict[Any, list[str]]:
    def window(sent: Sent) -> int:
        return (sent.mark - delay if is_closed(sent, size, delay) else sent.time) // size

    def at(sent: Sent) -> tuple[int, str, int]:
        return (window(sent) * size if is_closed(sent, size, delay) else sent.time), sent.stream, sent.sequence

    def place(sent: Sent) -> tuple[int, int, str]:
        return (window(sent) + 1) * size + delay, sent.sequence, sent.stream

    found, met = list[tuple[str, tuple[int, int, str], str]](), set[Sent]()
    lefts, rights = (
        [one for one in some if late is not Late.DROP or not is_closed(one, size, delay)] for some in (lefts, rights)
    )
    alone = {one for one in lefts + rights if late is Late.FIRE and is_closed(one, size, delay)}
    for left in lefts:
        partners: list[Sent | None] = [
            other
            for other in sorted(rights, key=at)
            if left.key == other.key and window(left) == window(other) and not {left, other} & alone
        ]
        met |= {other for other in partners if other is not None}
        partners = partners or ([] if how == "inner" else [None])
        found += [(left.key, place(left), f"{of(left)} + {of(right)}") for right in partners]
    if how == "full":
        found += [(right.key, place(right), f"none + {of(right)}") for right in rights if right not in met]
    return in_turn(found)


@PROPERTY
@given(
    orders=streams(LEFTS, False),
    changes=streams(RIGHTS, True),
    random=st.randoms(use_true_random=False),
    cuts=CUTS,
    restarts=RESTARTS,
    buckets=st.integers(1, 8),
    retention=st.none() | BOUNDS,
    delay=BOUNDS,
    how=st.sampled_from(["inner", "left"]),
    bootstrap=st.none() | st.integers(0, 9),
)
def test_a_value_meets_the_row_as_of_its_time_as_a_loop_over_all_changes_says(
    orders: list[Sent],
    changes: list[Sent],
    random: Any,
    cuts: list[int],
    restarts: list[bool],
    buckets: int,
    retention: int | None,
    delay: int,
    how: Any,
    bootstrap: int | None,
) -> None:
    app = Pipeline("as-of")
    table = app.table("r/*", decode=bytes.decode, bootstrap=bootstrap is not None, name="table")
    as_of: dict[str, Any] = {"as_of": False} if retention is None else {"retention": us(retention)}
    found: KeyedFlow[Any] = app.source("l/*").join(table, on=lambda value: value.key, how=how, delay=us(delay), **as_of)
    texts = found.map(lambda pair: f"{pair[0].value.decode()} + {'none' if pair[1] is None else pair[1]}", name="text")
    texts.sink("out")
    texts.stateful(hashed, dict).sink("hashes")
    trial = tried(app, random, orders + changes, cuts, restarts, buckets, bootstrap)
    bound = retention or 0
    places = Late.PLACE_IN_OLDEST
    expected = as_of_each(placed(orders, LEFTS, bound, places), placed(changes, RIGHTS, delay, places), how)
    assert results(trial) == expected
    assert results(trial, "hashes") == with_hashes(expected)
    late = [one for one in orders if one.mark - one.time > bound] + [one for one in changes if one.mark - one.time > delay]
    assert trial.counts["late", "join"] == len(late)
    rows = {key: state["right"] for key, state in trial.states("join").items()}
    assert rows == {key: [row] for key, row in last_rows(placed(changes, RIGHTS, delay, places)).items()}


def as_of_each(orders: list[Placed], changes: list[Placed], how: str) -> dict[Any, list[str]]:
    found = []
    for order, at in orders:
        known = [change for change in changes if change.sent.key == order.key and change.at <= at]  # type: ignore[operator]
        row = max(known, key=_by_time).sent if known else None
        if how == "left" or (row is not None and row.text is not None):
            there = None if row is None or row.text is None else row
            found.append((order.key, (order.mark, order.sequence, order.stream), f"{of(order)} + {of(there)}"))
    return in_turn(found)


def last_rows(changes: list[Placed]) -> dict[bytes, str]:
    """The rows that a table ends with."""
    last = {change.sent.key: change.sent for change in sorted(changes, key=_by_time)}
    return {key.encode(): of(sent) for key, sent in last.items() if sent.text is not None}


def _by_time(change: Placed) -> tuple[Any, ...]:
    return change.at, change.sent.stream, change.sent.sequence


@PROPERTY
@given(
    lefts=streams(LEFTS, False),
    rights=streams(RIGHTS, True),
    random=st.randoms(use_true_random=False),
    cuts=CUTS,
    restarts=RESTARTS,
    buckets=st.integers(1, 8),
    delay=BOUNDS,
)
def test_windows_behind_a_join_are_the_same_however_streams_are_read_and_joins_may_follow_each_other(
    lefts: list[Sent], rights: list[Sent], random: Any, cuts: list[int], restarts: list[bool], buckets: int, delay: int
) -> None:
    app = Pipeline("chain")
    table = app.table("r/*", decode=lambda payload: int(payload.split()[0]), name="table")
    orders = app.source("l/*")
    sums = orders.join(table, on=lambda value: value.key, how="left", retention="5us", name="first").map(
        lambda pair: (pair[0].sequence, pair[1] or 0), name="numbers"
    )
    windows = sums.window(tumbling("7us"), delay=us(delay)).aggregate(
        total(lambda pair: pair[0] * 1000 + pair[1]), output=lambda key, sum_, window: (key, window.end, sum_)
    )
    again = windows.join_within(
        orders.key_by(name="plain"), before="20us", after="20us", delay=us(delay), how="full", name="again"
    )
    encoded = again.map(
        lambda pair: f"{pair[0]} + {None if pair[1] is None else (pair[1].stream, pair[1].sequence)}", name="pairs"
    )
    encoded.sink("out")
    second = windows.join(table, on=lambda row: row[0], as_of=False, how="left", name="second")
    second.map(repr, name="row").sink("rows")
    parts = tried(app, random, lefts + rights, cuts, restarts, buckets)
    whole = Trial(app)
    whole.open(*LEFTS, *RIGHTS)
    whole.send(*[message(one) for one in lefts + rights])
    whole.end(*LEFTS, *RIGHTS)
    whole.finish()
    assert results(parts) == results(whole)
    assert {key: sorted(texts) for key, texts in results(parts, "rows").items()} == {
        key: sorted(texts) for key, texts in results(whole, "rows").items()
    }
    assert dict(parts.counts) == dict(whole.counts)


@pytest.mark.parametrize("is_merged", [False, True])
@PROPERTY
@given(sent=streams(("l/0",), False), cuts=CUTS, restarts=RESTARTS, buckets=st.integers(1, 8))
def test_one_stream_has_a_mark_at_each_side_across_restarts(
    is_merged: bool, sent: list[Sent], cuts: list[int], restarts: list[bool], buckets: int
) -> None:
    app = Pipeline("app")
    whole = app.source("l/*")
    left, right = whole.key_by(), whole.filter(lambda value: value.sequence % 3 == 0).key_by()
    if is_merged:
        sums = left.merge(right).key_by().window(tumbling("5us"))
        sums.aggregate(total(lambda value: value.sequence), name="sums").map(str, name="text").sink("out")
    else:
        left.join_within(right, before="5us", after="3us", how="full").map(text_of).sink("out")
    parts, once = Trial(app, buckets=buckets), Trial(app)
    for number, batch in enumerate(cut([message(one) for one in sent], cuts)):
        parts.send(*batch)
        if restarts[number % len(restarts)]:
            parts.restart()
    once.send(*map(message, sent))
    assert results(parts) == results(once)
    step = "sums" if is_merged else "join-within"
    assert parts.states(step) == once.states(step)


def keyed(app: Pipeline, streams: str) -> KeyedFlow[Message]:
    return app.source(streams).key_by(name=f"by-{streams[0]}")


def test_sides_of_different_pipelines_do_not_meet() -> None:
    one, other = Pipeline("one"), Pipeline("other")
    with pytest.raises(GraphError, match="pipeline one, step join-within: right is of another pipeline: other"):
        keyed(one, "l/*").join_within(keyed(other, "r/*"), before="1s", after="1s")
    with pytest.raises(GraphError, match="pipeline one, step join: table is of another pipeline: other"):
        one.source("o/*").join(other.table("r/*", decode=repr), on=lambda value: value.key, as_of=False)


def test_what_a_join_is_given_must_fit_together() -> None:
    app = Pipeline("app")
    left, right, table = keyed(app, "l/*"), keyed(app, "r/*"), app.table("t/*", decode=repr)
    with pytest.raises(GraphError, match=r"step pairs: late: a late value would make a result alone, .* how='left'"):
        left.join_within(right, before="1s", after="1s", late=Late.FIRE, name="pairs")
    with pytest.raises(GraphError, match=r"step rows: retention is needed: .* or pass as_of=False"):
        left.join(table, on=lambda value: value.key, name="rows")  # type: ignore
    with pytest.raises(GraphError, match="step rows: retention is for as_of=True"):
        left.join(table, on=lambda value: value.key, as_of=False, retention="1h", name="rows")  # type: ignore
    with pytest.raises(GraphError, match="step rows: how must be 'inner' or 'left', not 'full'"):
        left.join(table, on=lambda value: value.key, how="full", as_of=False, name="rows")  # type: ignore
    left.join(table, on=lambda value: value.key, as_of=False)
    with pytest.raises(GraphError, match=r"join\(...\) has states, .* give it a stable name"):
        left.join(table, on=lambda value: value.key, as_of=False)


def test_a_join_in_windows_needs_tumbling_ones_without_early_results_and_another_flow_of_its_pipeline() -> None:
    app = Pipeline("app")
    left, right = keyed(app, "l/*"), keyed(app, "r/*")
    for windows in (sliding("2s", every="1s"), session("1s"), count_window(2)):
        with pytest.raises(GraphError, match=r"pipeline app, step pairs: a join needs tumbling windows, .* use join_within"):
            left.window(windows).join(right, name="pairs")
    windows = left.window(tumbling("1s"), late=Late.FIRE)
    with pytest.raises(GraphError, match=r"step pairs: late: a late value would make a result alone"):
        windows.join(right, name="pairs")
    with pytest.raises(GraphError, match=r"step pairs: how must be 'inner', 'left' or 'full', not 'right'"):
        windows.join(right, how="right", name="pairs")  # type: ignore
    with pytest.raises(GraphError, match="step window-join: emit_every is for windows that are aggregated"):
        left.window(tumbling("1s"), emit_every="1s").join(right)
    with pytest.raises(GraphError, match="pipeline app, step window-join: right is of another pipeline: other"):
        windows.join(keyed(Pipeline("other"), "r/*"), how="left")
    with pytest.raises(GraphError, match="pipeline app, step window-join: right is a flow after key_by, not '5'"):
        windows.join("5")  # type: ignore


def test_an_envelope_whose_row_is_none_deletes_it_as_a_tombstone_does() -> None:
    app = Pipeline("app")
    table = app.table(
        "t/*",
        decode=lambda payload: payload.partition(b">")[2] or None,
        key=lambda message: int(message.key or b""),
        event_time=lambda message: message.sequence * 10,
    )
    app.source("l/*", decode=int).event_time(lambda value: value).join(table, on=lambda value: 7, how="left", retention="0s").map(
        repr, name="text"
    ).sink("out")
    trial = Trial(app)
    trial.open("l/0", "t/0")
    trial.send(*(Message(value, b"7", stream="t/0") for value in (b"a>b", b"b>", b">c", None)))
    trial.send(*(Message(b"%d" % time, stream="l/0") for time in (9, 10, 20, 30, 39, 40)))
    assert trial.values("out") == [b"(9, None)", b"(10, b'b')", b"(20, None)", b"(30, b'c')", b"(39, b'c')"]
    assert trial.states("join") == {7: {"left": [40], "right": [b"c", None]}}


def test_a_value_without_an_event_time_follows_the_policy_of_the_step() -> None:
    app = Pipeline("app", on_error=OnError.SKIP)
    keyed(app, "l/*").join_within(keyed(app, "r/*"), before="1s", after="1s", how="full").map(repr).sink("out")
    trial = Trial(app)
    trial.send(Message(b"1", b"k", None, "l/0"), Message(b"2", b"k", None, "r/0"))
    trial.finish()
    assert trial.counts["skipped", "join-within"] == 2
    assert trial.values("out") == []


def test_a_result_may_be_changed_and_what_waits_is_not() -> None:
    app = Pipeline("app")

    def changed(pair: tuple[list[int], list[int]]) -> str:
        pair[0].append(0)
        pair[1].append(0)
        return f"{pair}"

    lists: Callable[[bytes], list[int]] = lambda payload: [int(payload)]  # noqa: E731
    left, right = (app.source(streams, lists).key_by(lambda _: 0, name=streams[0]) for streams in ("l/*", "r/*"))
    left.join_within(right, before="9us", after="9us").map(changed).sink("out")
    trial = Trial(app)
    trial.send(*(Message(b"%d" % n, event_time=n, stream=stream) for n in (1, 2) for stream in ("l/0", "r/0")))
    trial.finish()
    assert trial.values("out") == [f"([{a}, 0], [{b}, 0])".encode() for a in (1, 2) for b in (1, 2)]


def test_a_span_or_a_retention_that_changes_is_refused_unless_states_are_migrated() -> None:
    def app(after: str) -> Pipeline:
        app = Pipeline("app")
        keyed(app, "l/*").join_within(keyed(app, "r/*"), before="1s", after=after).sink("out", encode=lambda pair: b"")
        return app

    trial = Trial(app("1s"))
    trial.send(Message(b"", b"k", 5, "l/0"))
    with pytest.raises(Exception, match="step join-within is not the step"):
        trial.restart(app("2s"))
    trial.restart(app("2s"), migrate_states=["join-within"])
    assert set(trial.states("join-within")) == {b"k"}


@pytest.mark.parametrize("is_in_window", [False, True])
def test_the_cost_of_values_that_meet_none_does_not_depend_on_how_many_wait(
    is_in_window: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    class Counted(Entry):
        """An entry that counts how often its time is looked at."""

        @property
        def at(self) -> int:  # type: ignore[override]
            nonlocal looks
            looks += 1
            return self[1]

    def cost(waiting: int) -> int:
        nonlocal looks
        app = Pipeline("app")
        left, right = (keyed(app, streams) for streams in ("l/*", "r/*"))
        if is_in_window:
            pairs = left.window(tumbling("100us")).join(right, how="full")
        else:
            pairs = left.join_within(right, before="10us", after="10us", how="full")
        pairs.map(repr).sink("out")
        trial = Trial(app)
        trial.send(*(Message(b"", b"k", 20, "r/0") for _ in range(50)))
        trial.send(*(Message(b"", b"k", 150, "l/0") for _ in range(waiting)))
        looks = 0
        trial.send(Message(b"", b"k", 150, "r/0"))
        assert len(trial.values("out")) == 50
        return looks

    monkeypatch.setattr("headrace.pipelines.joins.step.Entry", Counted)
    assert cost(200) - cost(20) < 50 * 20

"""Streams that meet a table with bootstrap=True begin once it was read to its present end, whatever is read first otherwise."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipelines.rig import cut
from tests.pipelines.test_joins import (
    CUTS,
    LEFTS,
    PROPERTY,
    RESTARTS,
    RIGHTS,
    Sent,
    as_of_each,
    mixed,
    placed,
    results,
    streams,
)

from headrace.pipelines import GraphError, Late, Message, Pipeline, Trial, TrialError
from headrace.pipelines.graph.bootstrap import Bootstrap


def text_of(pair: tuple[Message, str | None]) -> str:
    return f"{pair[0].value.decode()} + {'none' if pair[1] is None else pair[1]}"  # type: ignore[union-attr]


def named(*, as_of: bool = True, patterns: str = "r/*", bootstrap: bool = True, **of_table: Any) -> Pipeline:
    app = Pipeline("named")
    table = app.table(patterns, decode=bytes.decode, bootstrap=bootstrap, name="names", **of_table)
    more: dict[str, Any] = {"retention": "1000us"} if as_of else {"as_of": False}
    pairs = app.source("l/*").join(table, on=lambda value: value.key, how="left", **more)
    pairs.map(text_of, name="text").sink("out")
    return app


def order(number: int, at: int, stream: str = "l/0") -> Message:
    return Message(b"%d" % number, b"a", at, stream)


def row(text: str, at: int, stream: str = "r/0") -> Message:
    return Message(text.encode(), b"a", at, stream)


@PROPERTY
@given(
    orders=streams(LEFTS, False),
    rows=streams(RIGHTS, True),
    random=st.randoms(use_true_random=False),
    cuts=CUTS,
    restarts=RESTARTS,
    buckets=st.integers(1, 8),
    bootstrap=st.integers(0, 9),
)
def test_a_quiet_table_with_idle_after_gives_every_row_that_it_had_however_the_rest_is_read(
    orders: list[Sent],
    rows: list[Sent],
    random: Any,
    cuts: list[int],
    restarts: list[bool],
    buckets: int,
    bootstrap: int,
) -> None:
    trial = Trial(named(idle_after="1us"), buckets=buckets)
    trial.open(*LEFTS)
    batches = cut(mixed(random, orders), cuts)
    for number, batch in enumerate(batches):
        if number == min(bootstrap, len(batches) - 1):
            trial.bootstrap(*mixed(random, rows))
        trial.send(*batch)
        if restarts[number % len(restarts)]:
            trial.restart()
    trial.end(*LEFTS)
    trial.finish()
    bounds = Late.PLACE_IN_OLDEST
    expected = as_of_each(placed(orders, LEFTS, 1000, bounds), placed(rows, RIGHTS, 0, bounds), "left")
    assert results(trial) == expected


@pytest.mark.parametrize("as_of", [True, False])
def test_what_waits_follows_the_table_and_event_time_waits_too(as_of: bool) -> None:
    trial = Trial(named(as_of=as_of))
    trial.send(order(1, 20), order(2, 30))
    trial.send(row("old", 10), row("new", 40))
    trial.restart()
    trial.end("l/0")
    assert trial.values("out") == []
    trial.bootstrap()
    assert trial.values("out") == [b"1 + old", b"2 + old"]
    trial.send(row("later", 60), order(3, 50, "l/1"), order(4, 70, "l/1"))
    trial.finish()
    assert trial.values("out")[2:] == [b"3 + new", b"4 + later"]
    assert trial.counts["behind", "join-key"] == 0


def test_whoever_meets_a_table_may_come_long_after_it() -> None:
    trial = Trial(named())
    trial.bootstrap(row("old", 10), row("new", 40))
    trial.send(order(1, 20))
    trial.send(row("newest", 90), order(2, 95))
    trial.finish()
    assert trial.values("out") == [b"1 + old", b"2 + newest"]
    assert not +trial.counts


def test_an_empty_table_and_one_that_has_ended_are_read() -> None:
    trial = Trial(named())
    trial.send(order(1, 20))
    trial.bootstrap()
    trial.send(order(2, 30))
    assert trial.values("out") == [b"1 + none"]
    trial = Trial(named())
    trial.send(row("old", 10))
    trial.end("r/0")
    trial.send(order(1, 20))
    trial.finish()
    assert trial.values("out") == [b"1 + old"], "at the end of event time, all tables are at their end"


def test_each_stream_waits_for_the_tables_that_it_meets_by_whatever_way() -> None:
    app = Pipeline("several")
    names = app.table("names/*", decode=bytes.decode, bootstrap=True)
    rates = app.table("rates/*", decode=bytes.decode, bootstrap=True, await_streams=4, name="rates")
    plain = app.table("plain/*", decode=bytes.decode)
    rules = app.broadcast("rules/*", decode=bytes.decode, bootstrap=True)
    orders, others = app.source("orders/*,late/*"), app.source("others/*", name="others")
    named = orders.join(names, on=lambda value: value.key, retention="1s", name="named")
    named.map(repr, name="a").sink("a")
    again = others.join(rates, on=lambda value: value.key, retention="1s", name="rated").join(
        plain, on=lambda pair: pair[0].key, retention="1s", name="plain-join"
    )
    again.map(repr, name="b").sink("b")
    app.source("names/0", name="raw").key_by(name="ruled-key").map_with(rules, lambda value, rows: "", name="ruled").sink("c")
    app.source("free/*").map(repr, name="d").sink("d")
    assert app.graph.bootstraps == [
        Bootstrap("names/*", ("names/*",), ("orders/*", "late/*"), 0),
        Bootstrap("rates", ("rates/*",), ("plain/*", "others/*"), 4),
        Bootstrap("rules/*", ("rules/*",), ("names/0",), 0),
    ]
    trial = Trial(app)
    trial.send(Message(b"x", b"k", 5, "free/0"), Message(b"x", b"k", 5, "orders/0"))
    assert len(trial.values("d")) == 1
    assert trial.values("a") == []


def test_a_table_that_is_new_in_a_later_version_is_read_first_too() -> None:
    trial = Trial(named())
    trial.bootstrap(row("old", 10))
    trial.send(order(1, 20), row("new", 30))
    app = Pipeline("named")
    names = app.table("r/*", decode=bytes.decode, bootstrap=True, name="names")
    more = app.table("q/*", decode=bytes.decode, bootstrap=True, name="more")
    for table, name in ((names, "join"), (more, "second")):
        pairs = app.source("l/*", name=f"{name}-orders").join(
            table, on=lambda value: value.key, how="left", retention="1000us", name=name
        )
        pairs.map(text_of, name=f"{name}-text").sink(name)
    trial.restart(app)
    trial.send(order(2, 25))
    assert trial.values("join") == []
    trial.bootstrap(row("other", 20, "q/0"))
    trial.finish()
    assert trial.values("join") == [b"1 + old", b"2 + old"]
    assert trial.values("second") == [b"2 + other"]


def test_a_pattern_that_a_later_version_adds_is_read_first_too() -> None:
    trial = Trial(named())
    trial.bootstrap(row("old", 10))
    trial.restart(named(patterns="r/*,q/*"))
    trial.send(order(1, 30))
    trial.bootstrap(row("more", 20, "q/0"))
    trial.restart(named())
    trial.send(order(2, 40))
    trial.finish()
    assert trial.values("out") == [b"1 + more", b"2 + more"], "nothing is to be read again"


def test_what_has_waited_follows_once_a_later_version_has_no_table_that_is_read_first() -> None:
    trial = Trial(named())
    trial.send(order(1, 20), row("old", 10), row("new", 40))
    trial.end("l/0")
    trial.restart()
    assert trial.values("out") == []
    trial.restart(named(bootstrap=False))
    assert trial.values("out") == [b"1 + old"]
    trial.restart(named())
    trial.send(order(2, 60))
    trial.bootstrap(row("newest", 50))
    trial.finish()
    assert trial.values("out")[1:] == [b"2 + newest"], "it is read first again"


def test_what_does_not_fit_is_refused_where_it_is_given() -> None:
    app = Pipeline("refused")
    for add in (app.table, app.broadcast):
        with pytest.raises(GraphError, match=r"bootstrap must be True or False"):
            add("r/*", decode=bytes.decode, bootstrap="yes")  # type: ignore[call-overload]
        with pytest.raises(GraphError, match=r"source r/\*: await_time lets event time begin before the table is read"):
            add("r/*", decode=bytes.decode, bootstrap=True, await_time="1 minute")
    trial = Trial(named())
    with pytest.raises(TrialError, match="l/0 is no stream of a table with bootstrap=True"):
        trial.bootstrap(order(1, 20))
    with pytest.raises(TrialError, match="a history is read before all streams"):
        trial.history(order(1, 20))
    trial.bootstrap()
    with pytest.raises(TrialError, match="has no table with bootstrap=True that is yet to be read"):
        trial.bootstrap()


def test_the_option_changes_no_state_that_a_checkpoint_has() -> None:
    with_option, app = named(), Pipeline("named")
    table = app.table("r/*", decode=bytes.decode, name="names")
    pairs = app.source("l/*").join(table, on=lambda value: value.key, how="left", retention="1000us")
    pairs.map(text_of, name="text").sink("out")
    assert with_option.graph.fingerprints == app.graph.fingerprints

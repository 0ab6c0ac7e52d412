"""Market Spread on its feed and on the real opening quotes, against a plain computation that shares no code with it."""

import struct
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import pytest
from tests.examples.loading import FOLDER, Example

from headrace.pipelines import Message, Trial
from headrace.sdk import Batch, Packed, Position

example = Example("market_spread")
app, columns, messages, feed, source = example.app, example.columns, example.messages, example.feed, example.source

KeyValue = tuple[bytes, bytes]
DATA = FOLDER.parents[1] / "shared" / "data"


def nbbo(symbol: bytes, bid: float, offer: float) -> bytes:
    return b"\x02" + symbol + b"20160902-15:47:52.000" + struct.pack(">dd", bid, offer)


def order(symbol: bytes, order_id: bytes = b"000001") -> bytes:
    return b"\x01\x02" + struct.pack(">I", 7) + order_id + symbol + struct.pack(">dd", 640, 19.5) + b"20160902-15:47:52.250"


def plain(quotes: Iterable[bytes], orders: Iterable[bytes]) -> list[bytes]:
    """What is rejected where all quotes are there before the first order: symbols, and ids of orders."""
    markets: dict[bytes, bool] = {}
    for quote in quotes:
        bid, offer = struct.unpack_from(">dd", quote, 26)
        markets[quote[1:5]] = not (offer - bid < 0.05 and 2 * (offer - bid) / (bid + offer) < 0.05)
    return [one[6:16] for one in orders if markets.get(one[12:16], True)]


def sent(trial: Trial, stream: str, pairs: Sequence[KeyValue]) -> None:
    trial.send(*(Message(value, key, stream=stream) for key, value in pairs))


def values(pairs: Iterable[KeyValue]) -> list[bytes]:
    return [value for _, value in pairs]


def rejected(trial: Trial) -> list[bytes]:
    """Of each result the id and symbol of its order."""
    return [value[5:15] for value in trial.values("rejected")]


def test_records_have_the_lengths_and_fields_of_the_format() -> None:
    quote, placed = nbbo(b" NFX", 32.8351, 32.8878), order(b" NFX")
    assert (len(quote), len(placed)) == (42, 53)
    assert messages.decode_nbbo(quote) == (2, b" NFX", b"20160902-15:47:52.000", 32.8351, 32.8878)
    assert messages.decode_order(placed) == (1, 2, 7, b"000001", b" NFX", 640.0, 19.5, b"20160902-15:47:52.250")
    result = messages.Result(2, 7, b"000001", b" NFX", 640.0, 19.5, 32.8351, 32.8878, 1472831272250)
    payload = messages.encode_result(result)
    assert payload == b"\x02" + placed[2:6] + b"000001 NFX" + struct.pack(">ddddQ", 640, 19.5, 32.8351, 32.8878, 1472831272250)
    assert len(payload) == 55
    assert messages.decode_result(payload) == result


@pytest.mark.parametrize(
    ("bid", "offer", "rejects"),
    [
        (10.0, 10.04, False),
        (10.0, 10.0625, True),  # 6.25 cents
        (0.75, 0.78125, False),  # 4.1 %
        (0.5, 0.53125, True),  # 6.1 %, though only 3 cents
        (10.0, 10.0, False),
    ],
)
def test_an_order_is_rejected_where_prices_lie_too_far_apart(bid: float, offer: float, rejects: bool) -> None:
    trial = Trial(app.app)
    sent(trial, "market/nbbo", [(b"ABCD", nbbo(b"ABCD", bid, offer))])
    sent(trial, "market/orders", [(b"ABCD", order(b"ABCD"))])
    results = [messages.decode_result(value) for value in trial.values("rejected")]
    assert results == ([(2, 7, b"000001", b"ABCD", 640.0, 19.5, bid, offer, 1472831272250)] if rejects else [])


def test_orders_are_rejected_before_the_first_quote_and_change_nothing() -> None:
    trial = Trial(app.app)
    sent(trial, "market/orders", [(b"ABCD", order(b"ABCD")), (b"ABCD", order(b"ABCD"))])
    assert len(trial.values("rejected")) == 2
    assert trial.states("markets")[b"ABCD"] == app.Market()


def test_five_of_the_first_350_000_orders_are_rejected() -> None:
    market, trial = feed.Feed(), Trial(app.app)
    quotes: list[bytes] = []
    orders: list[bytes] = []
    for block in range(35):
        if block % 5 == 0:
            pairs = market.nbbo(block // 5).messages()
            sent(trial, "market/nbbo", pairs)
            quotes += values(pairs)
        pairs = market.orders(block).messages()
        sent(trial, "market/orders", pairs)
        orders += values(pairs)
    expected = plain(quotes, orders)
    assert rejected(trial) == expected
    assert len(expected) == 5
    assert len(trial.states("markets")) == 350


def test_every_order_for_a_symbol_that_rejects_is_rejected_at_any_time() -> None:
    market, trial = feed.Feed(), Trial(app.app)
    sent(trial, "market/nbbo", market.nbbo(0).messages())
    rejecting = market.names[market.rejecting].tolist()
    assert len(rejecting) == 15
    orders = [(name, order(name)) for name in market.names.tolist()]
    for block in range(1, 4):
        sent(trial, "market/nbbo", market.nbbo(block).messages())
        sent(trial, "market/orders", orders)
    assert [value[11:15] for value in trial.values("rejected")] == rejecting * 3


def test_results_do_not_depend_on_batches_once_the_market_is_open() -> None:
    market = feed.Feed()
    quotes, orders = market.nbbo(0).messages()[:2000], market.orders(0).messages()[:2000]
    name = market.names[market.rejecting][0]
    orders += [(name, order(name, b"%06d" % n)) for n in range(20)]
    found = []
    for size in (17, 500, 5000):
        trial = Trial(app.app)
        sent(trial, "market/nbbo", quotes[:350])
        for at in range(0, 2020, size):
            sent(trial, "market/orders", orders[at : at + size])
            sent(trial, "market/nbbo", quotes[350 + at : 350 + at + size])
        found.append(rejected(trial))
    assert found[0] == plain(values(quotes), values(orders))
    assert found[1:] == [found[0]] * 2


@pytest.mark.parametrize("size", [17, 500, 5000])
@pytest.mark.parametrize("buckets", [1, 3])
def test_columns_give_the_same(size: int, buckets: int) -> None:
    market = feed.Feed(rejected=0.05)
    streams = {"market/nbbo": market.nbbo(0).messages()[:3000], "market/orders": market.orders(0).messages()[:3000]}
    one_by_one, in_columns = Trial(app.app), Trial(columns.columns, buckets=buckets)
    for trial in (one_by_one, in_columns):
        sent(trial, "market/orders", [(b"ABCD", order(b"ABCD"))])
        sent(trial, "market/nbbo", streams["market/nbbo"][:350])
        for at in range(0, 3000, size):
            for stream in ("market/orders", "market/nbbo"):
                sent(trial, stream, streams[stream][at : at + size])
    assert len(in_columns.values("rejected")) > 100
    assert by_symbol(in_columns) == by_symbol(one_by_one)
    assert in_columns.states("markets") == one_by_one.states("markets")


def by_symbol(trial: Trial) -> dict[object, list[bytes]]:
    """Everything that was written about each symbol, in order."""
    found: dict[object, list[bytes]] = {}
    for written in trial.written["rejected"]:
        found.setdefault(written.key, []).append(written.value)
    return found


def test_the_feed_is_as_the_original_describes_it() -> None:
    market = feed.Feed()
    orders = [messages.decode_order(value) for block in range(5) for _, value in market.orders(block).messages()]
    normal = market.names[~market.rejecting].tolist()
    busy = set(normal[: len(normal) // 5])
    assert 0.79 < sum(one[4] in busy for one in orders) / len(orders) < 0.81
    assert {one[1] for one in orders} == {1, 2}
    assert {one[2] for one in orders} == set(range(1, 301))
    assert {one[5] for one in orders} == set(range(10, 660, 10))
    assert [one[3] for one in orders] == [b"%06d" % n for n in range(50_000)]
    quotes = [messages.decode_nbbo(value) for block in range(5) for _, value in market.nbbo(block).messages()]
    rejecting = set(market.names[market.rejecting].tolist())
    cents = {round(100 * (offer - bid), 9) for _, symbol, _, bid, offer in quotes if symbol not in rejecting}
    assert cents == {0.0, 1.0, 2.0, 3.0}
    wide = [offer - bid for _, symbol, _, bid, offer in quotes if symbol in rejecting]
    assert 0.05 <= min(wide) < max(wide) <= 0.08
    assert [one[1] for one in quotes[:350]] == market.names.tolist()


def test_keys_are_symbols_and_each_block_is_made_from_its_number() -> None:
    market = feed.Feed()
    for block in (market.nbbo(3), market.orders(3)):
        at = 1 if len(block.values) == 42 * block.count else 12
        assert all(value[at : at + 4] == key for key, value in block.messages())
    again = feed.Feed()
    assert (again.orders(7), again.nbbo(7)) == (market.orders(7), market.nbbo(7))
    assert feed.Feed(seed=2).orders(7) != market.orders(7)


@pytest.mark.parametrize(("name", "symbols"), [("350", 350), ("3k", 2926)])
def test_15_symbols_of_the_real_opening_quotes_reject(name: str, symbols: int) -> None:
    quotes = feed.read_opening(real(name))
    market, trial = feed.Feed(quotes), Trial(app.app)
    sent(trial, "market/nbbo", market.nbbo(0).messages()[:symbols])
    orders = [(quote[1:5], order(quote[1:5])) for quote in quotes]
    sent(trial, "market/orders", orders)
    assert len(trial.states("markets")) == len(quotes) == symbols
    assert rejected(trial) == plain(quotes, values(orders))
    assert len(rejected(trial)) == 15
    sent(trial, "market/nbbo", market.nbbo(0).messages()[symbols:])
    sent(trial, "market/orders", orders)
    assert rejected(trial)[15:] == rejected(trial)[:15], "a symbol that rejects continues to reject, and no other does"


def real(name: str) -> Path:
    path = DATA / f"market-spread-{name}-symbols-initial-nbbo.msg"
    if not path.exists():
        pytest.skip(f"the real opening quotes are not here: {path.name} is not in ../shared/data beside this repository")
    return path


def pairs_of(items: Iterable[object]) -> list[tuple[int, bytes, bytes]]:
    """Sequence, key and value of every message."""
    found: list[tuple[int, bytes, bytes]] = []
    for item in items:
        assert isinstance(item, Batch)
        assert item.sequences is not None
        found += zip(item.sequences, split(item.keys), split(item.values), strict=True)
    return found


def split(column: object) -> list[bytes]:
    assert isinstance(column, Packed)
    cut, at = [], 0
    for size in column.lengths:
        cut.append(bytes(column.data[at : at + size]))
        at += size
    return cut


@pytest.mark.parametrize("partition", ["nbbo", "orders"])
def test_the_source_goes_on_after_any_position(partition: str) -> None:
    market = source.Market(feed.Feed(), 25_000)
    market.acknowledged("nbbo", Position(sequence=349))
    everything = pairs_of(market.read(partition, None))
    assert [sequence for sequence, _, _ in everything] == list(range(25_000))
    for done in (0, 9_998, 9_999, 10_000, 24_998, 24_999):
        assert pairs_of(market.read(partition, Position(sequence=done))) == everything[done + 1 :]


def test_orders_begin_when_the_opening_quotes_are_committed() -> None:
    market = source.Market(feed.Feed(), 1_000)
    orders = market.read("orders", None)
    assert list(islice(orders, 3)) == [None] * 3
    market.acknowledged("nbbo", Position(sequence=348))
    assert next(orders) is None
    market.acknowledged("nbbo", Position(sequence=349))
    assert len(pairs_of(orders)) == 1_000

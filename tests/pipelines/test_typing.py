"""What type checkers know of flows. `make lint` and test_type_checkers check this file; running it shows that it is valid.

A line with `type: ignore` is one that both checkers refuse: they report the comment otherwise.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, assert_type

import pytest
from google.protobuf.struct_pb2 import Struct

from headrace.pipelines import (
    Aggregation,
    Broadcast,
    Call,
    Context,
    Flow,
    GraphError,
    Headers,
    KeyedFlow,
    Message,
    OnError,
    PerProcess,
    Pipeline,
    Table,
    Window,
    Windowed,
    collect,
    count,
    count_window,
    distinct,
    maximum,
    mean,
    minimum,
    primary_key,
    quantile,
    sliding,
    top_n,
    total,
    tumbling,
)
from headrace.pipelines.formats import Contract, avro, json, protobuf, text


@dataclass
class Order:
    item: str
    price: Decimal


@dataclass
class Return(Order):
    reason: str


@dataclass
class Basket:
    items: list[str]


def flow() -> KeyedFlow[int]:
    return Pipeline("typed").source("n/*", decode=int).key_by(str)


def described(key: str, celsius: float, window: Window) -> str:
    return f"{key} {window.start_time:%H:%M} {celsius:.1f}"


def of_count(key: str, result: int, window: None) -> bytes:
    return b"%d" % result


class Longest(Aggregation[int, int, str]):
    def initial(self) -> int:
        return 0

    def update(self, accumulator: int, value: int) -> int:
        return max(accumulator, value)

    def output(self, key: str, accumulator: int, window: Window | None) -> str:
        return f"{key} {accumulator}"


def test_results_of_windows_have_the_type_that_output_gives() -> None:
    minutes = flow().window(tumbling("1 minute"), delay="10s", emit_every="5s")
    assert_type(minutes, Windowed[int, Window])
    assert_type(minutes.aggregate(mean(of=float), output=described), KeyedFlow[str])
    assert_type(
        minutes.aggregate(count(), output=lambda key, n, window: (n, window.end), name="ends"), KeyedFlow[tuple[int, int]]
    )
    assert_type(minutes.collect(lambda key, values, window: values[0] + window.start, name="starts"), KeyedFlow[int])


def test_without_output_they_have_that_of_the_aggregation() -> None:
    assert_type(flow().window(sliding("1h", every="5m")).aggregate(mean()), KeyedFlow[float])
    assert_type(flow().window(tumbling("1h")).aggregate(Longest()), KeyedFlow[str])
    assert_type(flow().aggregate(count()), KeyedFlow[int])


def test_windows_that_count_have_none() -> None:
    pairs = flow().window(count_window(2))
    assert_type(pairs, Windowed[int, None])
    assert_type(pairs.aggregate(count(), output=of_count), KeyedFlow[bytes])
    assert_type(flow().aggregate(count(), output=of_count), KeyedFlow[bytes])


def test_functions_make_aggregations_with_types_of_their_own() -> None:
    def append(values: list[int], value: int) -> list[int]:
        return [*values, value]

    days = flow().window(tumbling("1 day"))
    assert_type(days.aggregate(initial=list[int], update=append), KeyedFlow[list[int]])
    named = days.aggregate(initial=list[int], update=append, output=lambda key, values, window: f"{len(values)}", name="named")
    assert_type(named, KeyedFlow[str])
    assert_type(flow().aggregate(initial=int, update=int.__add__), KeyedFlow[int])


def test_what_a_result_is_none_for_goes_no_further() -> None:
    def large(key: str, sum_: int, window: Window) -> int | None:
        return sum_ if sum_ > 9 else None

    assert_type(flow().window(tumbling("1s")).aggregate(total(), output=large), KeyedFlow[int])
    assert_type(flow().window(tumbling("1s")).aggregate(collect(), output=lambda key, values, _: len(values)), KeyedFlow[int])


def orders(app: Pipeline) -> Flow[Order]:
    def decode(payload: bytes) -> Order | None:
        item, _, price = payload.decode().partition(" ")
        return Order(item, Decimal(price)) if price else None

    return app.source("orders/*", decode)


def returns(app: Pipeline) -> Flow[Return]:
    return app.source("returns/*", decode=lambda payload: Return(payload.decode(), Decimal(0), ""))


def test_a_source_without_a_decoder_has_messages() -> None:
    app = Pipeline("typed")
    assert_type(app.source("a/*"), Flow[Message])
    assert_type(app.source("b/*", None, idle_after="1 minute"), Flow[Message])
    assert_type(app.source("c/*").key_by(), KeyedFlow[Message])
    assert_type(app.source("d/*").map(lambda message: message.value), Flow[bytes])
    assert_type(app.source("e/*").key_by(lambda message: message.key).map(lambda message: message.sequence), KeyedFlow[int])
    assert_type(app.source("f/*").deduplicate(within="1 hour"), Flow[Message])


def test_a_decoder_gives_the_type_without_none() -> None:
    app = Pipeline("typed")
    assert_type(app.source("a/*", decode=int), Flow[int])
    assert_type(app.source("b/*", bytes.decode), Flow[str])
    assert_type(orders(app), Flow[Order])

    def maybe(decode: Callable[[bytes], int] | None) -> None:
        assert_type(app.source("c/*", decode), Flow[int] | Flow[Message])

    maybe(int)


def test_merged_flows_have_the_types_of_all() -> None:
    app = Pipeline("typed")
    numbers, texts, raw = app.source("n/*", decode=int), app.source("t/*", decode=bytes.decode), app.source("r/*")
    assert_type(numbers.merge(texts), Flow[int | str])
    assert_type(numbers.merge(numbers), Flow[int])
    assert_type(numbers.merge(texts, raw), Flow[int | str | Message])
    assert_type(numbers.merge(texts, raw, orders(app)), Flow[int | str | Message | Order])
    assert_type(numbers.merge(numbers, numbers, numbers, numbers), Flow[int])
    assert_type(numbers.merge(), Flow[int])
    assert_type(numbers.merge(texts).key_by(lambda value: str(value)), KeyedFlow[int | str])
    assert_type(numbers.key_by(str).merge(texts.key_by(str), name="keyed"), Flow[int | str])

    def described(value: int | str) -> str:
        return f"{value}"

    assert_type(numbers.merge(texts).map(described), Flow[str])


def test_a_flow_of_a_subclass_is_a_flow_of_the_class() -> None:
    app = Pipeline("typed")

    def priced(flow: Flow[Order]) -> Flow[Decimal]:
        return flow.map(lambda order: order.price)

    assert_type(priced(returns(app)), Flow[Decimal])
    every: list[Flow[Order]] = [orders(app), returns(app).filter(lambda order: order.reason, name="with-reasons")]
    assert len(every) == 2


def test_aggregations_have_the_types_of_what_they_aggregate() -> None:
    by_item = orders(Pipeline("typed")).key_by(lambda order: order.item)
    hours = by_item.window(tumbling("1 hour"))
    assert_type(flow().aggregate(total()), KeyedFlow[int])
    assert_type(by_item.aggregate(total(lambda order: order.price), name="a"), KeyedFlow[Decimal])
    assert_type(by_item.aggregate(total(of=lambda order: float(order.price)), name="b"), KeyedFlow[float])
    assert_type(hours.aggregate(total(lambda order: order.price), name="c"), KeyedFlow[Decimal])
    assert_type(by_item.aggregate(distinct(lambda order: order.item), name="n"), KeyedFlow[int])
    assert_type(by_item.aggregate(top_n(3, lambda order: order.price), name="o"), KeyedFlow[list[Order]])
    assert_type(hours.aggregate(top_n(3, of=lambda order: order.item), name="p"), KeyedFlow[list[str]])
    assert_type(by_item.aggregate(quantile(0.5, lambda order: float(order.price)), name="q"), KeyedFlow[float])
    assert_type(hours.aggregate(quantile([0.5, 0.9], lambda order: float(order.price)), name="r"), KeyedFlow[list[float]])
    assert_type(hours.aggregate(maximum(lambda order: order.price), name="d"), KeyedFlow[Decimal])
    assert_type(flow().aggregate(maximum()), KeyedFlow[int])
    assert_type(flow().aggregate(minimum()), KeyedFlow[int])
    assert_type(flow().aggregate(collect()), KeyedFlow[list[int]])
    assert_type(hours.aggregate(collect(lambda order: order.item), name="e"), KeyedFlow[list[str]])
    assert_type(flow().aggregate(mean()), KeyedFlow[float])
    assert_type(hours.aggregate(count(), before_shuffle=True, name="k"), KeyedFlow[int])
    assert_type(hours.aggregate(count(), output=lambda key, n, window: (window.end, n), name="f"), KeyedFlow[tuple[int, int]])
    shown = hours.aggregate(total(lambda order: order.price), output=lambda key, price, window: f"{key} {price:.2f}", name="g")
    assert_type(shown, KeyedFlow[str])


def test_flows_by_name_have_the_types_of_what_is_divided() -> None:
    all_orders = orders(Pipeline("typed"))
    assert_type(all_orders.split(lambda order: order.item, ["tea"], name="a"), Mapping[str, Flow[Order]])
    by_item = all_orders.key_by(lambda order: order.item)
    assert_type(by_item.split(lambda order: order.item, ["tea"], name="b"), Mapping[str, KeyedFlow[Order]])
    assert_type(all_orders.counter("tea", lambda order: len(order.item)), Flow[Order])
    counted = by_item.counter("items", by=lambda order: order.item, values=["tea"])
    assert_type(counted.histogram("prices", lambda order: float(order.price), [1, 10]), KeyedFlow[Order])
    all_orders.counter("no amount", lambda order: order.item)  # type: ignore
    all_orders.histogram("no number", lambda order: order.item, [1])  # type: ignore
    by_item.counter("no label", by=lambda order: order.price, values=["1"])  # type: ignore
    all_orders.sink_by(lambda order: order.price, ["tea"], str, name="c")  # type: ignore


def test_steps_keep_and_change_types() -> None:
    app = Pipeline("typed")
    all_orders = orders(app)

    def words(order: Order) -> Iterator[str]:
        yield from order.item.split()

    def keep(order: Order, basket: Basket) -> int | None:
        basket.items.append(order.item)
        return len(basket.items) if order.item else None

    def keep_until(order: Order, basket: Basket, context: Context) -> int | None:
        context.set_timer(after="1 hour")
        return None

    def ended(basket: Basket, context: Context) -> int:
        return len(basket.items)

    def spread(order: Order, basket: Basket) -> list[bytes] | None:
        return [order.item.encode()]

    def basket() -> Basket:
        return Basket([])

    by_item = all_orders.key_by(lambda order: order.item)
    assert_type(all_orders.flat_map(words), Flow[str])
    assert_type(all_orders.filter(lambda order: order.item), Flow[Order])
    assert_type(all_orders.map_with_headers(lambda order, headers: headers.get("tenant")), Flow[bytes])
    assert_type(all_orders.set_headers(lambda order, headers: headers.without("a")), Flow[Order])
    assert_type(all_orders.set_headers(lambda order, headers: Headers(), name="none"), Flow[Order])
    assert_type(by_item.map(lambda order: order.price), KeyedFlow[Decimal])
    assert_type(by_item.filter(lambda order: order.price > 0), KeyedFlow[Order])
    assert_type(by_item.stateful(keep, basket), KeyedFlow[int])
    assert_type(by_item.stateful(keep_until, basket, on_timer=ended, clock_every="5s", ttl="1 day"), KeyedFlow[int])
    assert_type(by_item.stateful_flat(spread, basket), KeyedFlow[bytes])
    assert_type(by_item.deduplicate(lambda order: order.item, within="1 hour"), KeyedFlow[Order])
    assert_type(by_item.window(tumbling("1 hour")).late_values(), KeyedFlow[Order])


def test_async_functions_give_what_they_return() -> None:
    async def looked_up(order: Order, call: Call) -> str | None:
        return f"{order.item} {call.id}"

    async def of_text(value: str, call: Call) -> int:
        return len(value)

    flow = orders(Pipeline("typed"))
    assert_type(flow.map_async(looked_up, concurrency=5, timeout="1s", retries=2, setup=list), Flow[str])
    assert_type(flow.key_by(lambda order: order.item).map_async(looked_up, name="again"), KeyedFlow[str])
    flow.map_async(looked_up, cache_by=lambda order: order.item, teardown=print, setup=list, name="cached")
    flow.map_async(looked_up, cache_by=lambda order: order.nothing, name="wrong")  # type: ignore
    basket = PerProcess(list[int], teardown=lambda made: made.clear())
    assert_type(basket, PerProcess[list[int]])
    assert_type(basket(), list[int])
    PerProcess(list[int], teardown=lambda made: made.close())  # type: ignore
    flow.map_async(of_text)  # type: ignore
    with pytest.raises(GraphError):
        flow.map_async(lambda order, call: order.item, name="ordinary")  # type: ignore


def test_joins_have_pairs_and_none_where_a_side_may_be_missing() -> None:
    app = Pipeline("typed")
    left, right = app.source("l/*", decode=int).key_by(str), app.source("r/*", bytes.decode).key_by(str)
    assert_type(left.join_within(right, before="1s", after="1s", name="a"), KeyedFlow[tuple[int, str]])
    assert_type(left.join_within(right, before="1s", after="1s", how="left", name="b"), KeyedFlow[tuple[int, str | None]])
    full = left.join_within(right, before="1s", after="1s", how="full", name="c")
    windows = left.window(tumbling("1s"))
    assert_type(windows.join(right, name="wa"), KeyedFlow[tuple[int, str]])
    assert_type(windows.join(right, how="left", name="wb"), KeyedFlow[tuple[int, str | None]])
    assert_type(windows.join(right, how="full", name="wc"), KeyedFlow[tuple[int | None, str | None]])
    assert_type(full, KeyedFlow[tuple[int | None, str | None]])
    items, numbers = app.table("i/*", decode=json(Basket)), app.table("n/*", decode=int, key=lambda message: message.sequence)
    assert_type(items, Table[bytes | None, Basket])
    assert_type(numbers, Table[int, int])
    by_text = orders(app)
    assert_type(by_text.join(numbers, on=lambda order: 5, retention="1h", name="d"), KeyedFlow[tuple[Order, int]])
    optional = by_text.join(numbers, on=lambda order: 5, how="left", as_of=False, name="e")
    assert_type(optional, KeyedFlow[tuple[Order, int | None]])
    by_text.join(numbers, on=lambda order: order.item, as_of=False, name="f")  # type: ignore
    optional.map(lambda pair: pair[1] + 1, name="g")  # type: ignore
    full.map(lambda pair: pair[0] + 1, name="h")  # type: ignore
    with pytest.raises(GraphError):
        left.join_within(app.source("o/*"), before="1s", after="1s", name="i")  # type: ignore
    with pytest.raises(GraphError):
        left.join_within(items, before="1s", after="1s", name="j")  # type: ignore
    with pytest.raises(GraphError):
        by_text.join(left, on=lambda order: 5, as_of=False, name="k")  # type: ignore
    with pytest.raises(GraphError):
        by_text.join(numbers, on=lambda order: 5, name="m")  # type: ignore
    with pytest.raises(GraphError):
        left.join_within(right, before="1s", after="1s", how="right", name="n")  # type: ignore
    with pytest.raises(GraphError, match="right is a flow after key_by"):
        windows.join(app.source("o/*"), name="wd")  # type: ignore


def test_rows_of_a_captured_table_have_keys_of_the_type_of_its_primary_key() -> None:
    app = Pipeline("typed")
    baskets = app.table("i/*", decode=json(Basket), key=primary_key("public.baskets", int))
    assert_type(baskets, Table[int, Basket])
    assert_type(app.table("p/*", decode=json(Basket), key=primary_key("p", tuple[int, str])), Table[tuple[int, str], Basket])
    assert_type(app.table("a/*", decode=json(Basket), key=primary_key("a")), Table[Any, Basket])
    assert_type(app.broadcast("b/*", decode=json(Basket), key=primary_key("b", str)), Broadcast[str, Basket])
    orders(app).join(baskets, on=lambda order: 5, as_of=False, name="c")
    orders(app).join(baskets, on=lambda order: order.item, as_of=False, name="d")  # type: ignore
    with pytest.raises(GraphError):
        primary_key("public.baskets", 5)  # type: ignore


def test_a_function_sees_rows_of_the_types_of_their_table() -> None:
    app = Pipeline("typed")
    baskets = app.broadcast("i/*", decode=json(Basket))
    numbers = app.broadcast("n/*", decode=int, key=lambda message: message.sequence, name="numbers")
    assert_type(baskets, Broadcast[bytes | None, Basket])
    assert_type(numbers, Broadcast[int, int])

    def raised(order: Order, rows: Mapping[int, int]) -> int:
        return len(order.item) + rows.get(5, 0)

    keyed = orders(app).key_by(lambda order: order.item)
    assert_type(keyed.map_with(numbers, raised), KeyedFlow[int])
    keyed.map_with(baskets, raised, name="a")  # type: ignore
    keyed.map_with(numbers, lambda order, rows: rows["text"], name="b")  # type: ignore
    with pytest.raises(AttributeError):
        orders(app).map_with(numbers, raised, name="c")  # type: ignore
    with pytest.raises(GraphError):
        keyed.map_with(app.table("t/*", decode=int), raised, name="d")  # type: ignore


def test_what_is_refused_when_it_runs_is_refused_by_type_checkers() -> None:
    app = Pipeline("typed")
    numbers = app.source("n/*", decode=int)
    by_key = numbers.key_by(str)
    with pytest.raises(GraphError):
        Pipeline("typed", on_error="fail")  # type: ignore
    with pytest.raises(GraphError):
        numbers.map(str, on_error="skip")  # type: ignore
    with pytest.raises(GraphError):
        by_key.window(tumbling("1s"), late="fire")  # type: ignore
    with pytest.raises(GraphError):
        by_key.window("1 minute")  # type: ignore
    with pytest.raises(GraphError):
        tumbling(60)  # type: ignore
    with pytest.raises(GraphError):
        count_window(2.5)  # type: ignore
    with pytest.raises(GraphError):
        numbers.merge([numbers])  # type: ignore
    with pytest.raises(GraphError):
        by_key.aggregate(count)  # type: ignore
    with pytest.raises(GraphError):
        by_key.window(tumbling("1s")).collect(lambda key, values: key)  # type: ignore
    with pytest.raises(GraphError):
        numbers.flat_map(5)  # type: ignore
    numbers.map(str.upper)  # type: ignore
    numbers.map(str, name="texts").key_by().aggregate(total())  # type: ignore
    numbers.flat_map(abs, on_error=OnError.SKIP)  # type: ignore
    by_key.aggregate(total(str.upper), name="sums")  # type: ignore
    by_key.aggregate(quantile(0.5, str.upper), name="quantile")  # type: ignore


def test_formats_give_flows_their_type() -> None:
    app = Pipeline("formats")
    orders = app.source("orders/*", decode=json(Order))
    assert_type(orders, Flow[Order])
    assert_type(app.source("frozen/*", decode=json(Order), contract="freeze"), Flow[Order])
    by_stream = app.source("mixed/*", decode=json(Order), contract={"mixed/a": Contract(types="discard"), "*/*": "evolve"})
    assert_type(by_stream, Flow[Order])
    assert_type(app.source("avro/*", decode=avro("string", str)), Flow[str])
    assert_type(app.source("text/*", decode=text), Flow[str])
    assert_type(app.source("protobuf/*", decode=protobuf(Struct)), Flow[Struct])
    rows = app.source("rows/*").decode_columns(json(Basket))
    assert_type(rows, Flow[dict[str, Any]])
    assert_type(app.source("keyed/*").key_by().decode_columns(json(Basket), name="keyed"), KeyedFlow[dict[str, Any]])
    rows.sink("rows", encode=json)
    with pytest.raises(GraphError, match="json has no columns"):
        app.source("none/*").decode_columns(json)
    orders.decode_columns(json(Basket), name="late")  # type: ignore[misc]
    orders.sink("copies", encode=json(Order))
    orders.sink("wrong", encode=json(Basket))  # type: ignore[arg-type]

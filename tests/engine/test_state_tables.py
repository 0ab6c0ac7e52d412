"""All states of a step as a table of Spark, of an application that runs."""

import datetime
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.engine.stored_orders import Order, mixed, orders
from tests.examples.rig import rig

from headrace.connectors import FileSource
from headrace.engine import CheckpointError, OptionError, StoredStates, read_state
from headrace.engine.applications.offline import state_table
from headrace.engine.applications.offline.state_rows import StateRows
from headrace.pipelines import StateError

NUMBERS = range(45)
ORDER = "struct<seen:bigint,parts:array<string>,last:timestamp,price:double>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("orders")


@pytest.fixture(scope="module")
def checkpoint(spark: SparkSession, folder: Path) -> str:
    """The checkpoint of an application that has read all numbers; its states are read while it runs, too."""
    numbers = folder / "numbers"
    numbers.write_text("".join(f"{n}\n" for n in NUMBERS))
    place = str(folder / "checkpoint")

    def is_seen(_: Path) -> bool:
        if not list(Path(place).glob("commits/[0-9]*")):
            return False
        states = StoredStates(None, place, orders().graph)
        found = {row.key: row.state.seen for row in read_state(orders(), spark, place, "by_text").collect()}
        return sum(found.values()) == len(NUMBERS) and states.find("by_text", "k3") is not None

    with rig(spark, folder) as running:
        running.run(orders(), FileSource("n", [numbers], follow=False), until=is_seen)
    return place


def oracle(remainder: int) -> Order:
    numbers = [n for n in NUMBERS if n % 7 == remainder]
    return Order(len(numbers), [f"p{n}" for n in numbers], datetime.datetime.fromtimestamp(numbers[-1], datetime.UTC))


def test_states_of_a_class_have_a_column_for_each_field(spark: SparkSession, checkpoint: str) -> None:
    batch = StoredStates(None, checkpoint, orders().graph).committed.batch
    for step, type_, keys in (("by_text", "string", [f"k{n}" for n in range(7)]), ("by_number", "bigint", list(range(7)))):
        table = read_state(orders(), spark, checkpoint, step)
        assert [(field.name, field.dataType.simpleString()) for field in table.schema] == [
            ("key", type_),
            ("state", ORDER),
            ("batch", "bigint"),
        ]
        rows: dict[Any, Any] = {row.key: row for row in table.collect()}
        assert sorted(rows) == keys
        for remainder, key in enumerate(keys):
            expected, found = oracle(remainder), rows[key].state
            assert (found.seen, found.parts, found.price) == (expected.seen, expected.parts, expected.price)
            assert expected.last is not None
            assert found.last.timestamp() == expected.last.timestamp()
            assert rows[key].batch == batch


def test_other_states_and_keys_of_several_types_are_json(spark: SparkSession, checkpoint: str) -> None:
    rows = read_state(orders(), spark, checkpoint, "lists").collect()
    expected: dict[str, list[int]] = {}
    for n in NUMBERS:
        expected.setdefault(json.dumps(mixed(n)), []).append(n)
    assert {row.key: json.loads(row.state) for row in rows} == expected

    sums = read_state(orders(), spark, checkpoint, "sums")
    assert sums.schema["key"].dataType.simpleString() == "binary"
    assert {bytes(row.key) for row in sums.collect()} == {b"0", b"1"}

    orders_ = read_state(orders(), spark, checkpoint, "by_number", as_json=True).collect()
    assert {row.key: json.loads(row.state)["seen"] for row in orders_} == {n: oracle(n).seen for n in range(7)}


def test_the_table_is_as_of_one_micro_batch_whatever_is_deleted_meanwhile(
    spark: SparkSession, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt reads states that an application has deleted after further micro-batches."""
    real, rounds = state_table._read, list[int]()
    advances: Iterator[bool] = iter([True])
    entry_of_gone = "1-0-0-" + 32 * "0"

    def read(session: SparkSession, rows: StateRows) -> Any:
        rounds.append(rows.batch)
        if len(rounds) > 1:
            return real(session, rows)
        gone = [(at, replace(entry, file=entry_of_gone)) for at, entry in rows.buckets]
        return real(session, replace(rows, buckets=gone))

    monkeypatch.setattr(state_table, "_read", read)
    monkeypatch.setattr(StoredStates, "advance", lambda _: next(advances))
    assert read_state(orders(), spark, checkpoint, "by_text").count() == 7
    assert len(rounds) == 2

    rounds.clear()
    monkeypatch.setattr(StoredStates, "advance", lambda _: False)
    with pytest.raises(CheckpointError, match=f"headrace/states/{entry_of_gone} in the checkpoint is missing"):
        read_state(orders(), spark, checkpoint, "by_text")


def test_what_has_no_table_is_refused_by_name(spark: SparkSession, checkpoint: str, folder: Path) -> None:
    with pytest.raises(OptionError, match=r"pipeline orders keeps no states in a step total; it does in: by_text, by_number"):
        read_state(orders(), spark, checkpoint, "total")
    with pytest.raises(CheckpointError, match=r"no committed micro-batch, and therefore no states"):
        read_state(orders(), spark, str(folder / "elsewhere"), "by_text")


def test_a_state_that_does_not_fit_its_columns_is_named() -> None:
    rows = StateRows(orders().graph, "by_text", [], frozenset(), "file:/nowhere", 3, as_json=False)
    with pytest.raises(StateError, match=r"step by_text: the state of key 'b' does not fit the columns of Order: .*as_json=True"):
        rows._states(["a", "b"], [Order(1), Order("many")])  # type: ignore[arg-type]
    with pytest.raises(StateError, match=r"key 'b' does not fit the columns of Order: it is not of class Order"):
        rows._states(["a", "b"], [Order(1), [1]])

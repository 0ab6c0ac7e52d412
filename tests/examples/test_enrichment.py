"""Orders and customers of Kafka into a Delta table and RabbitMQ, with real servers and Spark, though every process is killed."""

import contextlib
import os
import shutil
import signal
import sys
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pika
import pytest
from deltalake import DeltaTable
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.json import encode
from scripts.brokers import Kafka, RabbitMQ
from tests.deploy.test_processes import is_running, running
from tests.examples.loading import Example

from headrace.pipelines import Message, Trial

FOLDER = Path(__file__).parents[2] / "examples" / "enrichment"
WITHIN_S = 600.0
"""How long a start may take until all parts run, in seconds."""
MIN_ORDERS_PER_SECOND = 100
"""How many orders a second are read and written at least, on a machine that has much else to do."""
US = 1_000_000


def message(example: Example, record: Any) -> Message:
    """A record as the Kafka source sends it."""
    value = None if record.value is None else encode(record.value)
    partition = sum(record.key.encode()) % example.feed.PARTITIONS[record.topic]
    source = "customers" if record.topic == "customers" else "orders"
    return Message(value, record.key.encode(), int(record.time.timestamp()) * US, f"{source}/{record.topic}-{partition}")


def streams(example: Example) -> list[str]:
    names = {"placed": "orders", "customers": "customers"}
    return [f"{names[topic]}/{topic}-{n}" for topic, count in example.feed.PARTITIONS.items() for n in range(count)]


def test_the_application_is_short() -> None:
    lines = (FOLDER / "enrichment.py").read_text().splitlines()
    assert len(lines) <= 60
    assert f"in {len(lines)} lines" in (FOLDER / "README.md").read_text()


def test_the_feed_has_what_makes_it_hard() -> None:
    example = Example("enrichment")
    records = [*example.feed.day(0), *example.feed.day(1)]
    orders = [one.value for one in records if one.topic == "placed"]
    late, latest = 0, orders[0].time
    for order in orders:
        late, latest = late + (order.time < latest), max(latest, order.time)
    assert len(orders) > len(set(orders)) == 2 * example.feed.ORDERS_OF_A_DAY
    assert 0.02 < late / len(orders) < 0.08
    assert sum(one.value is None for one in records) > 10
    rows = example.plot.rows_of(records)
    assert len(example.plot.alerts_of(rows)) > 5
    assert 0 < sum(one.name is None for one in rows) < len(rows) // 5


@settings(max_examples=3, phases=(Phase.explicit, Phase.generate))
@given(
    bounds=st.lists(st.integers(0, 3_500), max_size=4),
    buckets=st.integers(1, 8),
    restarts=st.booleans(),
    first=st.integers(0, 300),
)
def test_rows_and_alerts_do_not_depend_on_batches_and_restarts(
    bounds: list[int], buckets: int, restarts: bool, first: int
) -> None:
    example, clock = Example("enrichment"), [0]
    records = [*example.feed.day(0), *example.feed.day(1), *example.feed.morning(2)]
    changes = [message(example, one) for one in records if one.topic == "customers"]
    placed = [message(example, one) for one in records if one.topic == "placed"]
    with pytest.MonkeyPatch.context() as patch:
        # States name the classes of the values that wait.
        patch.setitem(sys.modules, "enrichment", example.enrichment)
        trial = Trial(example.enrichment.app, buckets=buckets, now=lambda: clock[0])
        trial.open(*streams(example))
        trial.bootstrap(*changes[:first])
        parts = [0, *sorted(bounds), len(placed)]
        for start, end in pairwise(parts):
            trial.send(*placed[start:end])
            if restarts:
                trial.restart()
        trial.send(*changes[first:])
        for clock[0] in (0, 400 * US):
            trial.send()
    rows = example.plot.rows_of(records)
    assert sorted(trial.rows("enriched"), key=lambda one: one["id"]) == [fields(one) for one in rows]
    assert Counter(trial.values("alerts")) == Counter(map(encode, example.plot.alerts_of(rows)))


def fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("id", "customer", "amount", "time", "name", "city")}


@pytest.mark.in_turn(3, 6)
@pytest.mark.timeout(7200)
async def test_table_and_queue_contain_the_results_of_a_plain_loop_though_every_process_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: Kafka, rabbitmq: RabbitMQ, request: pytest.FixtureRequest
) -> None:
    folder, table = tmp_path / "enrichment", tmp_path / "table"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    deployment = folder / "deploy.toml"
    deployment.write_text(deployment.read_text().replace("[gateway]", '[gateway]\nlisten = "127.0.0.1:0"'))
    for name, value in {"KAFKA": kafka.url, "RABBITMQ": rabbitmq.url, "TABLE": str(table), "QUIET": "20 seconds"}.items():
        monkeypatch.setenv(name, value)
    example = Example("enrichment")
    orders_of_a_day = example.feed.ORDERS_OF_A_DAY
    orders = request.config.getoption("--orders")
    days, within_s = -(-orders // orders_of_a_day), WITHIN_S + orders / MIN_ORDERS_PER_SECOND
    parts = [*([*example.feed.day(number)] for number in range(days)), example.feed.morning(days)]
    example.feed.create()
    example.feed.create()  # all exist now
    example.feed.write(chain(*parts[: days // 2]))
    async with running(folder) as run:
        await run.until(lambda document: is_running(document) and rows(table) > orders_of_a_day // 4, within_s)
        kill(descendants(run.process.pid))
        await run.until(lambda document: is_running(document) and rows(table) > orders_of_a_day // 2, within_s)
        kill([run.process.pid, *descendants(run.process.pid)])
        await run.end()
    async with running(folder) as run:
        example.feed.write(chain(*parts[days // 2 :]))
        await run.until(lambda document: is_running(document) and rows(table) > days * orders_of_a_day, within_s)
        run.process.terminate()
        assert await run.end() == 0
    expected = example.plot.rows_of([record for part in parts for record in part])
    found = DeltaTable(str(table)).to_pyarrow_table().sort_by("id").to_pylist()
    assert found == [fields(one) for one in expected]
    assert alerts(rabbitmq) == Counter(map(encode, example.plot.alerts_of(expected)))
    example.plot.main(str(tmp_path / "enrichment.svg"))
    assert "<svg" in (tmp_path / "enrichment.svg").read_text()


def kill(processes: list[int]) -> None:
    """SIGKILL to processes. Some end by themselves once what has started them is gone."""
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(process: int) -> list[int]:
    """The processes that a process has started, and theirs: gateway, connectors, driver, JVM and Spark's Python workers."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found, level = list[int](), {process}
    while level:
        level = {pid for pid, parent in parents.items() if parent in level}
        found += level
    return found


def rows(table: Path) -> int:
    return DeltaTable(str(table)).count() if DeltaTable.is_deltatable(str(table)) else 0


def alerts(rabbitmq: RabbitMQ) -> Counter[bytes]:
    """The alerts of the queue; each message id counts once."""
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection:
        channel, found = connection.channel(), {}
        while (got := channel.basic_get("frequent"))[0] is not None:
            found[got[1].message_id] = got[2]
    return Counter(found.values())

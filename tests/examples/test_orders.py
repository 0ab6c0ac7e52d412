"""Orders from Kafka by a registry into a Delta table and RabbitMQ, with real servers and Spark, and kills."""

import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pika
import pytest
from deltalake import DeltaTable
from msgspec.json import encode
from scripts.brokers import Kafka, RabbitMQ, Registry
from tests.deploy.test_processes import is_running, pids, running
from tests.examples.loading import Example

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"
ORDERS = 3_000
HALF = ORDERS // 2
WITHIN_S = 420.0


def test_the_application_is_short() -> None:
    lines = (EXAMPLE / "spending.py").read_text().splitlines()
    assert len(lines) <= 60
    assert f"in {len(lines)} lines" in (EXAMPLE / "README.md").read_text()


def test_a_customer_is_alerted_about_an_order_once() -> None:
    example = Example("orders")
    alerts = example.plot.alerts_of(list(example.feed.place(ORDERS)))
    named = Counter(number for alert in alerts for number in alert.orders)
    assert len(alerts) > 20
    assert set(named.values()) == {1}
    assert all(alert.spent > example.spending.LIMIT for alert in alerts)


@pytest.mark.in_turn(3, 6)
@pytest.mark.timeout(1200)
async def test_table_and_queue_contain_the_results_of_a_plain_loop_though_processes_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: Kafka, rabbitmq: RabbitMQ, registry: Registry
) -> None:
    folder, table = tmp_path / "orders", tmp_path / "table"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    deployment = folder / "deploy.toml"
    deployment.write_text(deployment.read_text().replace("[gateway]", '[gateway]\nlisten = "127.0.0.1:0"'))
    variables = {"KAFKA": kafka.url, "RABBITMQ": rabbitmq.url, "REGISTRY": registry.url, "TABLE": str(table)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    example = Example("orders")
    orders = list(example.feed.place(ORDERS))
    example.feed.create()
    example.feed.create()  # both exist now
    example.feed.write(orders[:HALF])
    async with running(folder) as run:
        shown = await run.until(lambda document: is_running(document) and rows(table) == HALF, WITHIN_S)
        for name in "spending", "orders", "alerts":
            os.kill(pids(shown)[name], signal.SIGKILL)
        example.feed.write(orders[HALF:])
        await run.until(lambda document: is_running(document) and is_acknowledged(document, ORDERS), WITHIN_S)
        run.process.terminate()
        assert await run.end() == 0
    found = DeltaTable(str(table)).to_pyarrow_table().sort_by("id").to_pylist()
    assert [example.spending.Order(**row) for row in found] == orders
    assert alerts(rabbitmq) == Counter(map(encode, example.plot.alerts_of(orders)))
    unreadable = [line for path in (folder / "unreadable").glob("unreadable-*") for line in path.read_text().splitlines()]
    assert len(unreadable) == ORDERS // 100
    example.plot.main(str(tmp_path / "orders.svg"))
    assert "<svg" in (tmp_path / "orders.svg").read_text()


def rows(table: Path) -> int:
    return DeltaTable(str(table)).count() if DeltaTable.is_deltatable(str(table)) else 0


def is_acknowledged(document: dict[str, Any], orders: int) -> bool:
    """Whether also what is no order is acknowledged: one after each hundredth order."""
    return bool(document["acknowledged"] == orders + orders // 100)


def alerts(rabbitmq: RabbitMQ) -> Counter[bytes]:
    """The alerts of the queue; each message id counts once."""
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection:
        channel, found = connection.channel(), {}
        while (got := channel.basic_get("alerts"))[0] is not None:
            found[got[1].message_id] = got[2]
    return Counter(found.values())

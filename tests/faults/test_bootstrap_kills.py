"""A table that is read first, on real Spark, in both modes: its connector starts last, and every process is killed meanwhile."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.sources import number_key, number_sequence, number_value
from tests.faults.world import MODES, PARTITIONS, World

pytestmark = pytest.mark.timeout(900)
ORDERS = 200
"""How many orders each partition has before the table's connector starts, and how many changes the table."""
LAST = 300
APPLICATION = """
from headrace.pipelines import Pipeline


def changed_at(message):
    return message.sequence // 2 * 1_000_000 + 500_000


def row_text(pair):
    return f"row {pair[0].stream} {pair[0].sequence} {pair[1]}"


def sum_text(order, rows):
    return f"sum {order.stream} {order.sequence} {sum(rows.values())} of {len(rows)}"


app = Pipeline("table-first")
orders = app.source("dated/*", name="orders")
first = {"decode": int, "event_time": changed_at, "bootstrap": True, "await_streams": 2}
table = app.table("numbers/*", **first, name="table")
rows = orders.join(table, on=lambda order: order.key, how="left", retention="10 minutes", name="rows")
every_row = app.broadcast("numbers/*", **first, name="every-row")
sums = orders.key_by(name="by-order").map_with(every_row, sum_text)
rows.map(row_text).merge(sums).sink("out")
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[str], World]]:
    worlds = list[World]()

    def make(mode: str) -> World:
        worlds.append(World(tmp_path, APPLICATION, mode))
        return worlds[-1]

    yield make
    for world in worlds:
        world.rig.dispose()


def expected(last: int) -> Counter[str]:
    """The results, by a loop over all messages: an order meets the changes before it, of all messages with lower numbers."""
    found, rows = list[str](), dict[bytes, int]()
    for n in range(1, last + 1):
        for partition in PARTITIONS:
            order = f"dated/{partition} {number_sequence(n)}"
            found.append(f"row {order} {rows.get(number_key(n))}")
            found.append(f"sum {order} {sum(rows.values())} of {len(rows)}")
        rows[number_key(n)] = number_value(n)
    return Counter(found)


def awaits(world: World, what: str) -> bool:
    """Whether all orders are at the gateway, and wait because the tables lack something. Nothing follows from them yet."""
    assert not world.lines(), "an order was read before the tables"
    orders = [world.rig.gateway.stream(f"dated/{partition}") for partition in PARTITIONS]
    pipeline = world.rig.gateway.pipeline("table-first")
    if pipeline is None or any(order is None or order.received.sequence < number_sequence(ORDERS) for order in orders):
        return False
    read = [each.stream for each in pipeline.committed if each.stream.startswith("dated/") and each.position.sequence > 0]
    assert not read, "an order was committed before the tables were read"
    return [what in table.waits_for for table in pipeline.awaited_tables] == [True, True]


@pytest.mark.parametrize("mode", MODES)
def test_orders_wait_for_a_table_whose_connector_starts_last_though_every_process_is_killed(
    made: Callable[[str], World], mode: str
) -> None:
    world = made(mode)
    table = world.sources["numbers"]
    for partition in PARTITIONS:
        world.sources["dated"].offer(partition, ORDERS)
    table.offer("0", ORDERS)
    for _ in range(2):
        world.start(without=["numbers"])
        world.rig.wait_until("orders wait for the tables", lambda: awaits(world, "2 streams, of which there is 0"))
        world.kill()
    for _ in range(2):
        world.start()
        world.rig.wait_until("orders wait for a partition", lambda: awaits(world, "2 streams, of which there is 1"))
        world.rig.wait_until("the other partition is read", lambda: table.has_acked("0", ORDERS))
        world.kill()
    table.offer("1", ORDERS)
    world.start()
    world.rig.wait_until("the first results are visible", lambda: world.lines().total() > 0)
    assert world.lines() <= expected(LAST)
    world.kill()
    world.start()
    world.offer(LAST, ends=True)

    def is_complete() -> bool:
        lines = world.lines()
        assert lines <= expected(LAST), lines - expected(LAST)
        return lines == expected(LAST)

    world.rig.wait_until("all results are visible", is_complete)

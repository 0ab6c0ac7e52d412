"""Spark, a real gateway, and sinks that are away."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.engine.real_sinks import RealSinks


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[RealSinks]:
    world = RealSinks(spark, tmp_path)
    yield world
    world.close()


def test_queries_whose_sinks_are_away_leave_the_slots_to_others(world: RealSinks) -> None:
    """The session has two slots, and two tasks that waited for their sinks would take both."""
    absent = [world.sink("absent-1"), world.sink("absent-2")]
    world.append("a")
    waiting = [world.start(process.name) for process in absent]
    batches = [world.folder / f"{process.name}-query" / "offsets" / "0" for process in absent]
    world.wait_until("both have planned their first batch", lambda: all(batch.exists() for batch in batches))
    world.sink("results").start()
    world.start("results")
    world.wait_until("the other query continues", lambda: world.visible("results") == ["a"])
    world.append("b")
    world.wait_until("it continues again", lambda: world.visible("results") == ["a", "b"])
    assert all(query.isActive for query in waiting)
    for process in absent:
        process.start()
    for process in absent:
        world.wait_until("they continue, too", lambda name=process.name: world.visible(name) == ["a", "b"])
    for process in absent:
        process.kill()
    world.wait_until("the gateway has noticed", lambda: not any(world.is_served(process.name) for process in absent))
    world.append("c")
    world.wait_until("the other query continues", lambda: world.visible("results") == ["a", "b", "c"])
    for process in absent:
        process.start()
        world.wait_until("they continue, too", lambda name=process.name: world.visible(name) == ["a", "b", "c"])

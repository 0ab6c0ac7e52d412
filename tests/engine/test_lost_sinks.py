"""Spark, a real gateway, and a sink that comes back without what it voted for."""

import re
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


def test_a_sink_that_lost_its_disk_fails_the_query_until_that_is_accepted(world: RealSinks) -> None:
    sink = world.sink("results")
    sink.start()
    world.append("a", "b")
    query = world.start("results")
    world.wait_until("the batch is visible", lambda: world.visible("results") == ["a", "b"])
    votes = world.folder / "results-query" / "headrace-votes.json"
    world.wait_until("the checkpoint has the vote", votes.exists)
    query.stop()
    # Nobody but the checkpoint remembers the vote then.
    for process in (sink, world.gateway):
        process.kill()
    world.lose("results")
    for process in (world.gateway, sink):
        process.start()
    world.wait_until("the sink is back", lambda: world.is_served("results"))
    failure = world.failure(world.start("results"))
    assert re.search(r"sink results has lost rows: its instance results voted for batch \d", failure)
    assert "onSinkLoss" in failure
    (shown,) = world.status().sinks
    assert ([lost.instance for lost in shown.lost], shown.losses) == (["results"], 1)
    world.queries.clear()
    world.append("c")
    world.start("results", onSinkLoss="accept")
    world.wait_until("the query continues without it", lambda: world.visible("results") == ["c"])


def test_a_sink_that_loses_its_disk_while_a_query_runs_fails_its_next_batch(world: RealSinks) -> None:
    sink = world.sink("results")
    sink.start()
    world.append("a", "b")
    query = world.start("results")
    world.wait_until("the batch is visible", lambda: world.visible("results") == ["a", "b"])
    sink.kill()
    world.lose("results")
    sink.start()
    world.wait_until("the gateway has noticed", lambda: [lost for one in world.status().sinks for lost in one.lost])
    world.append("c")
    failure = world.failure(query)
    assert re.search(r"SinkLost: instance results of sink results voted for batch \d", failure)
    world.queries.clear()

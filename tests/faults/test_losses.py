"""A source that no longer has what a pipeline must read fails the query, or is skipped where that was asked for."""

from collections.abc import Callable
from dataclasses import replace

from tests.faults.processes import Process
from tests.faults.queries import Query
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_sequence

STREAM = "numbers/0"
READ = 100
BY_EXECUTORS = {"inlineBytes": "0"}


def up_to(first: int, last: int) -> list[int]:
    """The sequences of some messages."""
    return [number_sequence(n) for n in range(first, last + 1)]


def sequences(query: Query) -> list[int]:
    """The messages that a query has seen."""
    return [sequence for _, sequence, _ in query.rows()]


def committed_world(rig: Callable[[str], Rig], options: dict[str, str] | None = None) -> tuple[Rig, Numbers, Process, Query]:
    """A query that has committed READ messages, and has nothing left to do."""
    world = rig("")
    source = Numbers(world.source_folder("numbers"))
    source.offer("0", READ)
    query = world.query("losses", "record", "numbers/*", options)
    connector = world.connector("numbers")
    world.gateway.start()
    connector.start()
    world.run(query)
    world.wait_until("all is acknowledged", lambda: source.acked("0") == READ)
    return world, source, connector, query


def lose_what_comes_next(world: Rig, source: Numbers, connector: Process) -> None:
    """The next fifty messages are deleted before the connector could read them."""
    connector.kill()
    source.forget("0", READ + 50)
    source.offer("0", READ + 100)
    connector.start()


def plan(world: Rig, source: Numbers, query: Query) -> int:
    """Has a batch planned that executors will read once the query is unblocked; returns its last message."""
    plans = query.plans
    query.block()
    source.offer("0", READ + 100)
    world.wait_until("a batch is planned", lambda: query.plans > plans)
    return query.planned(STREAM) // 2


def lose_half(world: Rig, source: Numbers, connector: Process, planned: int) -> int:
    """Gateway and connector die, and meanwhile half of the planned messages are deleted; returns the last of these."""
    world.gateway.kill()
    connector.kill()
    deleted = (READ + planned) // 2
    source.forget("0", deleted)
    world.gateway.start()
    connector.start()
    return deleted


def test_messages_that_were_never_planned_fail_the_query(rig: Callable[[str], Rig]) -> None:
    world, source, connector, query = committed_world(rig)
    lose_what_comes_next(world, source, connector)
    world.names("position-lost", f"stream {STREAM}")
    error = world.failure(query)
    assert STREAM in error
    assert f"sequence {number_sequence(READ)}" in error
    assert f"{number_sequence(READ + 51)}" in error
    assert "failOnDataLoss" in error
    assert sequences(query) == up_to(1, READ)
    world.run(replace(query, options={"failOnDataLoss": "false"}))
    world.wait_until("the rest is acknowledged", lambda: source.acked("0") == READ + 100)
    world.clears(f"stream {STREAM}", "pipeline losses")


def test_messages_that_were_never_planned_are_skipped_on_request(rig: Callable[[str], Rig]) -> None:
    world, source, connector, query = committed_world(rig, {"failOnDataLoss": "false"})
    lose_what_comes_next(world, source, connector)
    world.wait_until("the rest is acknowledged", lambda: source.acked("0") == READ + 100)
    assert sequences(query) == up_to(1, READ) + up_to(READ + 51, READ + 100)
    status = world.gateway.stream(STREAM)
    assert status is not None
    assert status.losses == 1
    assert "lost messages skipped" in world.gateway.log_tail()


def test_a_replay_that_is_lost_in_part_fails_the_query(rig: Callable[[str], Rig]) -> None:
    world, source, connector, query = committed_world(rig, BY_EXECUTORS)
    planned = plan(world, source, query)
    lose_half(world, source, connector, planned)
    query.unblock()
    error = world.failure(query)
    assert STREAM in error
    assert f"after sequence {number_sequence(READ)}, up to sequence {number_sequence(planned)}" in error
    assert "failOnDataLoss" in error
    assert sequences(query) == up_to(1, READ)
    world.names("position-lost", "pipeline losses", STREAM, root=f"stream {STREAM}", waits=STREAM)
    world.run(replace(query, options={**BY_EXECUTORS, "failOnDataLoss": "false"}))
    world.wait_until("the rest is acknowledged", lambda: source.acked("0") == READ + 100)
    world.clears(f"stream {STREAM}", "pipeline losses")


def test_a_replay_that_is_lost_in_part_is_skipped_on_request(rig: Callable[[str], Rig]) -> None:
    world, source, connector, query = committed_world(rig, {**BY_EXECUTORS, "failOnDataLoss": "false"})
    deleted = lose_half(world, source, connector, plan(world, source, query))
    query.unblock()
    world.wait_until("the rest is acknowledged", lambda: source.acked("0") == READ + 100)
    source.offer("0", READ + 150)
    world.wait_until("the query continues", lambda: source.acked("0") == READ + 150)
    assert sequences(query) == up_to(1, READ) + up_to(deleted + 1, READ + 150)
    status = world.gateway.stream(STREAM)
    assert status is not None
    assert status.losses == 1


def test_a_replay_that_is_lost_as_a_whole_fails_the_query(rig: Callable[[str], Rig]) -> None:
    world, source, connector, query = committed_world(rig, BY_EXECUTORS)
    planned = plan(world, source, query)
    lose_half(world, source, connector, READ + 2 * (planned - READ) + 10)
    query.unblock()
    error = world.failure(query)
    assert STREAM in error
    assert f"up to sequence {number_sequence(planned)}" in error


def test_a_replay_that_was_lost_while_the_query_was_down_fails_it(rig: Callable[[str], Rig]) -> None:
    world, source, connector, query = committed_world(rig, BY_EXECUTORS)
    planned = plan(world, source, query)
    world.gateway.kill()
    connector.kill()
    query.unblock()
    world.stop(query)
    source.forget("0", (READ + planned) // 2)
    world.gateway.start()
    connector.start()
    world.run(query)
    error = world.failure(query)
    assert STREAM in error
    # A batch that is read again is shared out over the tasks; the error names the part that is gone.
    assert f"after sequence {number_sequence(READ)}, up to sequence" in error
    assert sequences(query) == up_to(1, READ)


def test_a_replay_that_is_lost_as_a_whole_is_skipped_on_request(rig: Callable[[str], Rig]) -> None:
    world, source, connector, query = committed_world(rig, {**BY_EXECUTORS, "failOnDataLoss": "false"})
    planned = plan(world, source, query)
    deleted = lose_half(world, source, connector, READ + 2 * (planned - READ) + 10)
    assert deleted > planned
    query.unblock()
    world.wait_until("the rest is acknowledged", lambda: source.acked("0") == READ + 100)
    assert sequences(query) == up_to(1, READ) + up_to(deleted + 1, READ + 100)

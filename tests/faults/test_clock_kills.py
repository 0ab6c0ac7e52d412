"""Timers by the clock and early results on real Spark, in micro-batches and in real time, though every process is killed."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.sources import number_key, number_sequence
from tests.faults.world import MODES, PARTITIONS, World

pytestmark = pytest.mark.timeout(900)
OFFERED = (100, 200, 300)
"""The last message of each partition, before each kill and after the last one."""
WIDTH = 40
APPLICATION = f"""
from headrace.pipelines import Pipeline, count, tumbling


def watch(message, state, context):
    context.set_timer(after_clock="1 second")
    state.append(f"{{message.stream}} {{message.sequence}}")


def ring(state, context):
    texts, state[:] = [f"rung {{text}}" for text in state], []
    return texts


def described(key, values, window):
    return f"{{'early' if window.is_early else 'final'}} {{window.start // 1_000_000}} {{values}}"


app = Pipeline("clocks")
values = app.source("dated/*").key_by()
values.stateful_flat(watch, list, on_timer=ring, clock_every="1 second").sink("out")
windows = values.window(tumbling("{WIDTH} seconds"), emit_every="1 second")
windows.aggregate(count(), output=lambda key, n, window: described(key, n, window), name="counts").sink("out")
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
    """What timers and closed windows produce, by a loop over all messages."""
    both = range(1, last + 1)
    rung = Counter(f"rung dated/{partition} {number_sequence(n)}" for n in both for partition in PARTITIONS)
    sizes = Counter((number_key(n), number_sequence(n) // 2 // WIDTH * WIDTH) for n in both)
    return rung + Counter(f"final {start} {len(PARTITIONS) * size}" for (_, start), size in sizes.items())


@pytest.mark.parametrize("mode", MODES)
def test_each_timer_fires_once_and_each_window_closes_once_after_early_results(made: Callable[[str], World], mode: str) -> None:
    world = made(mode)
    world.start()

    def lines(word: str) -> Counter[str]:
        return Counter({line: n for line, n in world.lines().items() if line.startswith(word)})

    for number, last in enumerate(OFFERED):
        world.offer(last, ends=last == OFFERED[-1])
        rung = Counter({line: n for line, n in expected(last).items() if line.startswith("rung")})
        if last < OFFERED[-1]:
            # Nothing arrives any more: only the clock lets them fire.
            world.rig.wait_until(f"the timers of part {number} have fired", lambda wanted=rung: lines("rung") >= wanted)  # type: ignore[misc]
            assert lines("rung") == rung
            world.rig.wait_until(f"early results {number} are visible", lambda: lines("early").total() > 0)
            world.kill()
            world.start()
    world.rig.wait_until("all windows are closed", lambda: lines("final") >= lines_of(expected(OFFERED[-1]), "final"))
    assert lines("final") == lines_of(expected(OFFERED[-1]), "final")


def lines_of(found: Counter[str], word: str) -> Counter[str]:
    return Counter({line: n for line, n in found.items() if line.startswith(word)})

"""Timers and expiry by the clock, and early results, on real Spark, in both modes, though every process is killed."""

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
EXPIRY = """
from headrace.pipelines import Pipeline, collect, count, count_window

app = Pipeline("expiry")
named = app.source("dated/*").key_by().map(lambda message: f"{message.stream} {message.sequence}", name="name")
threes = named.window(count_window(3, clock_ttl="1 second"))
threes.aggregate(collect(), output=lambda key, found, window: f"window {','.join(found)}", name="threes").sink("out")
counts = named.aggregate(count(), output=lambda key, n, window: f"count {key.decode()} {n}", clock_ttl="1 second", name="counts")
counts.sink("out")
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., World]]:
    worlds = list[World]()

    def make(mode: str, application: str = APPLICATION) -> World:
        worlds.append(World(tmp_path, application, mode))
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
def test_each_timer_fires_once_and_each_window_closes_once_after_early_results(made: Callable[..., World], mode: str) -> None:
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


@pytest.mark.parametrize("mode", MODES)
def test_each_value_is_in_one_window_that_the_clock_ends_and_counts_begin_anew_after_it(
    made: Callable[..., World], mode: str
) -> None:
    world = made(mode, EXPIRY)
    world.start()

    def in_windows() -> Counter[str]:
        windows = lines_of(world.lines(), "window ").elements()
        return Counter(value for line in windows for value in line.removeprefix("window ").split(","))

    for number, last in enumerate(OFFERED):
        world.offer(last, ends=False)
        values = Counter(f"dated/{partition} {number_sequence(n)}" for n in range(1, last + 1) for partition in PARTITIONS)
        # Nothing arrives any more: only the clock ends windows with less than three values.
        world.rig.wait_until(f"all values of part {number} are visible", lambda wanted=values: in_windows() >= wanted)  # type: ignore[misc]
        assert in_windows() == values
        counts = Counter({(line.split()[1], int(line.split()[2])): n for line, n in lines_of(world.lines(), "count ").items()})
        keys = Counter(number_key(n).decode() for n in range(1, last + 1) for _ in PARTITIONS)
        assert {key: sum(n for (of, _), n in counts.items() if of == key) for key in keys} == keys
        for (key, count), times in counts.items():
            assert times <= counts[key, 1 if count == 1 else count - 1], "each count follows the one before it"
        assert all(counts[key, 1] >= number + 1 for key in keys), "what has expired begins anew"
        world.kill()
        if last < OFFERED[-1]:
            world.start()


def lines_of(found: Counter[str], word: str) -> Counter[str]:
    return Counter({line: n for line, n in found.items() if line.startswith(word)})
